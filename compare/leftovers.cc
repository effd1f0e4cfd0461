#include "compare/leftovers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "compare/name_templates.h"
#include "compare/names.h"
#include "compare/roles.h"
#include "core/text.h"

namespace tdump::compare {
namespace {

constexpr size_t kNone = ~size_t{0};

// Leftovers that are not in a pair yet.
class Open {
 public:
  explicit Open(std::span<const Leftover> all) : all_(all), taken_(all.size(), false) {}
  const Leftover& operator[](size_t i) const { return all_[i]; }
  size_t size() const { return all_.size(); }
  bool taken(size_t i) const { return taken_[i]; }
  void Take(size_t i) { taken_[i] = true; }
  // Indices of those left, as they were seen.
  std::vector<size_t> InOrder() const {
    std::vector<size_t> order;
    for (size_t i = 0; i < all_.size(); ++i) {
      if (!taken_[i]) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t x, size_t y) { return all_[x].order < all_[y].order; });
    return order;
  }

 private:
  std::span<const Leftover> all_;
  std::vector<bool> taken_;
};

struct Matching {
  Open a, b;
  std::vector<LeftoverPair> pairs;

  void Pair(size_t i, size_t k, PairedBy by) {
    pairs.push_back({i, k, by});
    a.Take(i);
    b.Take(k);
  }
};

// Lists of those left on both sides under one group.
template <class Group, class GroupOf, class Visit>
void ForEachGroup(const Matching& matching, const GroupOf& group_of, const Visit& visit) {
  struct Lists {
    std::vector<size_t> a, b;
  };
  std::map<Group, Lists> groups;
  for (const size_t i : matching.a.InOrder()) groups[group_of(matching.a[i])].a.push_back(i);
  for (const size_t k : matching.b.InOrder()) {
    const auto found = groups.find(group_of(matching.b[k]));
    if (found != groups.end()) found->second.b.push_back(k);
  }
  for (const auto& [group, lists] : groups) {
    if (!lists.b.empty()) visit(lists.a, lists.b);
  }
}

uint64_t UnitsIn(const Shape& shape) {
  uint64_t units = 0;
  return UnitsOf(shape, &units) ? units : ~uint64_t{0};
}

bool IsBareAndFirst(const std::string& x, const std::string& y) {
  return (x.empty() && y == "0") || (x == "0" && y.empty());
}

// 2: the same argument under another name; 1: it may be, if nothing else can; 0: another.
int ArgumentLikeness(const Leftover& x, const Leftover& y) {
  if (IsBareAndFirst(x.key.arg, y.key.arg)) return 2;
  if (UnitsIn(x.shape) != UnitsIn(y.shape)) return 0;  // dimensions may be in another order
  const std::string_view last = LastComponent(x.key.arg);
  if (last == LastComponent(y.key.arg) && !last.empty() &&
      !std::isdigit(static_cast<unsigned char>(last[0])))
    return 2;
  return 1;
}

// The only one of `others` that is left and as like to `leftover` as `least`; kNone: there is none,
// or several.
size_t OnlyLike(const Leftover& leftover, const Open& open, const std::vector<size_t>& others,
                int least) {
  size_t found = kNone;
  for (const size_t k : others) {
    if (open.taken(k) || ArgumentLikeness(leftover, open[k]) < least) continue;
    if (found != kNone) return kNone;
    found = k;
  }
  return found;
}

void PairByArgument(bool weights, Matching* matching) {
  const auto group_of = [](const Leftover& leftover) {
    Key key = leftover.key;
    key.arg.clear();
    return key;
  };
  const auto pair = [&](const std::vector<size_t>& in_a, const std::vector<size_t>& in_b) {
    for (const int least : {2, 1}) {
      for (const size_t i : in_a) {
        if (matching->a.taken(i) || (!weights && IsOfParameters(matching->a[i].key.role))) continue;
        const size_t k = OnlyLike(matching->a[i], matching->b, in_b, least);
        if (k == kNone || OnlyLike(matching->b[k], matching->a, in_a, least) == kNone) continue;
        const bool same = matching->a[i].key == matching->b[k].key;
        matching->Pair(i, k, same ? PairedBy::kKey : PairedBy::kArgument);
      }
    }
  };
  ForEachGroup<Key>(*matching, group_of, pair);
}

void PairByCall(Matching* matching) {
  const auto group_of = [](const Leftover& leftover) {
    Key key = leftover.key;
    key.call = 0;
    key.micro = key.chunk = key.lane = 0;
    return key;
  };
  const auto by_count = [](const Open& open) {
    return [&open](size_t x, size_t y) {
      const Key &left = open[x].key, &right = open[y].key;
      return std::tie(left.micro, left.chunk, left.call, left.lane) <
             std::tie(right.micro, right.chunk, right.call, right.lane);
    };
  };
  ForEachGroup<Key>(*matching, group_of, [&](std::vector<size_t> in_a, std::vector<size_t> in_b) {
    if (in_a.size() != in_b.size()) return;
    std::stable_sort(in_a.begin(), in_a.end(), by_count(matching->a));
    std::stable_sort(in_b.begin(), in_b.end(), by_count(matching->b));
    for (size_t i = 0; i < in_a.size(); ++i) matching->Pair(in_a[i], in_b[i], PairedBy::kCall);
  });
}

// A leftover as the alignment sees it: equal texts have equal numbers.
struct Token {
  const Shape* shape;
  uint32_t what;  // role, phase, operator
  uint32_t size, kind, last, arg;
};

class Tokens {
 public:
  std::vector<Token> Of(const Open& open, const std::vector<size_t>& order) {
    std::vector<Token> tokens;
    for (const size_t i : order) {
      const Leftover& leftover = open[i];
      const Key& key = leftover.key;
      Token token{.shape = &leftover.shape};
      token.what = Number(fmt::format("{} {} {} {}", static_cast<int>(key.role),
                                      static_cast<int>(key.phase), key.recompute, key.op));
      token.size = Number(fmt::format("[{}]", fmt::join(leftover.shape, ",")));
      token.kind = Number(KindOfClass(leftover.cls));
      token.last = Number(std::string(LastComponent(key.path)));
      token.arg = Number(key.arg);
      tokens.push_back(token);
    }
    return tokens;
  }

 private:
  uint32_t Number(const std::string& text) {
    return numbers_.try_emplace(text, static_cast<uint32_t>(numbers_.size())).first->second;
  }
  std::unordered_map<std::string, uint32_t> numbers_;
};

// 0: these two are not the same thing. Shapes of which one may be a rank's share of the other need
// an equal name besides.
uint32_t Likeness(const Token& x, const Token& y) {
  if (x.what != y.what) return 0;
  const bool kind = x.kind == y.kind, last = x.last == y.last;
  const uint32_t alike = (kind ? 2 : 0) + (last ? 3 : 0) + (x.arg == y.arg ? 1 : 0);
  if (x.size == y.size) return kind || last ? 4 + alike : 0;
  if (!kind || !last) return 0;
  return AreShares(*x.shape, *y.shape) || AreShares(*y.shape, *x.shape) ? alike : 0;
}

// The pairs of the heaviest alignment that keeps the order of both (dynamic programming; the last
// row and one byte a cell are kept).
std::vector<std::pair<size_t, size_t>> Align(std::span<const Token> a, std::span<const Token> b) {
  enum : uint8_t { kPair, kSkipA, kSkipB };
  const size_t width = b.size() + 1;
  std::vector<uint8_t> step((a.size() + 1) * width, kSkipA);
  std::vector<uint32_t> above(width, 0), row(width, 0);
  for (size_t i = a.size(); i-- > 0;) {
    row[b.size()] = 0;
    for (size_t k = b.size(); k-- > 0;) {
      const uint32_t likeness = Likeness(a[i], b[k]);
      uint32_t best = above[k];
      uint8_t way = kSkipA;
      if (row[k + 1] > best) {
        best = row[k + 1];
        way = kSkipB;
      }
      if (likeness != 0 && likeness + above[k + 1] >= best) {
        best = likeness + above[k + 1];
        way = kPair;
      }
      row[k] = best;
      step[i * width + k] = way;
    }
    std::swap(above, row);
  }
  std::vector<std::pair<size_t, size_t>> pairs;
  for (size_t i = 0, k = 0; i < a.size() && k < b.size();) {
    const uint8_t way = step[i * width + k];
    if (way == kPair) pairs.emplace_back(i, k);
    i += way != kSkipB ? 1 : 0;
    k += way != kSkipA ? 1 : 0;
  }
  return pairs;
}

void PairBySequence(Matching* matching) {
  const std::vector<size_t> order_a = matching->a.InOrder(), order_b = matching->b.InOrder();
  Tokens tokens;
  const std::vector<Token> a = tokens.Of(matching->a, order_a), b = tokens.Of(matching->b, order_b);
  size_t from_a = 0, from_b = 0;
  while (from_a < a.size() && from_b < b.size()) {
    const size_t count_a = std::min(kMaxAligned, a.size() - from_a);
    const size_t count_b = std::min(kMaxAligned, b.size() - from_b);
    const bool last = from_a + count_a == a.size() && from_b + count_b == b.size();
    const auto pairs =
        Align(std::span(a).subspan(from_a, count_a), std::span(b).subspan(from_b, count_b));
    // The end of a piece is aligned again, together with what follows it.
    size_t kept_a = last ? count_a : count_a / 2, kept_b = last ? count_b : 0;
    for (const auto& [i, k] : pairs) {
      if (!last && i >= kept_a) break;
      matching->Pair(order_a[from_a + i], order_b[from_b + k], PairedBy::kSequence);
      kept_b = std::max(kept_b, k + 1);
    }
    if (kept_b == 0) kept_b = std::min(count_b, count_b / 2 + 1);
    from_a += std::max<size_t>(kept_a, 1);
    from_b += kept_b;
  }
}

// 0: equal components; 1: they share nothing.
double ComponentDistance(std::string_view x, std::string_view y) {
  if (x == y) return 0;
  if (IsDigits(x) != IsDigits(y)) return 1;
  if (IsDigits(x)) return 0.8;  // another layer
  constexpr size_t kLongest = 64;
  x = x.substr(0, kLongest);
  y = y.substr(0, kLongest);
  return static_cast<double>(EditDistance(x, y)) /
         static_cast<double>(std::max<size_t>(1, std::max(x.size(), y.size())));
}

// Edits of components that lead from one path to the other.
double PathDistance(std::string_view x, std::string_view y) {
  std::vector<std::string_view> a = ComponentsOf(x), b = ComponentsOf(y);
  constexpr size_t kDeepest = 32;
  a.resize(std::min(a.size(), kDeepest));
  b.resize(std::min(b.size(), kDeepest));
  std::vector<double> row(b.size() + 1);
  for (size_t k = 0; k <= b.size(); ++k) row[k] = static_cast<double>(k) * 0.7;
  for (size_t i = 1; i <= a.size(); ++i) {
    double before = row[0];
    row[0] = static_cast<double>(i) * 0.7;
    for (size_t k = 1; k <= b.size(); ++k) {
      const double replaced = before + ComponentDistance(a[i - 1], b[k - 1]);
      before = row[k];
      row[k] = std::min({replaced, row[k] + 0.7, row[k - 1] + 0.7});
    }
  }
  return row.back();
}

double NameDistance(const Leftover& x, const Leftover& y) {
  double distance = PathDistance(x.key.path, y.key.path);
  if (x.key.op != y.key.op) distance += ComponentDistance(x.key.op, y.key.op);
  if (x.key.role != y.key.role) distance += 1;
  if (x.key.phase != y.key.phase) distance += 1;
  if (x.key.arg != y.key.arg) distance += 0.3;
  if (x.shape != y.shape) distance += 0.5;
  return distance;
}

}  // namespace

std::string_view ToString(PairedBy by) {
  switch (by) {
    case PairedBy::kKey:
      return "by name";
    case PairedBy::kArgument:
      return "by argument";
    case PairedBy::kCall:
      return "by order of calls";
    case PairedBy::kSequence:
      return "by sequence";
  }
  return "";
}

std::string PairedText(PairedBy by, const Key& a, const Key& b) {
  return fmt::format("paired {}: A's {} with B's {}", ToString(by), ToText(a), ToText(b));
}

std::vector<LeftoverPair> PairLeftovers(std::span<const Leftover> a, std::span<const Leftover> b,
                                        const LeftoverOptions& options) {
  Matching matching{Open(a), Open(b), {}};
  PairByArgument(options.renamed_weights, &matching);
  PairByCall(&matching);
  if (options.sequence) PairBySequence(&matching);
  std::sort(matching.pairs.begin(), matching.pairs.end(),
            [](const LeftoverPair& x, const LeftoverPair& y) { return x.a < y.a; });
  return matching.pairs;
}

std::vector<size_t> NearestNames(const Leftover& name, std::span<const Leftover> others,
                                 size_t count) {
  const double farthest = 0.75 + 0.35 * static_cast<double>(ComponentsOf(name.key.path).size());
  std::vector<std::pair<double, size_t>> near;
  for (size_t i = 0; i < others.size(); ++i) {
    const double distance = NameDistance(name, others[i]);
    if (distance <= farthest) near.emplace_back(distance, i);
  }
  std::stable_sort(near.begin(), near.end(),
                   [](const auto& x, const auto& y) { return x.first < y.first; });
  std::vector<size_t> nearest;
  for (size_t i = 0; i < std::min(count, near.size()); ++i) nearest.push_back(near[i].second);
  return nearest;
}

}  // namespace tdump::compare
