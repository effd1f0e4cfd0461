#include "compare/pass_judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

#include "compare/dequantised.h"
#include "compare/element.h"
#include "compare/near.h"
#include "compare/optimizer_states.h"
#include "compare/precision_hint.h"
#include "compare/relu_flips.h"
#include "compare/roles.h"
#include "compare/tensor_sizes.h"
#include "compare/weight_errors.h"
#include "compare/weight_gain.h"
#include "compare/widened.h"
#include "core/text.h"

namespace tdump::compare {
namespace {

// Of the same two tensors all these numbers are the same, of others hardly ever.
uint64_t ContentOf(const Metrics& m) {
  uint64_t hash = m.elements;
  for (const double number : {m.rmse, m.rms_a, m.rms_b, m.max_abs, m.mean_abs, m.mean_rel})
    hash = (hash ^ std::bit_cast<uint64_t>(number)) * 0x9E3779B97F4A7C15u;
  return hash | 1;
}

// The same of A's values alone; 0 where that tells too little: of few numbers many tensors agree.
uint64_t ContentOfA(const Metrics& m) {
  constexpr uint64_t kEnough = 64;
  if (m.elements < kEnough || m.rms_a == 0) return 0;
  return ((m.elements ^ std::bit_cast<uint64_t>(m.rms_a)) * 0x9E3779B97F4A7C15u) | 1;
}

bool IsFloat(const DType& dtype) { return FormatOf(dtype).UnitRoundoff() > 0; }

// A weight that was cast is off by at most one rounding of each element, two where digits were cut
// off; near 0 by the least number of the format.
void TightenCast(const DType& a, const DType& b, LocalBound* local) {
  const NumberFormat left = FormatOf(a), right = FormatOf(b);
  if (a == b || left.bits < 16 || right.bits < 16) return;
  const double unit = std::max(left.UnitRoundoff(), right.UnitRoundoff());
  if (unit == 0) return;
  local->bound.relative = 2 * unit;
  local->bound.scale = local->bound.relative * 0x1p-8;
  local->bound.text = fmt::format("{:.2g} of |x|: a cast rounds once", local->bound.relative);
}

// float16 and coarser.
bool IsCoarse(const DType& dtype) { return FormatOf(dtype).UnitRoundoff() >= 0x1p-11; }

bool IsHeldToGain(const io::Record& a, const io::Record& b) {
  return RecordedDType(a) == RecordedDType(b) && IsCoarse(RecordedDType(b));
}

bool HasRole(std::span<const ArgumentMeta> arguments, Role role) {
  return std::any_of(arguments.begin(), arguments.end(),
                     [&](const ArgumentMeta& argument) { return argument.role == role; });
}

uint64_t ElementsOf(std::span<const ArgumentMeta> arguments) {
  uint64_t most = 0;
  for (const ArgumentMeta& argument : arguments) {
    uint64_t elements = 1;
    for (const int64_t size : argument.sizes)
      if (__builtin_mul_overflow(elements, static_cast<uint64_t>(std::max<int64_t>(0, size)),
                                 &elements))
        elements = ~uint64_t{0};
    most = std::max(most, elements);
  }
  return most;
}

// Whether its values are known well enough to take part: measured numbers, or equal bits.
bool IsSample(const Outcome& outcome) {
  if (!outcome.error->empty() || (outcome.is_weight() && !outcome.of_optimizer)) return false;
  const Comparison& comparison = outcome.comparison;
  if (comparison.verdict.EqualInValue()) return true;
  return comparison.evidence == Evidence::kPayload && comparison.metrics->numeric &&
         outcome.local().level.power > 0;
}

ErrorLevel MeasuredLevel(const Outcome& outcome, const Metrics& metrics) {
  if (outcome.comparison.verdict.EqualInValue()) return {};
  return LevelOf(metrics);
}

// Whether most elements of B have hardly to do with those of A, which does not show in the error if
// a few are far larger: the signs of more than noise turns (MiniLM in FP8: one in twenty), or as
// far off as they are large. Numbers too small for the format may all become 0.
bool AreMostUnlike(const Metrics& m) {
  constexpr uint64_t kEnough = 64;
  constexpr double kMostPower = 0.1, kMostTurned = 0.25, kMostRelative = 0.9, kSmall = 1e-3;
  if (m.compared < kEnough || !(LevelOf(m).power < kMostPower)) return false;
  const auto turned = static_cast<double>(m.sign_mismatch - m.zero_sign_mismatch);
  const bool lost = m.mean_rel > kMostRelative && m.p50 > kSmall * m.rms_a;
  return lost || turned > kMostTurned * static_cast<double>(m.compared);
}

Sample SampleOf(const Outcome& outcome) {
  const Metrics& m = outcome.comparison.metrics;
  Sample sample;
  sample.order = outcome.order;
  sample.call = outcome.call;
  sample.path = outcome.path;
  sample.output = outcome.is_output();
  sample.backward = outcome.role == Role::kGradInput || outcome.role == Role::kGradOutput ||
                    outcome.role == Role::kParamGrad;
  sample.root_input = outcome.root_input;
  sample.of_parameter = outcome.role == Role::kParamGrad;
  sample.kind = outcome.reduction().kind;
  sample.elements = m.elements;
  sample.channels = m.channels;
  sample.error = MeasuredLevel(outcome, m);
  sample.unlike = AreMostUnlike(m);
  sample.louder = m.cosine && *m.cosine * m.rms_b > m.rms_a;
  sample.local = outcome.local().level;
  const bool measured = outcome.comparison.evidence == Evidence::kPayload && m.numeric;
  if (measured && sample.error.power > 0) sample.content = ContentOf(m);
  if (measured) sample.content_a = ContentOfA(m);
  sample.within_local = outcome.comparison.verdict.tolerance == Answer::kSame;
  return sample;
}

// All of its error goes into what follows.
void Excuse(Sample* sample) {
  ErrorLevel& local = sample->local;
  const ErrorLevel& error = sample->error;
  local = {.power = std::max(local.power, error.power),
           .peak = std::max(local.peak, error.peak),
           .gain = std::max(local.gain, error.gain),
           .common = std::max(local.common, error.common)};
  sample->within_local = true;
  sample->unlike = false;
}

// Finite numbers alone are explained; a special value on one side only is not.
bool MayBeExplained(const Outcome& outcome) {
  const Metrics& m = outcome.comparison.metrics;
  return outcome.comparison.evidence == Evidence::kPayload &&
         (m.nan_mismatch + m.inf_mismatch == 0 || outcome.comparison.verdict.special_allowed) &&
         !(outcome.rule != nullptr && outcome.rule->expect);
}

// On an input that may differ.
void NoteFar(Outcome* outcome) {
  if (IsNear(MeasuredLevel(*outcome, outcome->comparison.metrics))) return;
  outcome->comparison.notes.push_back(fmt::format(
      "an allowed input is too far off (SQNR below {:g} dB) to explain what follows", kNearDb));
}

std::string FlipsText(const Unflipped& rest) {
  return fmt::format(
      "judged without elements whose ReLU flipped: {} of {}, where rounding puts what "
      "went into it on the other side of 0",
      rest.flipped, rest.elements);
}

}  // namespace

const BoundRule* PassJudge::RuleFor(const io::Record& b, Role role) const {
  return options_.rules == nullptr || options_.rules->empty()
             ? nullptr
             : options_.rules->Find(NameOf(b), role);
}

PassJudge::Calls PassJudge::Load(const StepView& view) {
  // What cannot be read is told where the calls are read first (PassDiff::damage).
  Calls calls;
  using InStep = std::tuple<uint32_t, uint32_t, uint32_t, uint64_t>;  // micro, chunk, lane, index
  std::unordered_map<std::string, std::set<InStep>> counted;  // by path: each rank's are the same
  (void)view.ForEachCall([&](const io::CallRecord& record) {
    calls.arguments[record.call.begin] = record.arguments;
    const Call& call = record.call;
    if (record.kind != OperatorKind::kModule || call.phase != Phase::kForward || call.recompute)
      return true;
    const std::string path = record.root + "\n" + record.path;
    ForwardCalls& forward = calls.forward[path];
    const uint64_t elements = ElementsOf(record.arguments);
    const bool is_first = forward.count == 0;
    const InStep in_step{call.micro, call.chunk, call.lane, call.index};
    if (counted[path].insert(in_step).second) ++forward.count;
    if (is_first || elements > forward.elements) {
      forward.begin = record.call.begin;
      forward.elements = elements;
    }
    return true;
  });
  (void)view.ForEachTensor([&](const io::Record& record) {
    if (!record.payload && IsOfScales(record.key.arg))
      calls.without_values.insert(ToText(record.key));
    if (record.key.role == Role::kParam && record.key.arg == "weight")
      calls.weights[record.key.root + "\n" + record.key.path] = record.sizes;
    return true;
  });
  return calls;
}

void PassJudge::LoadCalls() {
  std::call_once(loaded_, [this] {
    calls_a_ = Load(a_);
    calls_b_ = Load(b_);
  });
}

const PassJudge::ForwardCalls* PassJudge::CallsOfGradient(const Calls& calls,
                                                          const io::Record& record) {
  if (record.key.role != Role::kParamGrad) return nullptr;
  const auto forward = calls.forward.find(record.key.root + "\n" + record.key.path);
  return forward == calls.forward.end() ? nullptr : &forward->second;
}

Reduction PassJudge::ReductionIn(const Calls& calls, const io::Record& record) const {
  OperatorFacts facts{.op = record.key.op, .cls = record.cls, .arguments = {}, .weight = {}};
  auto call = calls.arguments.find(record.call_begin);
  if (call != calls.arguments.end()) facts.arguments = call->second;
  if (record.key.role == Role::kParamGrad) facts.parameter = record.sizes;
  // A gradient is seen where it is added up, in no call of its module.
  const ForwardCalls* forward = CallsOfGradient(calls, record);
  if (forward != nullptr && !HasRole(facts.arguments, Role::kGradOutput)) {
    call = calls.arguments.find(forward->begin);
    facts.arguments = call->second;
    facts.calls = forward->count;
  }
  const auto weight = calls.weights.find(record.key.root + "\n" + record.key.path);
  if (weight != calls.weights.end()) facts.weight = weight->second;
  Reduction reduction = ReductionOf(facts, record.key.role);
  if (!reduction.exact && call == calls.arguments.end() && !record.sizes.empty())
    reduction.length = static_cast<uint64_t>(std::max<int64_t>(1, record.sizes.back()));
  return reduction;
}

const Precision* PassJudge::GivenPrecision(const Outcome& outcome) const {
  if (outcome.rule != nullptr && outcome.rule->compute) return &*outcome.rule->compute;
  return options_.compute ? &*options_.compute : nullptr;
}

void PassJudge::SetBound(const io::Record& a, const io::Record& b, Outcome* outcome) {
  LoadCalls();
  Rounding rounding;
  uint64_t roundings = 1;
  if (outcome->is_weight()) {
    rounding.reduction = {.kind = OperatorClass::kLookup, .length = 1, .exact = true};
  } else {
    // Shards know the length of their part only: the longer of the two sides.
    rounding.reduction = ReductionIn(calls_b_, b);
    rounding.reduction.length =
        std::max(rounding.reduction.length, ReductionIn(calls_a_, a).length);
    for (const ForwardCalls* calls : {CallsOfGradient(calls_a_, a), CallsOfGradient(calls_b_, b)})
      if (calls != nullptr) roundings = std::max(roundings, calls->count);
  }
  // Weights are numbers that were given, not computed.
  const Precision* compute = outcome->is_weight() ? nullptr : GivenPrecision(*outcome);
  const double half_step = HalfStep(a, b);
  Precision integers;
  if (half_step > 0 && !outcome->is_weight()) {
    integers = ResultPrecision(compute, a, b);
    compute = &integers;
  }
  rounding.local = LocalBoundOf({.a = half_step > 0 ? NumberDType(a) : RecordedDType(a),
                                 .b = half_step > 0 ? NumberDType(b) : RecordedDType(b),
                                 .reduction = rounding.reduction,
                                 .roundings = roundings,
                                 .compute = compute});
  if (half_step > 0)
    rounding.local.bound.text +=
        fmt::format(" and {:.2g}: half a step of the largest scale", half_step);
  if (outcome->is_weight()) TightenCast(RecordedDType(a), RecordedDType(b), &rounding.local);
  if (IsExpectedEqual(a, b, *outcome))
    rounding.local = {.bound = {.text = "exact: nothing has computed this weight"}, .level = {}};
  if (options_.noise != nullptr) AddNoise(a, b, &rounding.local);
  outcome->rounding = Shared(std::move(rounding));
}

bool PassJudge::IsExpectedEqual(const io::Record& a, const io::Record& b,
                                const Outcome& outcome) const {
  const DType dtype = RecordedDType(b);
  if (!parameters_given_ || outcome.role != Role::kParam || !IsCoarse(dtype) ||
      RecordedDType(a) != dtype || !KeptOf(a, b).payload)
    return false;
  // Other scales make other numbers of the same ones.
  const Precision* compute = GivenPrecision(outcome);
  const bool requantised =
      compute != nullptr && FormatOf(dtype).bits < 16 && Explains(*compute, dtype, dtype);
  return !requantised;
}

void PassJudge::JudgeWeight(const io::Record& a, const io::Record& b, Outcome* outcome) const {
  Comparison& comparison = outcome->comparison;
  if (comparison.evidence != Evidence::kPayload) return;
  if (!IsExpectedEqual(a, b, *outcome)) {
    if (IsHeldToGain(a, b)) HoldGain(outcome->local().level.gain, &comparison);
  } else if (comparison.verdict.tolerance == Answer::kDiffers) {
    const Metrics m = comparison.metrics;
    comparison.notes.push_back(fmt::format("same dtype, not equal: {} of {} elements",
                                           CountText(m.outside()), CountText(m.elements)));
  }
}

std::optional<double> PassJudge::GainBesideRounding(const io::Record& a, const io::Record& b,
                                                    const Outcome& outcome) const {
  const Comparison& comparison = outcome.comparison;
  if (!outcome.is_weight() || outcome.of_optimizer || !IsHeldToRounding(a, b) ||
      comparison.evidence != Evidence::kPayload || comparison.verdict.tolerance != Answer::kSame)
    return std::nullopt;
  const bool is_given = parameters_given_ && options_.noise == nullptr;
  return is_given ? 0 : outcome.local().level.gain;
}

void PassJudge::NoteScales(const io::Record& a, const io::Record& b, Notes* notes) const {
  for (const bool of_a : {true, false}) {
    const io::Record& record = of_a ? a : b;
    if (!MayBeQuantised(record)) continue;
    for (const Key& key : ScaleKeys(record.key)) {
      if (!(of_a ? calls_a_ : calls_b_).without_values.contains(ToText(key))) continue;
      notes->push_back(fmt::format("{}{}: {}{}{}; capture {{role: [{}], level: full}}",
                                   of_a ? "A" : "B", kNotDequantised, key.path,
                                   key.path.empty() ? "" : ".", key.arg,
                                   IsWeight(key.role) ? "param, state" : ToString(key.role)));
      break;
    }
  }
}

void PassJudge::AddNoise(const io::Record& a, const io::Record& b, LocalBound* bound) const {
  const NoiseLevel* noise = options_.noise->Find(NameOf(a), a.key);
  if (noise == nullptr) noise = options_.noise->Find(NameOf(b), b.key);
  if (noise == nullptr || noise->peak == 0 || !IsFloat(a.dtype)) return;
  LocalBound& local = *bound;
  const double scale = kNoiseFactor * noise->peak;
  local.level.power = std::max(local.level.power, kNoiseFactor * kNoiseFactor * noise->power);
  local.level.gain = std::max(local.level.gain, kNoiseFactor * std::sqrt(noise->power));
  if (scale <= local.bound.scale) return;
  local.bound.scale = local.level.peak = scale;
  local.bound.text += fmt::format(" and {:.2g} of rms: {:g} * the largest of {} repeats", scale,
                                  kNoiseFactor, noise->pairs);
}

std::shared_ptr<const Rounding> PassJudge::Shared(Rounding rounding) {
  const Reduction& r = rounding.reduction;
  const LocalBound& l = rounding.local;
  const RoundingKey key = {r.kind,        r.length,      r.exact,       l.bound.relative,
                           l.bound.scale, l.bound.text,  l.level.power, l.level.peak,
                           l.level.gain,  l.level.common};
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const Rounding>& shared = roundings_[key];
  if (!shared) shared = std::make_shared<const Rounding>(std::move(rounding));
  return shared;
}

void PassJudge::Adopt(Outcome* outcome) {
  if (outcome->rounding) outcome->rounding = Shared(*outcome->rounding);
}

void PassJudge::JudgePair(const io::Record& a, const io::Record& b, Outcome* outcome) const {
  Comparison& comparison = outcome->comparison;
  Verdict& verdict = comparison.verdict;
  for (const io::Record* record : {&a, &b}) {
    const std::string text = DequantisedText(*record);
    if (!text.empty()) comparison.notes.push_back((record == &a ? "A " : "B ") + text);
  }
  if (verdict.dtype == Answer::kDiffers) {
    const Precision* given = GivenPrecision(*outcome);
    const std::string_view needed = PrecisionFor(a, b);
    if (given != nullptr && Explains(*given, a, b))
      verdict.dtype_allowed = true;
    else if (!needed.empty())
      comparison.notes.push_back(
          fmt::format("dtype differs, {} against {}; --compute {} compares the values",
                      RecordedDType(a).view(), RecordedDType(b).view(), needed));
    NoteScales(a, b, &comparison.notes);
  }
  if (outcome->is_weight() && !outcome->of_optimizer) JudgeWeight(a, b, outcome);
  if (outcome->rule != nullptr) ApplyRule(*outcome->rule, &comparison);
}

void PassJudge::JudgeTogether(PassDiff* pass) {
  std::vector<Outcome>& outcomes = pass->outcomes;
  std::vector<uint32_t> indices;
  WeightErrors weights(pass);
  TensorSizes sizes(pass);
  const OptimizerStates states(*pass);
  OptimizerUpdates updates(options_.before, options_.is_first_step, pass);
  bool any = false;
  for (uint32_t i = 0; i < outcomes.size(); ++i) {
    const Outcome& outcome = outcomes[i];
    if (outcome.is_weight() && !outcome.of_optimizer &&
        outcome.comparison.evidence == Evidence::kPayload) {
      const bool updated = AllowUpdated(&updates, pass->spill.get(), &outcomes[i]);
      weights.Add(i, MeasuredLevel(outcome, outcome.comparison.metrics), updated);
    }
    if (!IsSample(outcome) || (outcome.of_optimizer && !states.IsOfGradients(i))) continue;
    indices.push_back(i);
    any = any || outcome.comparison.verdict.bitwise != Answer::kSame;
  }
  if (!any) return;
  weights.Finish(&sizes);
  std::sort(indices.begin(), indices.end(), [&](uint32_t x, uint32_t y) {
    return outcomes[x].order != outcomes[y].order ? outcomes[x].order < outcomes[y].order : x < y;
  });
  std::vector<CallInterval> calls;
  for (const auto& [begin, call] : pass->calls) {
    if (call.kind != OperatorKind::kTap) calls.push_back({begin, call.end});
  }
  // Of what the model was given.
  const auto may_differ = [&](const Outcome& outcome) {
    if (!outcome.root_input || !options_.allow_failed) return false;
    const auto record = b_.Get(outcome.ids.b);
    return record.ok() && options_.allow_failed.Match(*record);
  };
  const auto sample_of = [&](size_t i) {
    Sample sample = SampleOf(outcomes[indices[i]]);
    sample.weights = weights.Of(sample.path);
    states.Complete(indices[i], &sample);
    if (may_differ(outcomes[indices[i]]) && IsNear(sample.error)) Excuse(&sample);
    return sample;
  };
  ReluFlips flips(pass);
  std::unordered_map<size_t, Unflipped> flipped;
  const auto unflipped = [&](size_t i) {
    const std::optional<Unflipped> rest = flips.Measure(outcomes[indices[i]]);
    if (rest) flipped[i] = *rest;
    return rest;
  };
  const auto momentum = [&](size_t i) { return updates.ExplainsMomentum(outcomes[indices[i]]); };
  const ExplainOptions options = {.compute = options_.compute.has_value(),
                                  .unflipped = unflipped,
                                  .momentum = momentum,
                                  .size = [&](size_t i) { return sizes.Of(indices[i]); }};
  Explain({indices.size(), sample_of}, calls, options,
          [&](size_t i, const Explanation& explanation) {
            Outcome& outcome = outcomes[indices[i]];
            const Answer own = outcome.comparison.verdict.tolerance;
            SetExplanation(explanation, &outcome);
            // What is excused is listed as allowed all the same.
            if (may_differ(outcome)) {
              outcome.comparison.verdict.tolerance = own;
              NoteFar(&outcome);
            }
            if (const auto rest = flipped.find(i); rest != flipped.end() && explanation.within)
              outcomes[indices[i]].comparison.notes.push_back(FlipsText(rest->second));
            outcomes[indices[i]].explanation.MoveTo(pass->spill.get());
            outcomes[indices[i]].comparison.notes.MoveTo(pass->spill.get());
          });
}

bool PassJudge::AllowUpdated(OptimizerUpdates* updates, SpillFile* spill, Outcome* outcome) {
  Comparison& comparison = outcome->comparison;
  const bool by_rule = outcome->rule != nullptr && outcome->rule->expect;
  // One that is within its bounds but for a gain has nothing to explain.
  if (by_rule || !OptimizerUpdates::IsOutside(*outcome)) return false;
  const std::optional<double> gain = updates->Explain(*outcome);
  if (!gain) return false;
  comparison.verdict.tolerance = Answer::kSame;
  const auto a = a_.Get(outcome->ids.a), b = b_.Get(outcome->ids.b);
  if (a.ok() && b.ok() && IsHeldToGain(*a, *b))
    HoldGain(outcome->local().level.gain + *gain, &comparison);
  const bool is_allowed = comparison.verdict.tolerance == Answer::kSame;
  if (is_allowed)
    comparison.notes.push_back(
        "within what its last update explains: what that was made of differs within bounds");
  comparison.notes.MoveTo(spill);
  return is_allowed;
}

void PassJudge::SetExplanation(const Explanation& explanation, Outcome* outcome) const {
  if (outcome->comparison.verdict.bitwise == Answer::kSame) return;
  outcome->explanation = PackedExplanation(explanation);
  if (MayBeExplained(*outcome))
    outcome->comparison.verdict.tolerance = explanation.within ? Answer::kSame : Answer::kDiffers;
  if (!explanation.within && AreMostUnlike(outcome->comparison.metrics))
    outcome->comparison.notes.push_back("most elements are unlike A's; a few large ones hide it");
  if (!explanation.within && !explanation.follows && !options_.compute) Suggest(outcome);
}

void PassJudge::Suggest(Outcome* outcome) const {
  const auto a = a_.Get(outcome->ids.a), b = b_.Get(outcome->ids.b);
  if (!a.ok() || !b.ok() || a->dtype != b->dtype) return;
  std::string_view precision = PrecisionLike(*outcome, a->dtype, b->dtype);
  if (precision.empty() && !PrecisionLike(*outcome, a->dtype, b->dtype, true).empty() &&
      AreWidened(a_, *a, b_, *b))
    precision = "bf16";
  if (!precision.empty()) outcome->comparison.notes.push_back(PrecisionNote(precision));
}

}  // namespace tdump::compare
