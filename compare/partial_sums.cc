#include "compare/partial_sums.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "compare/layers.h"
#include "compare/names.h"
#include "compare/product.h"
#include "compare/roles.h"
#include "compare/text.h"

namespace tdump::compare {
namespace {

uint64_t HashOf(const std::string& text) { return std::hash<std::string>{}(text) | 1; }

uint64_t CallOf(Key key) {
  key.role = Role::kOutput;
  key.arg.clear();
  return HashOf(ToText(key));
}

// The places of a sum or of copies tell apart what is held once from what is held by each.
uint64_t LikeOf(Key key, size_t places) {
  const auto layer = LayerOf(key.path);
  if (!layer) return 0;
  key.path = WithLayer(key.path, 0);
  return HashOf(fmt::format("{} {}", ToText(key), places));
}

uint64_t ModuleOf(const Key& key) { return HashOf(PlainName(key.root, key.path, "")); }

uint64_t ContentOf(const ShardSet& set) {
  if (set.hashes.empty()) return 0;
  std::string bytes;
  for (const io::Hash128& hash : set.hashes) bytes.append(hash.begin(), hash.end());
  return HashOf(bytes);
}

// Ranks that hold copies, 0 where some differ, or none are known to be equal: by their hashes, and
// where none were kept by their bytes.
size_t EqualCopies(const ShardSet& set, const LayoutCandidate& layout) {
  const std::vector<ReplicaGroup>& replicas = layout.plan.replicas;
  if (replicas.empty() || (set.hashes.empty() && !set.has_payload)) return 0;
  const auto differing = DifferingReplicas(set, layout.plan);
  if (!differing.ok() || !differing->empty()) return 0;
  size_t least = set.shards.size();
  for (const ReplicaGroup& group : replicas) least = std::min(least, 1 + group.others.size());
  return least;
}

bool IsModelOutput(const Key& key) {
  return key.path == "." && key.op.empty() && key.role == Role::kOutput;
}

// Ranks on these axes compute parts of one result from the same inputs.
bool SharesInputs(std::string_view axis) { return axis == "tp" || axis == "etp"; }

bool AllShareInputs(const std::vector<std::string>& axes) {
  return std::all_of(axes.begin(), axes.end(), SharesInputs);
}

}  // namespace

bool IsInferredSum(const ShardSet& set, const LayoutCandidate& layout, Proof proof) {
  return proof == Proof::kAgrees && layout.plan.summands.size() > 1 && !IsOfParameters(set.role);
}

void PartialSums::Add(const Key& key, const LoadedShards& shards, const LayoutCandidate& layout,
                      Proof proof) {
  const ShardSet& set = shards.set;
  const uint64_t module = ModuleOf(key);
  if (key.role == Role::kInput || key.role == Role::kParam) {
    // Added up, for ranks of a side may see them in any order.
    modules_[module] += HashOf(fmt::format("{} {} {} {} {}", ToString(key.role), key.arg, key.call,
                                           fmt::join(set.shards.front().shape, ","),
                                           fmt::join(layout.shape(), ",")));
  }
  if (IsOfParameters(key.role) || set.shards.size() < 2) return;
  const bool is_sum = layout.plan.summands.size() > 1;
  const size_t copies = EqualCopies(set, layout);
  if (IsRootInput(key)) AddInput(layout, copies > 0);
  if (IsOutput(key.role) && !is_sum && proof == Proof::kAgrees) made_[CallOf(key)].agrees = true;
  if (IsOutput(key.role) && copies == 0 && proof == Proof::kDisagrees &&
      (is_sum || !layout.plan.replicas.empty()) &&
      !ContainsAny(LowerCase(set.cls + key.op), {"reduce"}))
    made_[CallOf(key)].disagrees = true;
  if (copies > 0 && !is_sum && proof != Proof::kNone)
    wholes_.push_back({LikeOf(key, copies), module});
  if (!IsInferredSum(set, layout, proof)) return;
  Sum sum;
  sum.key = key;
  sum.like = LikeOf(key, layout.plan.summands.size() * std::max<size_t>(1, copies));
  sum.content = ContentOf(set);
  sum.call = CallOf(key);
  sum.module = module;
  sum.is_model_output = IsModelOutput(key) && ProductOf(layout.shape()) > 1;
  sum.axes = layout.dims.partial;
  sum.shares_inputs = !set.topology.is_unknown() && AllShareInputs(sum.axes);
  sums_.push_back(std::move(sum));
}

void PartialSums::AddInput(const LayoutCandidate& layout, bool copied) {
  (copied ? has_copied_input_ : has_other_input_) = true;
  if (!copied) return;
  for (std::string& axis : layout.dims.SplitAxes()) input_axes_.insert(std::move(axis));
}

const PartialSums::Siblings& PartialSums::Like(const Sum& sum) const {
  static const Siblings none;
  const auto shapes = modules_.find(sum.module);
  if (sum.like == 0) return none;
  const auto found = siblings_.find(sum.like ^ (shapes == modules_.end() ? 0 : shapes->second));
  return found == siblings_.end() ? none : found->second;
}

PartialSums::Made PartialSums::TakenBy(const Sum& sum, std::string* taker) const {
  Made all;
  const auto add = [&](const Sum& other) {
    const auto made = made_.find(other.call);
    if (made == made_.end()) return;
    all.agrees = all.agrees || made->second.agrees;
    all.disagrees = all.disagrees || made->second.disagrees;
    if (made->second.disagrees) *taker = PlainName(other.key.root, other.key.path, other.key.op);
  };
  if (sum.content == 0) {
    if (!IsOutput(sum.key.role)) add(sum);
    return all;
  }
  const auto [begin, end] = taken_.equal_range(sum.content);
  for (auto other = begin; other != end; ++other) add(sums_[other->second]);
  return all;
}

// Whether nothing but a missing all-reduce makes it: ranks that were given other data count other
// things, and the job adds them up where it likes.
bool PartialSums::ShouldBeWhole(const Sum& sum) const {
  if (!sum.is_model_output) return false;
  const bool given_the_same =
      has_copied_input_ && !has_other_input_ &&
      std::none_of(sum.axes.begin(), sum.axes.end(),
                   [&](const std::string& axis) { return input_axes_.contains(axis); });
  return sum.shares_inputs || given_the_same;
}

void PartialSums::Judge() {
  judged_ = true;
  if (sums_.empty()) return;
  const auto shapes_of = [&](uint64_t module) {
    const auto found = modules_.find(module);
    return found == modules_.end() ? 0 : found->second;
  };
  for (const Whole& whole : wholes_) {
    if (whole.like != 0) ++siblings_[whole.like ^ shapes_of(whole.module)].whole;
  }
  for (const Sum& sum : sums_) {
    if (sum.like != 0) ++siblings_[sum.like ^ shapes_of(sum.module)].sums;
  }
  for (size_t i = 0; i < sums_.size(); ++i) {
    if (!IsOutput(sums_[i].key.role)) taken_.emplace(sums_[i].content, i);
  }
  std::unordered_set<uint64_t> contents;
  const auto blame = [&](const Sum& sum, std::string why) {
    faults_[ToText(sum.key)] = std::move(why);
    if (sum.content != 0) contents.insert(sum.content);
  };
  // Other layers tell which of several operators that hold the same should have added it up.
  std::vector<const Sum*> open;
  for (const Sum& sum : sums_) {
    if (const auto next = left_out_.find(ToText(sum.key)); next != left_out_.end()) {
      blame(sum,
            fmt::format(" (what comes next, {}, lacks what the other ranks hold)", next->second));
      continue;
    }
    std::string taker;
    if (TakenBy(sum, &taker).agrees) continue;
    const Siblings& like = Like(sum);
    if (like.whole > 0 && like.whole >= like.sums)
      blame(sum, fmt::format(" (the same of {} is whole on every rank)",
                             Plural(like.whole, "other layer")));
    else
      open.push_back(&sum);
  }
  const std::unordered_set<uint64_t> by_layers = contents;
  for (const Sum* sum : open) {
    const bool in_every_layer = Like(*sum).sums > 1;
    if (in_every_layer && by_layers.contains(sum->content)) continue;
    std::string taker;
    if (TakenBy(*sum, &taker).disagrees)
      blame(*sum, fmt::format(" (what takes it, {}, does not agree)", taker));
    else if (ShouldBeWhole(*sum))
      blame(*sum, " (it is the model's own output)");
  }
  for (const Sum* sum : open) {
    if (contents.contains(sum->content) && Like(*sum).sums <= 1)
      faults_.emplace(ToText(sum->key), "");
  }
}

void PartialSums::Blame(const Key& key, const std::string& next) {
  left_out_.emplace(ToText(key), next);
}

std::string PartialSums::Fault(const Key& key, char side) {
  if (!judged_) Judge();
  const auto found = faults_.find(ToText(key));
  if (found == faults_.end()) return "";
  return fmt::format(
      "{}{} holds a partial sum, and the sum alone agrees; an all-reduce is missing?{}: {}",
      kFaultOfSum, side, found->second, ToText(key));
}

Result<LayoutCandidate> AsCopies(const ShardSet& set, const LayoutCandidate& sum) {
  LayoutCandidate copies = sum;
  Dims dims = sum.dims;
  dims.partial.clear();
  dims.mean.clear();
  TDUMP_ASSIGN_OR_RETURN(copies.plan, PlanUnshard(set.shards, dims, set.topology));
  copies.dims = copies.plan.dims;
  copies.how = copies.plan.how + ", where their sum agrees";
  return copies;
}

}  // namespace tdump::compare
