#include "filters/level.h"

#include <optional>

#include "core/parse_number.h"
#include "core/slice.h"
#include "settings/mistakes.h"

namespace tdump::filters {
namespace {

constexpr size_t kMaxDims = 64;

std::string_view Trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::optional<int64_t> Number(std::string_view text) { return ParseNumber<int64_t>(Trim(text)); }

// Up to the next `mark`, which is taken too; false when nothing is left.
bool TakeUntil(char mark, std::string_view* rest, std::string_view* field) {
  if (rest->data() == nullptr) return false;
  const size_t at = rest->find(mark);
  *field = rest->substr(0, at);
  *rest = at == std::string_view::npos ? std::string_view() : rest->substr(at + 1);
  return true;
}

// "3", "0:8", ":", "-4:", "0:100:10".
bool ParseRange(std::string_view text, SliceRange* range) {
  if (text.find(':') == std::string_view::npos) {
    const std::optional<int64_t> index = Number(text);
    if (!index) return false;
    range->begin = *index;
    range->end = *index == -1 ? INT64_MAX : *index + 1;
    return true;
  }
  int64_t* const fields[] = {&range->begin, &range->end, &range->step};
  std::string_view field;
  size_t i = 0;
  while (TakeUntil(':', &text, &field)) {
    if (i == 3) return false;
    if (!Trim(field).empty()) {
      const std::optional<int64_t> number = Number(field);
      if (!number) return false;
      *fields[i] = *number;
    }
    ++i;
  }
  return range->step >= 1;
}

Status BadSlice(std::string_view what) {
  return InvalidArgument("'" + settings::Printable(what) +
                         "': expected a slice such as slice[0:8, :] or slice[-1, ::4], bounds as "
                         "in Python, steps from 1");
}

Status AddSlice(std::string_view word, Level* level) {
  std::string_view ranges = word.substr(std::string_view("slice").size());
  if (!ranges.starts_with('[') || !ranges.ends_with(']')) return BadSlice(word);
  ranges = ranges.substr(1, ranges.size() - 2);
  std::vector<SliceRange> slice;
  std::string_view field;
  while (TakeUntil(',', &ranges, &field)) {
    SliceRange range;
    if (!ParseRange(field, &range) || slice.size() == kMaxDims) return BadSlice(word);
    slice.push_back(range);
  }
  if (!level->slice.empty() && level->slice != slice)
    return InvalidArgument("two slices; expected one in a rule");
  level->slice = std::move(slice);
  level->parts |= kPartMeta | kPartSlice;
  return Status();
}

Status AddSample(std::string_view word, Level* level) {
  const std::string_view argument = word.substr(std::string_view("sample").size());
  uint64_t count = kDefaultSample;
  if (!argument.empty()) {
    const std::optional<int64_t> number =
        argument.starts_with(':') ? Number(argument.substr(1)) : std::nullopt;
    if (!number || *number < 1 || static_cast<uint64_t>(*number) > kMaxSample) {
      return InvalidArgument("'" + settings::Printable(word) +
                             "': expected sample:N, N from 1 to " + std::to_string(kMaxSample));
    }
    count = static_cast<uint64_t>(*number);
  }
  level->sample = std::max(level->sample, count);
  level->parts |= kPartMeta | kPartSample;
  return Status();
}

std::string SliceText(const std::vector<SliceRange>& slice) {
  std::string text;
  for (const SliceRange& range : slice) {
    text += text.empty() ? "" : ", ";
    if (range.begin != 0) text += std::to_string(range.begin);
    text += ':';
    if (range.end != INT64_MAX) text += std::to_string(range.end);
    if (range.step != 1) text += ':' + std::to_string(range.step);
  }
  return "'slice[" + text + "]'";
}

}  // namespace

Status AddLevelWord(std::string_view word, Level* level) {
  if (word.starts_with("slice")) return AddSlice(word, level);
  if (word == "sample" || word.starts_with("sample:")) return AddSample(word, level);
  if (word == "off") return Status();
  if (word == "meta")
    level->parts |= kPartMeta;
  else if (word == "hash")
    level->parts |= kPartMeta | kPartHash;
  else if (word == "stats")
    level->parts |= kPartMeta | kPartStats;
  else if (word == "full")
    level->parts |= kLevelFull;
  else
    return {StatusCode::kNotFound, "no such level"};
  return Status();
}

std::string PrintLevel(const Level& level) {
  if (level.parts == kPartNone) return "off";
  std::vector<std::string> words;
  if ((level.parts & kPartPayload) != 0)
    words.push_back("full");
  else if ((level.parts & kPartHash) != 0)
    words.push_back("hash");
  if ((level.parts & kPartStats) != 0) words.push_back("stats");
  if ((level.parts & kPartSample) != 0) {
    words.push_back("sample");
    if (level.sample != 0 && level.sample != kDefaultSample)
      words.back() += ':' + std::to_string(level.sample);
  }
  if ((level.parts & kPartSlice) != 0)
    words.push_back(level.slice.empty() ? "slice" : SliceText(level.slice));
  if (words.empty()) return "meta";
  if (words.size() == 1) return words[0];
  std::string list;
  for (const std::string& word : words) list += (list.empty() ? "" : ", ") + word;
  return "[" + list + "]";
}

}  // namespace tdump::filters
