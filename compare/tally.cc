#include "compare/tally.h"

#include <fmt/format.h>

#include <algorithm>

#include "compare/record_patterns.h"
#include "core/key.h"
#include "core/text.h"

namespace tdump::compare {
namespace {

constexpr size_t kMostListed = 1000;  // inputs

// What keeps these parts: "hash, stats"; "" for shape and dtype alone.
std::string LevelText(Parts parts) {
  if ((parts & kPartPayload) != 0) return "full";
  parts &= static_cast<Parts>(~kPartMeta);
  std::string text;
  for (const char c : parts == kPartNone ? std::string() : PartsToString(parts))
    text += c == '+' ? std::string(", ") : std::string(1, c);
  return text;
}

// Those of other shapes that were found to be equal were read too: tokens, sparse tensors.
bool IsRead(const Comparison& c) {
  return c.evidence == Evidence::kPayload ||
         (c.verdict.shape == Answer::kDiffers && c.verdict.tolerance == Answer::kSame);
}

// Of a pair that is counted neither as read, nor as equal, agreeing, unproven or not judged, and
// could be put together.
bool IsLeft(const Outcome& outcome) {
  const Comparison& c = outcome.comparison;
  const bool told = IsRead(c) || c.evidence == Evidence::kHash || c.verdict.Unproven() ||
                    !outcome.unresolved->empty();
  const bool agrees =
      !outcome.fails && (!c.verdict.Judged() || c.verdict.statistics == Answer::kSame);
  return !told && !agrees;
}

// Of a root input that fails.
void Measure(const Row& row, InputReport* inputs) {
  InputDistance& distance = inputs->distance ? *inputs->distance : inputs->distance.emplace();
  distance.args[PlainName(row.key.root, row.key.path, row.key.op)].insert(row.key.arg);
  const Verdict& v = row.comparison.verdict;
  const Metrics m = row.comparison.metrics;
  const bool is_read = row.comparison.evidence == Evidence::kPayload && m.numeric && m.sqnr_db &&
                       v.dtype == Answer::kSame && v.shape == Answer::kSame &&
                       v.special != Answer::kDiffers;
  distance.is_read = distance.is_read && is_read;
  if (!is_read || (!distance.max_abs_text.empty() && *m.sqnr_db >= distance.least_sqnr_db)) return;
  distance.least_sqnr_db = *m.sqnr_db;
  distance.max_abs_text = m.max_abs_text;
}

}  // namespace

void Tally::Add(const PassDiff& pass, const Outcome& outcome) {
  Count(outcome);
  NoteUnjudged(pass, outcome);
}

void Tally::Count(const Outcome& outcome) {
  Counts& c = report_->counts;
  const Verdict& v = outcome.comparison.verdict;
  ++c.paired;
  c.failing += outcome.fails && !outcome.allowed;
  c.allowed += outcome.fails && outcome.allowed;
  c.allowed_by_hash += outcome.allowed && !outcome.fails && v.Unproven();
  c.agreeing += v.Judged() && !outcome.fails && !v.Unproven();
  c.failing_by_hash += outcome.fails && !outcome.allowed && v.Unproven() && !v.Fails(false);
  c.judged += v.Judged();
  c.unresolved += !outcome.unresolved->empty();
  c.not_judged += !v.Judged() && !outcome.fails;
  c.bits_equal += v.bitwise == Answer::kSame;
  c.equal_by_hash += outcome.comparison.evidence == Evidence::kHash && v.bitwise == Answer::kSame;
  c.read += IsRead(outcome.comparison);
  c.unproven += v.Unproven();
  c.unproven_weights += v.Unproven() && outcome.is_weight();
  c.unproven_states += v.Unproven() && outcome.of_optimizer && !outcome.allowed;
  c.by_statistics += v.statistics == Answer::kSame && !outcome.fails;
  const bool by_values = v.tolerance == Answer::kDiffers || v.special == Answer::kDiffers;
  c.not_by_statistics += IsLeft(outcome) && by_values;
  c.of_other_kind += IsLeft(outcome) && !by_values;
  c.shape += v.shape == Answer::kDiffers;
  c.dtype += v.dtype == Answer::kDiffers;
  c.special += v.special == Answer::kDiffers;
  c.bits += v.bitwise == Answer::kDiffers;
  c.tolerance += v.tolerance == Answer::kDiffers;
  compared_ += !outcome.root_input;
  if (outcome.is_weight() || outcome.root_input) return;
  ++observations_;
  observations_judged_ += v.Judged();
}

void Tally::NoteUnjudged(const PassDiff& pass, const Outcome& outcome) {
  const bool of_operator = !outcome.is_weight() && !outcome.root_input;
  if (outcome.comparison.verdict.Judged() || outcome.fails || !of_operator || unjudged_) return;
  const auto a = pass.a->Get(outcome.ids.a), b = pass.b->Get(outcome.ids.b);
  if (a.ok() && b.ok()) unjudged_.emplace(a->parts_kept, b->parts_kept);
}

void Tally::AddInput(const Row& row, const Outcome& outcome) {
  InputReport& inputs = report_->inputs;
  ++inputs.compared;
  inputs.equal += outcome.comparison.verdict.EqualInValue();
  inputs.by_statistics += outcome.comparison.verdict.statistics == Answer::kSame;
  inputs.not_judged += !outcome.fails && !outcome.comparison.verdict.Judged();
  if (!outcome.fails || outcome.allowed) return;
  ++inputs.differing_pairs;
  inputs.differing_by_hash += outcome.comparison.verdict.Unproven();
  if (!inputs.first_differing_step) inputs.first_differing_step = row.step_b;
  Measure(row, &inputs);
  const std::string name = RootInputName(row.key);
  const bool listed =
      std::find(inputs.differing.begin(), inputs.differing.end(), name) != inputs.differing.end();
  if (!listed && inputs.differing.size() < kMostListed) inputs.differing.push_back(name);
}

void Tally::Judge(const RunSide& a, const RunSide& b, const PassPairing& pairing,
                  const UnpairedList& unpaired, const WeightList& weights) {
  const Counts& c = report_->counts;
  const bool alone = c.unpaired_a + c.unpaired_b > c.unpaired_allowed;
  // Of weights of which nothing says by how much they differ the operators tell, unless the
  // precision is lower; those that were measured are judged by their bounds.
  const bool weights_tell = observations_judged_ == 0 || options_->pass.compute;
  const ParameterReport& p = report_->parameters;
  const bool weights_decide =
      weights_tell &&
      (p.by_hash > 0 || !std::ranges::all_of(p.differing, &ParameterDifference::within));
  const bool states_decide =
      (observations_judged_ == 0 && c.unproven_states > 0) || c.unexplained_states > 0;
  if (c.paired == 0) {
    report_->why_not = pairing.pairs.empty() ? WhyNoPass(a, b, pairing) : WhyNoRecord(unpaired);
  } else if (alone && compared_ == 0 && !unpaired.NamesText().empty()) {
    report_->why_not = WhyNoRecord(unpaired);  // nothing but what the model was given
  } else if (c.failing > 0 || alone || weights_decide || states_decide ||
             report_->inputs.judging_stopped) {
    report_->overall = Overall::kDiffers;
    // Where most has no partner names may be another framework's.
    const bool mostly_alone = c.unpaired_a + c.unpaired_b > c.paired;
    if (std::string advice = mostly_alone ? unpaired.Advice() : ""; !advice.empty())
      report_->notes.push_back(std::move(advice));
    if (!report_->origin && !report_->parameters.differing.empty())
      report_->origin = weights.FirstDiffering();
  } else if (c.judged == 0 || (observations_ > 0 && observations_judged_ == 0)) {
    report_->why_not = WhyNoneJudged();
  } else {
    report_->overall = Overall::kSame;
  }
  if (!report_->damage.empty()) report_->overall = Overall::kDamaged;
}

std::string Tally::WhyNoRecord(const UnpairedList& unpaired) const {
  const Counts& c = report_->counts;
  if (c.unpaired_a + c.unpaired_b == 0 && !options_->across.empty())
    return fmt::format(
        "the paired steps hold no record{} that is compared along {}: of ranks that were given "
        "other inputs only parameters and buffers that it does not split are; capture them at "
        "every step: {}",
        options_->pass.select ? " in --select" : "", options_->across, kCaptureWeights);
  if (c.unpaired_a + c.unpaired_b == 0)
    return options_->pass.select
               ? "the paired steps hold no selected record: is --select right? See tdump-view "
                 "--names"
               : "the paired steps hold no record on either side: see tdump-view --coverage";
  const std::string names = unpaired.NamesText();
  return fmt::format("{} of {} paired{}{}", c.paired,
                     c.paired + std::max(c.unpaired_a, c.unpaired_b), names.empty() ? "" : ": ",
                     names);
}

// Of some pairs too little was kept on both sides, and that agrees.
std::string Tally::WhyNoneJudged() const {
  const Counts& c = report_->counts;
  const bool bits = options_->pass.require_bits;
  const char* const kept = bits ? "nothing that proves equal bits was kept on both sides; what was "
                                  "kept agrees"
                                : "nothing but shape and dtype was kept on both sides, which agree";
  if (c.judged > 0)
    return fmt::format(
        "of {} of operators {}; what the model was given and holds does not tell what it did: {}",
        Plural(observations_, "pair"), kept,
        KeepAdvice(bits ? "capture with level hash or full"
                        : "capture with level hash, stats or full"));
  const bool weights = report_->parameters.not_judged == c.paired;
  return fmt::format("of {} pairs {}; {}", c.paired, kept,
                     weights ? "capture with a rule {role: [param, state], level: full}"
                             : KeepAdvice("capture with level hash or full"));
}

// Where each side kept something, but not the same: what one of them needs besides.
std::string Tally::KeepAdvice(const char* otherwise) const {
  if (!unjudged_ || options_->pass.require_bits) return otherwise;
  const std::string kept_a = LevelText(unjudged_->first), kept_b = LevelText(unjudged_->second);
  if (kept_a.empty() || kept_b.empty() || kept_a == kept_b) return otherwise;
  return fmt::format(
      "A kept {} and B {}: capture A again with level: [{}, {}], or B, or one of them with level "
      "full",
      kept_a, kept_b, kept_a, kept_b);
}

}  // namespace tdump::compare
