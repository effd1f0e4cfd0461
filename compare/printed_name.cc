#include "compare/printed_name.h"

#include <string>

#include "compare/pass_diff.h"
#include "compare/record_patterns.h"
#include "compare/report_lines.h"
#include "compare/roles.h"
#include "io/address.h"

namespace tdump::compare {

namespace {

// Whether `shown` is the text, or what is left of it in a narrow column: "model.lay….mlp, output".
bool IsCutFrom(std::string_view shown, std::string_view text) {
  constexpr std::string_view kCut = "…";
  const size_t cut = shown.find(kCut);
  if (cut == std::string_view::npos) return shown == text;
  const std::string_view head = shown.substr(0, cut), tail = shown.substr(cut + kCut.size());
  return text.size() >= head.size() + tail.size() && text.starts_with(head) && text.ends_with(tail);
}

}  // namespace

bool NameMatchesPrinted(std::string_view name, const io::Record& record) {
  const Key& key = record.key;
  if (io::NameMatches(name, key)) return true;
  if (IsWeight(key.role) && name == NameOf(record)) return true;
  if (name.find(", ") == std::string_view::npos) return false;  // most of a walk
  // Tables have the first, the line of an origin the second.
  const std::string what = ", " + ObservationText(key);
  return IsCutFrom(name, ShownName(NameOf(record)) + what) ||
         IsCutFrom(name, ShownName(PlainName(key.root, key.path, key.op)) + what);
}

}  // namespace tdump::compare
