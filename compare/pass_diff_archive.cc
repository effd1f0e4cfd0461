#include "compare/pass_diff_archive.h"

#include <algorithm>
#include <cereal/archives/binary.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/unordered_map.hpp>
#include <cereal/types/vector.hpp>
#include <exception>
#include <sstream>
#include <tuple>
#include <utility>

#include "compare/uneven_copies.h"

// Each function names all fields of its type, so that a new one does not compile until it is added.
namespace tdump::io {

template <class Archive>
void serialize(Archive& archive, Damage& damage) {
  auto& [file, offset, what] = damage;
  archive(file, offset, what);
}

}  // namespace tdump::io

namespace tdump::compare {

template <class Archive, class T>
void serialize(Archive& archive, Rare<T>& rare) {
  bool is_set = rare.is_set();
  archive(is_set);
  if (is_set) archive(rare.Edit());
}

template <class Archive>
void serialize(Archive& archive, RecordIds& ids) {
  auto& [a, b] = ids;
  archive(a, b);
}

template <class Archive, class T>
void serialize(Archive& archive, Packed<T>& packed) {
  std::string bytes(packed.bytes());
  archive(bytes);
  if constexpr (Archive::is_loading::value) packed = Packed<T>::FromBytes(bytes);
}

template <class Archive>
void serialize(Archive& archive, Notes& notes) {
  Notes::List list = notes.Copy();
  archive(list);
  if constexpr (Archive::is_loading::value) notes = Notes(std::move(list));
}

template <class Archive>
void serialize(Archive& archive, Verdict& verdict) {
  auto& [shape, dtype, bitwise, tolerance, special, statistics, shape_allowed, dtype_allowed,
         special_allowed] = verdict;
  archive(shape, dtype, bitwise, tolerance, special, statistics, shape_allowed, dtype_allowed,
          special_allowed);
}

template <class Archive>
void serialize(Archive& archive, Reduction& reduction) {
  auto& [kind, length, exact] = reduction;
  archive(kind, length, exact);
}

template <class Archive>
void serialize(Archive& archive, Bound& bound) {
  auto& [relative, scale, text] = bound;
  archive(relative, scale, text);
}

template <class Archive>
void serialize(Archive& archive, ErrorLevel& level) {
  auto& [power, peak, gain, common] = level;
  archive(power, peak, gain, common);
}

template <class Archive>
void serialize(Archive& archive, LocalBound& local) {
  auto& [bound, level] = local;
  archive(bound, level);
}

template <class Archive>
void serialize(Archive& archive, Rounding& rounding) {
  auto& [reduction, local] = rounding;
  archive(reduction, local);
}

template <class Archive>
void serialize(Archive& archive, std::shared_ptr<const Rounding>& rounding) {
  bool is_set = rounding != nullptr;
  archive(is_set);
  if (!is_set) return;
  Rounding copy = RoundingOf(rounding);
  archive(copy);
  if constexpr (Archive::is_loading::value)
    rounding = std::make_shared<const Rounding>(std::move(copy));
}

template <class Archive>
void serialize(Archive& archive, Comparison& comparison) {
  auto& [metrics, notes, verdict, evidence] = comparison;
  archive(verdict, evidence, notes, metrics);
}

// But for the rule, which is another address in another process.
template <class Archive>
void serialize(Archive& archive, Outcome& outcome) {
  auto& [ids, call, order, path, key_hash, rounding, rule, explanation, unresolved, error,
         comparison, role, root_input, of_optimizer, fails, bits_differ, allowed, rank_a, rank_b] =
      outcome;
  archive(ids, call, order, path, key_hash, rounding, explanation, unresolved, error, comparison,
          rank_a, rank_b, role, root_input, of_optimizer, fails, bits_differ, allowed);
}

template <class Archive>
void serialize(Archive& archive, CallSpan& call) {
  auto& [begin, end, parent, kind, root, path, op] = call;
  archive(begin, end, parent, kind, root, path, op);
}

template <class Archive>
void serialize(Archive& archive, LostCopy& copy) {
  auto& [tensor, partner, rank, how, ran] = copy;
  archive(tensor, partner, rank, how, ran);
}

template <class Archive>
void serialize(Archive& archive, PassDiff& diff) {
  // Passes of ranks that are put together, which alone have `killed_a` or `killed_b`, are not sent.
  auto& [a, b, spill, outcomes, only_a, only_b, lost_a, lost_b, rank_lists, killed_a, killed_b,
         calls, structure, is_later_stage, weights_of_other_steps, damage, notes] = diff;
  archive(outcomes, only_a, only_b, lost_a, lost_b, rank_lists, calls, structure, is_later_stage,
          weights_of_other_steps, damage, notes);
}

std::string ArchivePassDiff(const PassDiff& diff, const BoundRules* rules) {
  std::vector<int64_t> numbers;
  for (const Outcome& outcome : diff.outcomes)
    numbers.push_back(rules != nullptr ? rules->IndexOf(outcome.rule) : -1);
  std::ostringstream out;
  cereal::BinaryOutputArchive archive(out);
  archive(const_cast<PassDiff&>(diff), numbers);  // only read
  return std::move(out).str();
}

namespace {

// Whether each refers to a list that is there.
bool HaveLists(const std::vector<LostCopy>& lost, const RankLists& lists) {
  return std::all_of(lost.begin(), lost.end(), [&](const LostCopy& copy) {
    const bool has_list = copy.how == LostCopy::How::kSkipped || IsHeldByOthers(copy);
    return !has_list || copy.ran < lists.size();
  });
}

}  // namespace

Result<PassDiff> UnarchivePassDiff(std::string_view bytes, const BoundRules* rules) {
  PassDiff diff;
  std::vector<int64_t> numbers;
  try {
    std::istringstream in{std::string(bytes)};
    cereal::BinaryInputArchive archive(in);
    archive(diff, numbers);
  } catch (const std::exception& error) {
    return Corrupt(std::string("a result of another process: ") + error.what());
  }
  if (!HaveLists(diff.lost_a, diff.rank_lists) || !HaveLists(diff.lost_b, diff.rank_lists))
    return Corrupt("a result of another process: ranks are not listed");
  for (size_t i = 0; i < std::min(numbers.size(), diff.outcomes.size()); ++i)
    diff.outcomes[i].rule = rules != nullptr ? rules->At(numbers[i]) : nullptr;
  return diff;
}

std::string ArchiveOutcomes(const std::vector<Outcome>& outcomes, std::span<const uint32_t> numbers,
                            const BoundRules* rules) {
  std::ostringstream out;
  cereal::BinaryOutputArchive archive(out);
  archive(static_cast<uint64_t>(numbers.size()));
  for (const uint32_t number : numbers) {
    auto& outcome = const_cast<Outcome&>(outcomes[number]);  // only read
    archive(number, rules != nullptr ? rules->IndexOf(outcome.rule) : int64_t{-1}, outcome);
  }
  return std::move(out).str();
}

Result<std::vector<NumberedOutcome>> UnarchiveOutcomes(std::string_view bytes,
                                                       const BoundRules* rules) {
  std::vector<NumberedOutcome> outcomes;
  try {
    std::istringstream in{std::string(bytes)};
    cereal::BinaryInputArchive archive(in);
    uint64_t count = 0;
    archive(count);
    for (uint64_t i = 0; i < count; ++i) {
      auto& [number, outcome] = outcomes.emplace_back();
      int64_t rule = -1;
      archive(number, rule, outcome);
      outcome.rule = rules != nullptr ? rules->At(rule) : nullptr;
    }
  } catch (const std::exception& error) {
    return Corrupt(std::string("a result of another process: ") + error.what());
  }
  return outcomes;
}

}  // namespace tdump::compare
