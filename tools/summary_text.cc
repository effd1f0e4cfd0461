#include "tools/summary_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/value_stream.h"

namespace tdump::tools {
namespace {

constexpr std::string_view kClass = "tdump.log";  // kSummaryClass of the collectors
constexpr std::string_view kName = "stat";
constexpr size_t kMost = 8;  // values that are shown

Result<std::string> ValuesText(const io::PassReader& reader, const io::Record& record) {
  if (!record.payload) return std::string("not kept");
  ValueStream values(&reader, &record);
  std::vector<std::string> texts;
  while (!values.done() && texts.size() < kMost) {
    TDUMP_ASSIGN_OR_RETURN(const auto unit, values.Next());
    texts.push_back(values.Text(unit));
  }
  if (record.sizes.empty() && texts.size() == 1) return texts.front();
  return fmt::format("[{}{}]", fmt::join(texts, ", "), values.done() ? "" : ", ...");
}

// Of one that is damaged what there is to say.
std::string TextOf(const io::PassReader& reader, uint64_t id) {
  const Result<io::Record> record = reader.Get(id);
  if (!record.ok()) return "unreadable";
  const Result<std::string> text = ValuesText(reader, *record);
  return text.ok() ? *text : "unreadable";
}

}  // namespace

bool Summaries::Add(const io::Record& record) {
  if (record.subclass != kClass) return false;
  summaries_[{record.call_begin, record.key.role, record.key.arg}].record = record.id;
  return true;
}

void Summaries::Read(const io::PassReader& reader) {
  for (auto& [place, summary] : summaries_) summary.text = TextOf(reader, summary.record);
}

std::vector<std::pair<std::string, std::string>> Summaries::Of(uint64_t call_begin, Role role,
                                                               std::string_view arg) const {
  const std::string first = arg.empty() ? std::string(kName) : fmt::format("{}.{}", arg, kName);
  std::vector<std::pair<std::string, std::string>> found;
  for (auto at = summaries_.lower_bound({call_begin, role, first}); at != summaries_.end(); ++at) {
    const auto& [begin, of_role, name] = at->first;
    if (begin != call_begin || of_role != role || !name.starts_with(first)) break;
    if (name.size() != first.size() && name[first.size()] != '.') continue;
    found.emplace_back(name.substr(first.size() - kName.size()), at->second.text);
  }
  return found;
}

}  // namespace tdump::tools
