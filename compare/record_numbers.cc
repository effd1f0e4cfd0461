#include "compare/record_numbers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "compare/element.h"
#include "compare/names.h"
#include "compare/pass_diff.h"
#include "compare/text.h"

namespace tdump::compare {
namespace {

constexpr uint64_t kMostNumbers = 1 << 20;
constexpr int kOther = 3;  // names that are not it

constexpr char kExpected[] =
    "expected integers, lengths (8, 12, 4) or where they begin and end (0, 8, 20, 24)";

bool IsInteger(const DType& dtype) {
  const NumberFormat format = FormatOf(dtype);
  return format.kind == NumberKind::kInteger && !format.is_bool;
}

// The key's own text, and that without what tells one call from another.
bool IsKey(const Key& key, std::string_view name) {
  Key first = key;
  first.call = 0;
  first.micro = first.chunk = first.lane = 0;
  first.recompute = false;
  return ToText(key) == name || ToText(first) == name;
}

// How well the name fits: 0 is best.
int FitOf(const io::Record& record, const Key& shared, std::string_view name) {
  if (IsKey(record.key, name) || IsKey(shared, name)) return 0;
  if (NameOf(record) == name) return 1;
  const bool tap = record.kind == OperatorKind::kTap && record.key.op == name;
  return tap || LastComponent(record.key.arg) == name ? 2 : kOther;
}

// Of several those that are like it, where some are.
template <class T>
void Prefer(const std::function<bool(const T&)>& like, std::vector<T>* several) {
  if (std::any_of(several->begin(), several->end(), like))
    std::erase_if(*several, [&](const T& one) { return !like(one); });
}

}  // namespace

const std::vector<RecordNumbers::Named>& RecordNumbers::NamedBy(const std::string& name) {
  const auto [place, added] = named_.try_emplace(name);
  if (!added) return place->second;
  int best = kOther;
  const std::vector<Group>& groups = step_->groups();
  for (size_t i = 0; i < groups.size(); ++i) {
    const auto data = step_->DataOf(groups[i].members.front());
    if (!data.ok()) continue;
    const int fit = FitOf(data->record, groups[i].key, name);
    if (fit == kOther || fit > best) continue;
    if (fit < best) place->second.clear();
    best = fit;
    place->second.push_back({i, data->record.key, IsInteger(data->record.dtype)});
  }
  return place->second;
}

Result<std::vector<uint64_t>> RecordNumbers::Find(const std::string& name, const Key& of) {
  std::vector<Named> named = NamedBy(name);
  if (named.empty())
    return InvalidArgument(
        fmt::format("no record of this step is called '{}': {}", name, kExpected));
  Prefer<Named>([](const Named& one) { return one.integer; }, &named);
  Prefer<Named>([&](const Named& one) { return one.key.micro == of.micro; }, &named);
  Prefer<Named>([&](const Named& one) { return one.key.call == of.call; }, &named);
  const Named& first = named.front();
  for (const Named& one : named) {
    const auto& numbers = NumbersOf(one.group);
    if (!numbers.ok()) {
      Status why = numbers.status();
      return std::move(why).Annotate(fmt::format("record {}", ToText(one.key)));
    }
    if (*numbers != *NumbersOf(first.group))
      return InvalidArgument(
          fmt::format("'{}' are {} records, of which {} and {} hold different "
                      "numbers: name one by its key",
                      name, named.size(), ToText(first.key), ToText(one.key)));
  }
  return NumbersOf(first.group);
}

const Result<std::vector<uint64_t>>& RecordNumbers::NumbersOf(size_t group) {
  const auto found = numbers_.find(group);
  if (found != numbers_.end()) return found->second;
  return numbers_.emplace(group, ReadGroup(step_->groups()[group])).first->second;
}

// Equal hashes are read once.
Result<std::vector<uint64_t>> RecordNumbers::ReadGroup(const Group& group) const {
  std::optional<io::Hash128> hash;
  std::optional<std::vector<uint64_t>> first;
  for (const Member& member : group.members) {
    TDUMP_ASSIGN_OR_RETURN(const MemberData data, step_->DataOf(member));
    if (first && hash && data.record.hash == hash) continue;
    TDUMP_ASSIGN_OR_RETURN(std::vector<uint64_t> numbers, Read(member, data));
    if (first && *first != numbers)
      return InvalidArgument(fmt::format(
          "ranks {} and {} hold different numbers, expected those of the whole on every rank",
          step_->RankOf(group.members.front()), step_->RankOf(member)));
    if (!first) hash = data.record.hash;
    first = std::move(numbers);
  }
  return *std::move(first);
}

Result<std::vector<uint64_t>> RecordNumbers::Read(const Member& member,
                                                  const MemberData& data) const {
  const io::Record& record = data.record;
  if (!IsInteger(record.dtype))
    return InvalidArgument(fmt::format("it holds {}: {}", record.dtype.view(), kExpected));
  const Shape shape(record.sizes.begin(), record.sizes.end());
  const auto long_dims =
      std::count_if(shape.begin(), shape.end(), [](uint64_t size) { return size != 1; });
  uint64_t count = 0;
  if (long_dims > 1 || !UnitsOf(shape, &count) || count > kMostNumbers)
    return InvalidArgument(fmt::format("its shape is {}, expected one dimension of at most {}",
                                       ShapeText(shape), kMostNumbers));
  if (!record.payload)
    return InvalidArgument("it was kept without its values: capture it with level full");
  TDUMP_ASSIGN_OR_RETURN(const Source source, step_->OpenShard({member, nullptr}));
  std::vector<std::byte> bytes(count * record.dtype.unit_bytes());
  TDUMP_RETURN_IF_ERROR(source->Read(0, bytes));
  const NumberFormat format = FormatOf(record.dtype);
  std::vector<__int128> values(count * static_cast<size_t>(NumbersPerUnit(record.dtype, format)));
  DecodeInteger(record.dtype, format, bytes, values);
  std::vector<uint64_t> numbers;
  for (const __int128 value : values) {
    if (value < 0)
      return InvalidArgument(
          fmt::format("it holds {} at [{}]: {}", Int128Text(value), numbers.size(), kExpected));
    numbers.push_back(static_cast<uint64_t>(value));
  }
  return numbers;
}

}  // namespace tdump::compare
