#include "compare/first_weights.h"

#include <fmt/format.h>

#include <vector>

#include "compare/roles.h"

namespace tdump::compare {
namespace {

bool IsModelWeight(const Key& key) { return IsWeight(key.role) && !IsOfOptimizer(key); }

// Parameters and buffers apart: which of them a pass holds.
struct Holds {
  bool parameters = false, buffers = false;
  bool Has(const Key& key) const { return key.role == Role::kParam ? parameters : buffers; }
};

Holds HoldsOf(const StepView& view) {
  Holds holds;
  (void)view.ForEachTensor([&](const io::Record& record) {
    if (IsModelWeight(record.key))
      (record.key.role == Role::kParam ? holds.parameters : holds.buffers) = true;
    return !holds.parameters || !holds.buffers;
  });
  return holds;
}

}  // namespace

FirstWeights::Firsts FirstWeights::FirstsOf(const RunSide& side) {
  Firsts firsts;
  for (const PassRef& pass : side.passes()) {
    if (pass.extra) continue;
    const auto [first, added] = firsts.try_emplace({pass.rank, pass.process}, pass);
    if (!added && pass.step < first->second.step) first->second = pass;
  }
  return firsts;
}

FirstWeights::FirstWeights(const RunSide& a, const RunSide& b)
    : a_(a), b_(b), firsts_a_(FirstsOf(a)), firsts_b_(FirstsOf(b)) {}

const PassRef* FirstWeights::FirstBefore(const Firsts& firsts, const PassRef& pass) {
  const auto first = firsts.find({pass.rank, pass.process});
  return first == firsts.end() || first->second.step >= pass.step ? nullptr : &first->second;
}

void FirstWeights::LeaveOut(const PassPair& pair, PassDiff* diff) const {
  LeaveOutOf(true, pair, diff);
  LeaveOutOf(false, pair, diff);
}

void FirstWeights::LeaveOutOf(bool of_a, const PassPair& pair, PassDiff* diff) const {
  std::vector<uint64_t>& alone = of_a ? diff->only_a : diff->only_b;
  const PassRef &here = of_a ? pair.a : pair.b, &there = of_a ? pair.b : pair.a;
  const PassRef* const first = FirstBefore(of_a ? firsts_b_ : firsts_a_, there);
  if (alone.empty() || first == nullptr || there.part || here.extra ||
      FirstBefore(of_a ? firsts_a_ : firsts_b_, here) != nullptr)
    return;
  const Holds now = HoldsOf(of_a ? *diff->b : *diff->a);
  const auto opened = (of_a ? b_ : a_).Open(*first);
  if (!opened.ok()) return;
  const Holds before = HoldsOf(**opened);
  const size_t left = std::erase_if(alone, [&](uint64_t id) {
    const auto record = (of_a ? *diff->a : *diff->b).Get(id);
    return record.ok() && IsModelWeight(record->key) && !now.Has(record->key) &&
           before.Has(record->key);
  });
  if (left == 0) return;
  diff->weights_of_other_steps = true;
  diff->notes.push_back(fmt::format(
      "weights were recorded at step {} of A and step {} of B, which are other work: they are not "
      "compared",
      of_a ? here.step : first->step, of_a ? first->step : here.step));
}

}  // namespace tdump::compare
