#include "compare/sparse_pairs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "compare/element.h"
#include "compare/pair_side.h"
#include "core/key.h"

namespace tdump::compare {
namespace {

constexpr uint64_t kMostBytes = 16 << 20;  // of a component
constexpr double kMostExact = 0x1p53;      // of integers as double

// The key of the tensor that a component belongs to; none: it is no component of that name.
std::optional<Key> WholeOf(const Key& key, std::string_view component) {
  if (!key.arg.ends_with(component)) return std::nullopt;
  const size_t rest = key.arg.size() - component.size();
  if (rest > 0 && key.arg[rest - 1] != '.') return std::nullopt;
  Key whole = key;
  whole.arg.resize(rest == 0 ? 0 : rest - 1);
  return whole;
}

// The pairs of a tensor.
struct SparsePair {
  Outcome* whole = nullptr;
  Outcome* indices = nullptr;
  Outcome* values = nullptr;
};

bool Disagrees(const Outcome& outcome) {
  const Verdict& v = outcome.comparison.verdict;
  return v.shape == Answer::kDiffers || v.tolerance == Answer::kDiffers;
}

// Those of which a component disagrees, in order of key.
std::vector<SparsePair> FindSparse(PassDiff* pass) {
  struct Ids {
    uint64_t whole = 0, indices = 0, values = 0;  // of B
  };
  std::map<Key, Ids> found;
  for (const Outcome& outcome : pass->outcomes) {
    if (!Disagrees(outcome)) continue;
    const auto b = pass->b->Get(outcome.ids.b);
    if (!b.ok()) continue;
    for (const std::string_view component : {"indices", "values"}) {
      if (const auto whole = WholeOf(b->key, component)) found.try_emplace(*whole);
    }
  }
  if (found.empty()) return {};
  (void)pass->b->ForEachTensor([&](const io::Record& record) {
    const auto is = [&](const std::optional<Key>& whole) {
      return whole ? found.find(*whole) : found.end();
    };
    if (const auto of = found.find(record.key);
        of != found.end() && record.layout == Layout::kSparseCoo)
      of->second.whole = record.id;
    if (const auto of = is(WholeOf(record.key, "indices")); of != found.end())
      of->second.indices = record.id;
    if (const auto of = is(WholeOf(record.key, "values")); of != found.end())
      of->second.values = record.id;
    return true;
  });
  std::erase_if(found, [](const auto& of) {
    return of.second.whole == 0 || of.second.indices == 0 || of.second.values == 0;
  });
  if (found.empty()) return {};
  std::unordered_map<uint64_t, Outcome*> pairs;  // by id of B
  for (Outcome& outcome : pass->outcomes) pairs[outcome.ids.b] = &outcome;
  std::vector<SparsePair> sparse;
  for (const auto& [key, ids] : found) {
    const SparsePair pair = {pairs[ids.whole], pairs[ids.indices], pairs[ids.values]};
    if (pair.whole != nullptr && pair.indices != nullptr && pair.values != nullptr)
      sparse.push_back(pair);
  }
  return sparse;
}

// One side, coalesced.
struct Coalesced {
  uint64_t stored = 0;  // entries, as they were captured
  uint64_t width = 0;   // numbers of an entry
  std::vector<std::vector<int64_t>> places;
  std::vector<uint64_t> entries;  // of each place
  // Sums of numbers, and of their sizes; `width` of each place.
  std::vector<double> sums, sizes;
};

// Numbers of a tensor in row-major order, complex ones as two; none: too many, or not exact.
std::optional<std::vector<double>> Numbers(const StepView& view, const io::Record& record) {
  const NumberFormat format = FormatOf(record.dtype);
  if (!record.payload || record.payload->logical_bytes > kMostBytes ||
      format.kind == NumberKind::kOpaque)
    return std::nullopt;
  Result<ReadBytes> read = view.Open(record);
  if (!read.ok()) return std::nullopt;
  PairSide side(record, *std::move(read), {});
  const uint64_t count = side.elements();
  if (count == 0) return std::vector<double>();
  if (count > kMostBytes || !side.Load(0, count).ok()) return std::nullopt;
  std::vector<double> numbers;
  if (format.kind == NumberKind::kInteger) {
    for (const __int128 integer : side.Integers(0, count)) {
      numbers.push_back(static_cast<double>(integer));
      if (std::abs(numbers.back()) > kMostExact) return std::nullopt;
    }
  } else {
    const std::span<const double> floats = side.Floats(0, count);
    numbers.assign(floats.begin(), floats.end());
  }
  return numbers;
}

std::optional<Coalesced> Coalesce(const StepView& view, uint64_t indices_id, uint64_t values_id) {
  const auto indices = view.Get(indices_id), values = view.Get(values_id);
  if (!indices.ok() || !values.ok() || indices->sizes.size() != 2 || values->sizes.empty() ||
      indices->sizes[1] != values->sizes[0])
    return std::nullopt;
  const auto coordinates = Numbers(view, *indices), numbers = Numbers(view, *values);
  if (!coordinates || !numbers) return std::nullopt;
  Coalesced made;
  const auto dimensions = static_cast<uint64_t>(indices->sizes[0]);
  const uint64_t stored = made.stored = static_cast<uint64_t>(indices->sizes[1]);
  if (coordinates->size() != dimensions * stored) return std::nullopt;
  made.width = stored == 0 ? 0 : numbers->size() / stored;
  const auto place_of = [&](uint64_t entry) {
    std::vector<int64_t> place(dimensions);
    for (uint64_t i = 0; i < dimensions; ++i)
      place[i] = static_cast<int64_t>((*coordinates)[i * stored + entry]);
    return place;
  };
  const auto before = [&](uint64_t x, uint64_t y) {
    for (uint64_t i = 0; i < dimensions; ++i) {
      const double of_x = (*coordinates)[i * stored + x], of_y = (*coordinates)[i * stored + y];
      if (of_x != of_y) return of_x < of_y;
    }
    return false;
  };
  std::vector<uint64_t> order(stored);
  std::iota(order.begin(), order.end(), uint64_t{0});
  std::stable_sort(order.begin(), order.end(), before);
  for (uint64_t i = 0; i < stored; ++i) {
    if (i == 0 || before(order[i - 1], order[i])) {
      made.places.push_back(place_of(order[i]));
      made.entries.push_back(0);
      made.sums.resize(made.sums.size() + made.width);
      made.sizes.resize(made.sums.size());
    }
    ++made.entries.back();
    const uint64_t first = made.sums.size() - made.width;
    for (uint64_t j = 0; j < made.width; ++j) {
      const double number = (*numbers)[order[i] * made.width + j];
      made.sums[first + j] += number;
      made.sizes[first + j] += std::abs(number);
    }
  }
  return made;
}

bool AreNear(double a, double b, double rounding) {
  if (!std::isfinite(a) || !std::isfinite(b)) return a == b || (std::isnan(a) && std::isnan(b));
  return std::abs(a - b) <= rounding;
}

// Of a sum of numbers whose sizes add up to `size`, in another order: what chance makes of so many
// roundings, twice; never more than a few.
double RoundingOf(double additions, double unit_roundoff, double size) {
  constexpr double kMostRoundings = 8;
  const double rounding = std::min(kMostRoundings, 2 * std::sqrt(additions)) * unit_roundoff * size;
  return std::isfinite(rounding) ? rounding : 0;
}

// What is other once both are coalesced; "" where nothing is.
std::string DifferenceOf(const Coalesced& a, const Coalesced& b, double unit_roundoff) {
  if (a.places != b.places) {
    const auto [of_a, of_b] =
        std::mismatch(a.places.begin(), a.places.end(), b.places.begin(), b.places.end());
    const bool only_in_a = of_a != a.places.end() && (of_b == b.places.end() || *of_a < *of_b);
    return fmt::format("coalesced, place [{}] has an entry in {} only",
                       fmt::join(only_in_a ? *of_a : *of_b, ", "), only_in_a ? 'A' : 'B');
  }
  if (a.width != b.width) return "coalesced, entries are of other shapes";
  uint64_t differ = 0;
  std::string first;
  for (size_t place = 0; place < a.places.size(); ++place) {
    const auto additions = static_cast<double>(a.entries[place] + b.entries[place] - 2);
    const auto at = [&](uint64_t j) { return place * a.width + j; };
    uint64_t j = 0;
    while (j < a.width &&
           AreNear(a.sums[at(j)], b.sums[at(j)],
                   RoundingOf(additions, unit_roundoff, std::max(a.sizes[at(j)], b.sizes[at(j)]))))
      ++j;
    if (j == a.width) continue;
    if (++differ == 1)
      first = fmt::format("first [{}], A {:.9g}, B {:.9g}", fmt::join(a.places[place], ", "),
                          a.sums[at(j)], b.sums[at(j)]);
  }
  if (differ == 0) return "";
  return fmt::format("coalesced, {} of {} entries differ, {}", differ, a.places.size(), first);
}

bool IsCoalesced(const io::Record& record) { return record.subclass == "coalesced"; }

std::string StatesText(const io::Record& a, const io::Record& b) {
  if (!IsCoalesced(a) && !IsCoalesced(b)) return "A and B are not coalesced";
  return IsCoalesced(b) ? "A is not coalesced and B is" : "A is coalesced and B is not";
}

void Judge(const PassDiffOptions& options, const SparsePair& pair, PassDiff* pass) {
  const auto a = pass->a->Get(pair.whole->ids.a), b = pass->b->Get(pair.whole->ids.b);
  if (!a.ok() || !b.ok() || a->layout != Layout::kSparseCoo || a->sizes != b->sizes ||
      a->dtype != b->dtype || (IsCoalesced(*a) && IsCoalesced(*b)))
    return;
  const auto left = Coalesce(*pass->a, pair.indices->ids.a, pair.values->ids.a);
  const auto right = Coalesce(*pass->b, pair.indices->ids.b, pair.values->ids.b);
  std::string note = StatesText(*a, *b);
  bool is_equal = false;
  if (left && right) {
    const std::string other = DifferenceOf(*left, *right, FormatOf(b->dtype).UnitRoundoff());
    is_equal = other.empty();
    note = is_equal ? fmt::format("equal once coalesced: {}, {} entries in A and {} in B", note,
                                  left->stored, right->stored)
                    : note + ": " + other;
  }
  for (Outcome* outcome : {pair.indices, pair.values}) {
    if (!Disagrees(*outcome)) continue;
    outcome->comparison.notes.push_back(std::string(kSparseNote) + note);
    outcome->comparison.notes.MoveTo(pass->spill.get());
    if (!is_equal || options.require_bits) continue;
    Verdict& v = outcome->comparison.verdict;
    v.shape_allowed = true;
    v.tolerance = v.special = Answer::kSame;
  }
}

}  // namespace

void JudgeSparse(const PassDiffOptions& options, PassDiff* pass) {
  for (const SparsePair& pair : FindSparse(pass)) Judge(options, pair, pass);
}

}  // namespace tdump::compare
