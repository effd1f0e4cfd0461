#include "core/spec.h"

#include <algorithm>
#include <limits>

#include "core/parse_number.h"

namespace tdump {
namespace {

constexpr int64_t kMaxIndex = std::numeric_limits<int64_t>::max();

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

}  // namespace

Spec Spec::All() {
  Spec spec;
  spec.all_ = true;
  return spec;
}

Result<Spec> Spec::Parse(std::string_view whole) {
  const std::string_view trimmed = Trim(whole);
  if (trimmed == "all") return All();
  if (trimmed == "none") return None();
  const auto bad = [&](std::string_view at, std::string_view expected) {
    return InvalidArgument("'" + std::string(whole) + "', position " +
                           std::to_string(at.data() - whole.data()) + ": expected " +
                           std::string(expected) + " (like 0-9, 3,7, 0-511:8, all, none)");
  };
  Spec spec;
  std::string_view rest = whole;
  while (true) {
    const size_t comma = rest.find(',');
    std::string_view item = Trim(rest.substr(0, comma));
    Item parsed;
    if (!TakeNumber(&item, &parsed.first)) return bad(item.empty() ? rest : item, "a number");
    if (parsed.first == std::numeric_limits<int64_t>::min()) return bad(rest, "a smaller number");
    parsed.last = parsed.first;
    if (item.starts_with('-')) {
      if (parsed.first < 0) return bad(item, "no range after a negative number");
      item.remove_prefix(1);
      if (item.starts_with('-') || !TakeNumber(&item, &parsed.last))
        return bad(item, "the end of the range");
      if (parsed.last < parsed.first) return bad(item, "an end not below the start");
    }
    if (item.starts_with(':')) {
      if (parsed.first == parsed.last) return bad(item, "a stride only after a range");
      item.remove_prefix(1);
      if (!TakeNumber(&item, &parsed.stride) || parsed.stride < 1)
        return bad(item, "a stride of at least 1");
    }
    if (!item.empty()) return bad(item, "',' or the end");
    spec.items_.push_back(parsed);
    if (comma == std::string_view::npos) return spec;
    rest = rest.substr(comma + 1);
  }
}

bool Spec::Contains(uint64_t index, uint64_t count) const {
  if (all_) return true;
  if (index > static_cast<uint64_t>(kMaxIndex)) return false;
  const int64_t i = static_cast<int64_t>(index);
  return std::any_of(items_.begin(), items_.end(), [&](const Item& item) {
    if (item.first < 0) return count != 0 && static_cast<int64_t>(count) + item.first == i;
    return i >= item.first && i <= item.last && (i - item.first) % item.stride == 0;
  });
}

bool Spec::has_negative() const {
  return std::any_of(items_.begin(), items_.end(), [](const Item& item) { return item.first < 0; });
}

uint64_t Spec::Min(uint64_t count) const {
  if (all_) return 0;
  uint64_t least = std::numeric_limits<uint64_t>::max();
  for (const Item& item : items_) {
    least = std::min(least,
                     static_cast<uint64_t>(item.first < 0 ? static_cast<int64_t>(count) + item.first
                                                          : item.first));
  }
  return least;
}

uint64_t Spec::Max(uint64_t count) const {
  if (all_) return std::numeric_limits<uint64_t>::max();
  uint64_t most = 0;
  for (const Item& item : items_) {
    most =
        std::max(most, static_cast<uint64_t>(
                           item.first < 0 ? static_cast<int64_t>(count) + item.first : item.last));
  }
  return most;
}

bool Spec::FitsIn(uint64_t count, std::string* misfit) const {
  for (const Item& item : items_) {
    const bool fits = item.first < 0 ? static_cast<uint64_t>(-item.first) <= count
                                     : static_cast<uint64_t>(item.last) < count;
    if (fits) continue;
    Spec one;
    one.items_.push_back(item);
    *misfit = one.ToString();
    return false;
  }
  return true;
}

std::string Spec::ToString() const {
  if (all_) return "all";
  if (items_.empty()) return "none";
  std::string text;
  for (const Item& item : items_) {
    if (!text.empty()) text += ',';
    text += std::to_string(item.first);
    if (item.last != item.first) text += "-" + std::to_string(item.last);
    if (item.stride != 1) text += ":" + std::to_string(item.stride);
  }
  return text;
}

}  // namespace tdump
