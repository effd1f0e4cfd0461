#include "compare/record_patterns.h"

#include <fmt/format.h>

#include "compare/pass_diff.h"
#include "core/key.h"
#include "io/printed_name.h"

namespace tdump::compare {

bool RecordPatterns::Match(const io::Record& record) const {
  const std::string name = NameOf(record);
  const bool by_name = of_names && of_names(name);
  if (!of_records) return by_name;
  // Each pattern is to see all of them (tools/watched_patterns.h).
  const bool by_key = of_records(ToText(record.key));
  const bool by_plain_key = of_records(PlainKey(record.key));
  const bool by_title = of_records(name + ", " + ObservationText(record.key));
  return by_name || by_key || by_plain_key || by_title;
}

std::string PlainKey(const Key& key) {
  return fmt::format("{}{}@{}#{}{}", PlainName(key.root, key.path, key.op),
                     key.call == 0 ? "" : fmt::format("::call{}", key.call), ToString(key.role),
                     key.arg, KeyMarks(key));
}

std::string RootInputName(const Key& key) {
  return key.root.empty() ? key.arg : fmt::format("{} of {}", key.arg, key.root);
}

std::string ObservationText(const Key& key) { return io::ObservationText(key); }

}  // namespace tdump::compare
