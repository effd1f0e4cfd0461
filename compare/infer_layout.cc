#include "compare/infer_layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <tuple>

#include "compare/layout_fit.h"
#include "compare/layout_odds.h"
#include "io/hash.h"

namespace tdump::compare {
namespace {

constexpr size_t kMostCandidates = 64;
constexpr size_t kMostTried = 512;
// A candidate is better "by far" whose error is below this share of the likeliest one's.
constexpr double kByFar = 0.7;

// One axis and how it shares the tensor.
struct Choice {
  std::string axis;
  Sharing sharing = Sharing::kReplicated;
  size_t dim = 0;
  uint64_t places = 1;
};

struct Guess {
  std::vector<Choice> choices;  // outer axes of a dimension first
  int cost = 0;
};

// An axis on which the shards have several places.
struct SharedAxis {
  std::string name;
  size_t index = 0;
  uint64_t places = 1;
  int equal = -1;  // shards along it: 1 equal, 0 not, -1 not known
};

std::vector<SharedAxis> SharedAxes(const LayoutQuestion& question, const Topology& topology) {
  std::vector<SharedAxis> axes;
  for (size_t i = 0; i < topology.axes().size(); ++i) {
    std::set<uint32_t> places;
    // Shards that differ on this axis only, by their places on the others.
    std::map<std::vector<uint32_t>, std::set<io::Hash128>> hashes;
    for (size_t k = 0; k < question.shards.size(); ++k) {
      const int32_t rank = question.shards[k].rank;
      if (!topology.HasPlace(rank)) return {};
      places.insert(topology.PlaceOn(i, rank));
      std::vector<uint32_t> others;
      for (size_t other = 0; other < topology.axes().size(); ++other)
        others.push_back(other == i ? 0 : topology.PlaceOn(other, rank));
      if (!question.hashes.empty()) hashes[others].insert(question.hashes[k]);
    }
    if (places.size() < 2) continue;
    SharedAxis axis{topology.axes()[i].name, i, places.size(), question.hashes.empty() ? -1 : 1};
    for (const auto& [others, here] : hashes) axis.equal = here.size() > 1 ? 0 : axis.equal;
    axes.push_back(std::move(axis));
  }
  return axes;
}

// Which axes stand outside when two split one dimension.
int OrderOf(const std::string& axis) {
  constexpr std::string_view kOuterFirst[] = {"dp", "fsdp", "ep", "cp", "tp", "sp"};
  return static_cast<int>(std::find(std::begin(kOuterFirst), std::end(kOuterFirst), axis) -
                          std::begin(kOuterFirst));
}

class Guesser {
 public:
  Guesser(const LayoutQuestion& question, const Topology& topology)
      : question_(question),
        odds_(question),
        axes_(SharedAxes(question, topology)),
        rank_(question.shards.front().shape.size()) {
    for (const Shard& shard : question.shards) {
      uint64_t units = 0;
      if (UnitsOf(shard.shape, &units)) held_ += static_cast<double>(units);
    }
    uint64_t whole = 0;
    if (UnitsOf(question.whole, &whole)) whole_ = static_cast<double>(whole);
    std::stable_sort(axes_.begin(), axes_.end(), [](const SharedAxis& x, const SharedAxis& y) {
      return OrderOf(x.name) < OrderOf(y.name);
    });
  }

  // Likeliest first.
  std::vector<Guess> Run() {
    Guess guess;
    Extend(0, held_, &guess);
    std::stable_sort(guesses_.begin(), guesses_.end(),
                     [](const Guess& x, const Guess& y) { return x.cost < y.cost; });
    if (guesses_.size() > kMostTried) guesses_.resize(kMostTried);
    return std::move(guesses_);
  }

 private:
  // `units`: that the ranks hold, counting copies and summands once so far.
  void Extend(size_t next, double units, Guess* guess) {
    if (next == axes_.size()) {
      const double surplus = units - whole_;
      if (surplus == 0 || (surplus > 0 && MayBePadded())) guesses_.push_back(*guess);
      return;
    }
    const SharedAxis& axis = axes_[next];
    const auto add = [&](Sharing sharing, size_t dim, double rest) {
      const int cost = odds_.CostOf(axis.name, sharing, dim, rank_, axis.equal);
      guess->choices.push_back({axis.name, sharing, dim, axis.places});
      guess->cost += cost;
      Extend(next + 1, rest, guess);
      guess->cost -= cost;
      guess->choices.pop_back();
    };
    const double once = units / static_cast<double>(axis.places);
    if (once >= whole_) {
      add(Sharing::kReplicated, 0, once);
      if (MayBeSummed(axis)) add(Sharing::kPartial, 0, once);
    }
    for (size_t dim = 0; dim < rank_; ++dim) {
      add(Sharing::kSplit, dim, units);
      if (axis.name == "cp" || axis.name == "rank") add(Sharing::kZigzag, dim, units);
    }
  }

  // Equal copies that add up to the other side look like a sum, and are a division too many. No
  // rank holds a summand of a parameter, of a buffer, or of what an optimizer keeps.
  bool MayBeSummed(const SharedAxis& axis) const {
    return axis.equal != 1 && question_.role != Role::kParam && question_.role != Role::kState;
  }

  // Vocabularies are padded; sequences to a multiple of the ranks.
  bool MayBePadded() const { return rank_ > 0 && question_.whole.size() == rank_; }

  const LayoutQuestion& question_;
  LayoutOdds odds_;
  std::vector<SharedAxis> axes_;
  size_t rank_;
  double held_ = 0, whole_ = 0;
  std::vector<Guess> guesses_;
};

Dims DimsOf(const Guess& guess, size_t rank) {
  Dims dims;
  for (size_t i = 0; i < rank; ++i)
    dims.dims.push_back({.parts = {NamedDim{.name = fmt::format("d{}", i)}}});
  for (const Choice& choice : guess.choices) {
    if (choice.sharing == Sharing::kReplicated && choice.axis == "pp")
      dims.replicated.push_back(choice.axis);
    if (choice.sharing == Sharing::kPartial) dims.partial.push_back(choice.axis);
    if (choice.sharing != Sharing::kSplit && choice.sharing != Sharing::kZigzag) continue;
    AxisUse use{.axis = choice.axis};
    if (choice.sharing == Sharing::kZigzag) use.split = Split::kZigzag;
    dims.dims[choice.dim].parts.front().axes.push_back(std::move(use));
  }
  return dims;
}

// Of the whole, where all ranks hold shards of one shape; none where they do not.
std::optional<Shape> ShapeOf(const Guess& guess, const std::vector<Shard>& shards) {
  Shape shape = shards.front().shape;
  for (const Shard& shard : shards) {
    if (shard.shape != shape) return std::nullopt;
  }
  for (const Choice& choice : guess.choices) {
    const bool splits = choice.sharing == Sharing::kSplit || choice.sharing == Sharing::kZigzag;
    if (splits && __builtin_mul_overflow(shape[choice.dim], choice.places, &shape[choice.dim]))
      return std::nullopt;
  }
  return shape;
}

}  // namespace

std::vector<LikelyLayout> LikelyLayouts(const LayoutQuestion& question, const Topology& topology) {
  std::vector<LikelyLayout> found;
  if (question.shards.empty()) return {};
  const bool vocabulary = LayoutOdds(question).IsVocabulary();
  for (const Guess& guess : Guesser(question, topology).Run()) {
    // A plan looks at all ranks: it is made of what fits.
    const std::optional<Shape> shape = ShapeOf(guess, question.shards);
    if (shape && FitsOf(*shape, question.whole, vocabulary, question.shards.size()).empty())
      continue;
    const Dims dims = DimsOf(guess, question.shards.front().shape.size());
    const Result<UnshardPlan> plan = PlanUnshard(question.shards, dims, topology);
    if (!plan.ok()) continue;
    for (Fit& fit : FitsOf(plan->shape, question.whole, vocabulary, question.shards.size())) {
      LayoutCandidate candidate{.dims = plan->dims, .plan = *plan};
      candidate.how = plan->how;
      if (!fit.how.empty()) candidate.how += ", " + fit.how;
      candidate.rearrangement = std::move(fit.rearrangement);
      candidate.crop = std::move(fit.crop);
      found.push_back({std::move(candidate), guess.cost + fit.cost});
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const LikelyLayout& x, const LikelyLayout& y) { return x.cost < y.cost; });
  if (found.size() > kMostCandidates) found.resize(kMostCandidates);
  return found;
}

std::vector<LayoutCandidate> LayoutCandidates(const LayoutQuestion& question,
                                              const Topology& topology) {
  std::vector<LayoutCandidate> candidates;
  for (LikelyLayout& likely : LikelyLayouts(question, topology))
    candidates.push_back(std::move(likely.layout));
  return candidates;
}

Shape LayoutCandidate::shape() const {
  if (rearrangement) return rearrangement->shape;
  return crop.empty() ? plan.shape : crop;
}

Result<Source> OpenCandidate(const LayoutCandidate& candidate, const OpenShard& open) {
  TDUMP_ASSIGN_OR_RETURN(Source source, OpenPlan(candidate.plan, open));
  if (!candidate.crop.empty()) {
    TDUMP_ASSIGN_OR_RETURN(source, Crop(std::move(source), candidate.crop));
  }
  if (candidate.rearrangement) return Rearrange(std::move(source), *candidate.rearrangement);
  return source;
}

std::optional<InferredLayout> InferLayout(std::vector<LayoutCandidate> candidates,
                                          const CandidateError& error, double agree) {
  if (candidates.empty()) return std::nullopt;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  size_t best = 0;
  std::vector<double> errors;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Result<double> measured = error(candidates[i]);
    errors.push_back(measured.ok() ? *measured : nan);
    if (errors[i] <= agree) return InferredLayout{std::move(candidates[i]), true, errors[i]};
    if (errors[i] < errors[best] || (std::isnan(errors[best]) && !std::isnan(errors[i]))) best = i;
  }
  if (!std::isnan(errors.front()) && !(errors[best] < kByFar * errors.front())) best = 0;
  return InferredLayout{std::move(candidates[best]), false, errors[best]};
}

namespace {

// The name with every number replaced, and all that the layout depends on.
std::string PatternOf(const LayoutQuestion& question) {
  std::string pattern;
  for (const char c : question.name) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit)
      pattern += c;
    else if (pattern.empty() || pattern.back() != '#')
      pattern += '#';
  }
  pattern += fmt::format("|{}|{}|{}", question.cls, ToString(question.role),
                         fmt::join(question.whole, ","));
  for (const Shard& shard : question.shards)
    pattern += fmt::format("|{}", fmt::join(shard.shape, ","));
  return pattern;
}

}  // namespace

void LayoutMemory::Remember(const LayoutQuestion& question, const InferredLayout& layout) {
  if (layout.verified) how_.emplace(PatternOf(question), layout.candidate.how);
}

void LayoutMemory::Prefer(const LayoutQuestion& question,
                          std::vector<LayoutCandidate>* candidates) const {
  const auto found = how_.find(PatternOf(question));
  if (found == how_.end()) return;
  std::stable_partition(candidates->begin(), candidates->end(),
                        [&](const LayoutCandidate& c) { return c.how == found->second; });
}

}  // namespace tdump::compare
