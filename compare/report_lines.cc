#include "compare/report_lines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "compare/bound_text.h"
#include "compare/cause_lines.h"
#include "compare/job_text.h"
#include "compare/judged_lines.h"
#include "compare/record_patterns.h"
#include "compare/roles.h"
#include "compare/sparse_pairs.h"
#include "compare/text.h"
#include "core/key.h"

namespace tdump::compare {
namespace {

constexpr size_t kMostNames = 3;

std::string StepsOfSide(const DiffReport& report, bool is_a) {
  std::vector<uint64_t> steps;
  for (const auto& [step_a, step_b] : report.steps) steps.push_back(is_a ? step_a : step_b);
  return StepsText(steps);
}

std::string PairedText(const DiffReport& report) {
  const Counts& c = report.counts;
  std::string text =
      fmt::format("{} in {}", Plural(c.paired, "record"), Plural(c.passes_paired, "pass"));
  if (c.unpaired_a + c.unpaired_b > 0) {
    text += fmt::format("; only in A {}, only in B {}", CountText(c.unpaired_a),
                        CountText(c.unpaired_b));
    if (c.unpaired_allowed > 0) text += fmt::format(" ({} allowed)", CountText(c.unpaired_allowed));
  } else {
    text += "; none without a partner";
  }
  text += fmt::format("; {} equal by hash, {} read", CountText(c.equal_by_hash), CountText(c.read));
  // The rest, so that they add up.
  const std::pair<uint64_t, std::string_view> rest[] = {
      {c.unproven, "known by hash alone to differ"},
      {c.by_statistics, "agree as far as statistics tell"},
      {c.not_by_statistics, "differ by statistics"},
      {c.of_other_kind, "of other shape or dtype, not read"},
      {c.unresolved, "could not be put together"},
      {c.not_judged, "not judged (shape and dtype only)"},
      {c.unreadable, "damaged"}};
  for (const auto& [count, what] : rest) {
    if (count > 0) text += fmt::format("; {} {}", CountText(count), what);
  }
  return text;
}

// `alone`: recorded, without a partner.
std::string WhyNone(const DiffReport& report, uint64_t alone) {
  if (alone > 0) return fmt::format("none compared: {} without a partner", Plural(alone, "record"));
  if (!report.across.empty())
    return fmt::format("none compared along {}: not recorded, or split over it{}",
                       Printable(report.across), report.selects ? ", or not in --select" : "");
  if (report.named) return "none compared: not what the address names";
  return report.selects ? "none compared: not recorded, or not in --select" : "none recorded";
}

// Of weights that are off later, which may follow from what was off before.
std::string FollowingText(const ParameterReport& p, bool alone) {
  const uint64_t names = p.following_names + p.buffers_following;
  std::string text = fmt::format("{}{} outside {} later, after other records", CountText(names),
                                 alone ? "" : " more", names == 1 ? "its bound" : "their bounds");
  const bool is_buffer =
      p.buffers_farthest && (!p.farthest || p.buffers_farthest->IsFartherThan(*p.farthest));
  const std::optional<FollowingWeight>& farthest = is_buffer ? p.buffers_farthest : p.farthest;
  if (!farthest) return text;
  return text + fmt::format("; farthest: {}, step {}, {}, {}", RankText(farthest->rank),
                            farthest->step, Printable(farthest->name),
                            farthest->special ? "NaN or infinities on one side"
                                              : SqnrText(farthest->sqnr_db));
}

std::string WeightsText(const DiffReport& report) {
  const ParameterReport& p = report.parameters;
  if (p.pairs == 0) return WhyNone(report, p.alone);
  std::string text = fmt::format(
      "{} of {} parameters",
      CountText(p.compared - (p.differing_names - p.drifted_names) - p.allowed_from_start),
      CountText(p.compared));
  if (p.buffers_compared > 0)
    text += fmt::format(" and {} of {} buffers",
                        CountText(p.buffers_compared - (p.buffers_differing - p.buffers_drifted) -
                                  p.buffers_allowed_from_start),
                        CountText(p.buffers_compared));
  text += " equal on every rank";
  if (report.steps.size() > 1 && !p.first_steps.empty())
    text += " at " + StepsText({p.first_steps.begin(), p.first_steps.end()});
  if (p.by_statistics > 0) text += " as far as statistics tell";
  struct Where {
    std::vector<int32_t> ranks;
    uint64_t step = 0;
    bool drifted = false;
  };
  std::map<std::string, Where> places;
  for (const ParameterDifference& difference : p.differing) {
    Where& where = places[difference.name];
    if (where.ranks.empty()) where.step = difference.step;
    where.ranks.push_back(difference.rank);
    where.drifted = where.drifted || difference.drifted;
  }
  const size_t shown = report.lists_all ? places.size() : std::min(kMostNames, places.size());
  for (size_t left = shown; const auto& [name, where] : places) {
    if (left-- == 0) break;
    text += fmt::format(
        "\nnot on {}{}: {}",
        where.ranks.front() == kAllRanks ? RankText(kAllRanks) : RanksText(where.ranks),
        where.drifted ? fmt::format(" from step {} on", where.step) : "", Printable(name));
  }
  if (const uint64_t names = p.differing_names + p.buffers_differing; names > shown)
    text += fmt::format("\n{} more: {}", CountText(names - shown),
                        report.lists_all ? "--jsonl FILE" : "--all, or --jsonl FILE");
  if (p.by_hash > 0)
    text += fmt::format("\n{}by hash, which does not say by how much",
                        p.by_hash == p.differing_names + p.buffers_differing
                            ? ""
                            : CountText(p.by_hash) + " of them ");
  if (const uint64_t allowed = p.allowed_names + p.buffers_allowed; allowed > 0)
    text += fmt::format("\n{} that {} allowed", CountText(allowed),
                        allowed == 1 ? "differs is" : "differ are");
  if (p.following_names + p.buffers_following > 0) text += "\n" + FollowingText(p, places.empty());
  return text;
}

std::string InputsText(const DiffReport& report) {
  const InputReport& inputs = report.inputs;
  if (inputs.judging_stopped) return PartedText(report).substr(std::string("inputs ").size());
  if (inputs.compared == 0 && inputs.alone == 0 && !report.across.empty())
    return fmt::format(
        "of the model: not compared along {}: each rank has others, or none recorded",
        Printable(report.across));
  if (inputs.compared == 0) return "of the model: " + WhyNone(report, inputs.alone);
  if (inputs.first_differing_step) {
    const bool by_hash =
        inputs.differing_by_hash > 0 && inputs.differing_by_hash == inputs.differing_pairs;
    return fmt::format("differ {}from step {} on: input {}", by_hash ? "by hash " : "",
                       *inputs.first_differing_step,
                       Printable(fmt::format("{}", fmt::join(inputs.differing, ", input "))));
  }
  std::string text = fmt::format("{} of {} equal", inputs.equal, inputs.compared);
  if (inputs.not_judged > 0)
    text += fmt::format(", {} not judged (values were not kept)", inputs.not_judged);
  if (inputs.equal + inputs.not_judged < inputs.compared)
    text += fmt::format(", the rest {}{}",
                        inputs.by_statistics > 0 ? "as far as statistics tell" : "within bounds",
                        report.counts.allowed > 0 ? ", or allowed" : "");
  return text;
}

bool IsStateOfOptimizer(const Origin& origin) {
  return origin.row && IsOfOptimizer(origin.row->key);
}

ptrdiff_t JudgedOf(const std::vector<Row>& rows) {
  return std::count_if(rows.begin(), rows.end(),
                       [](const Row& r) { return r.comparison.verdict.Judged(); });
}

bool AllBitsEqual(const std::vector<Row>& rows) {
  return std::all_of(rows.begin(), rows.end(),
                     [](const Row& r) { return r.comparison.verdict.bitwise == Answer::kSame; });
}

bool ByStatistics(const std::vector<Row>& rows) {
  return std::any_of(rows.begin(), rows.end(), [](const Row& r) {
    return r.comparison.verdict.statistics != Answer::kNotJudged;
  });
}

std::string HowTheyAgree(const std::vector<Row>& rows) {
  return AllBitsEqual(rows)   ? "bit for bit"
         : ByStatistics(rows) ? "as far as statistics tell"
                              : "within bounds";
}

// Of what an optimizer keeps.
std::string GradientOfOrigin(const Origin& origin, const std::string& across) {
  if (origin.inputs.empty() && !across.empty())
    return fmt::format(
        "its gradient is not compared along {}: the ranks were given other inputs, or it was not "
        "recorded",
        Printable(across));
  if (origin.inputs.empty())
    return "its gradient was not recorded: capture role param_grad to be sure";
  if (JudgedOf(origin.inputs) == 0)
    return "its gradient is not judged: its values were not kept on both sides";
  return "its gradient agrees " + HowTheyAgree(origin.inputs);
}

// What is known of the data that went into the origin.
std::string InputsOfOrigin(const Origin& origin, const std::string& across) {
  if (origin.skipped)
    return Printable(SkippedText(*origin.skipped)) +
           ": it did not run there, as after an early return, or a branch that depends on the rank";
  switch (origin.kind) {
    case OriginKind::kInputs:
      return origin.may_be_handed_on
                 ? "this rank was given different data, or what a stage of a pipeline before it "
                   "made: no coordinates say where ranks are; --topology pp=N does"
                 : "the runs were given different data: what follows from it is not judged";
    case OriginKind::kOperator:
      if (IsStateOfOptimizer(origin)) return GradientOfOrigin(origin, across);
      // Made by a call of its own, of what other calls of the operator were given.
      if (origin.inputs.empty() && origin.row && origin.row->key.role == Role::kParamGrad)
        return "what it is made of, the operator's input and grad_output, is compared by itself "
               "where it was recorded";
      if (origin.inputs.empty() && origin.of_named_records)
        return "its inputs are not compared: the address leaves them out; RUN:STEP/RANK on both "
               "sides compares them too";
      if (origin.inputs.empty())
        return "its inputs were not recorded: capture role input to be sure";
      if (JudgedOf(origin.inputs) == 0)
        return "its inputs are not judged: their values were not kept on both sides";
      return fmt::format("inputs agree: {} of {}, {}", JudgedOf(origin.inputs),
                         origin.inputs.size(), HowTheyAgree(origin.inputs));
    case OriginKind::kInterval:
    case OriginKind::kParameter:
      if (!origin.row) return "";
      return origin.last_agreeing
                 ? fmt::format(
                       "between {} (agrees) and {} {} (differs); what runs between was not "
                       "recorded",
                       ShownName(origin.last_agreeing->name), ShownName(origin.row->name),
                       ObservationText(*origin.row))
                 : fmt::format("before {} {}, the first record that can tell",
                               ShownName(origin.row->name), ObservationText(*origin.row));
    case OriginKind::kMissing:
      return MissingText(*origin.missing, origin.step);
  }
  return "";
}

// "rank 2"; where the same begins on several, "ranks 0-1".
std::string RanksOfOrigin(const Origin& origin) {
  return origin.ranks.empty() ? RankText(origin.rank) : RanksText(origin.ranks);
}

std::string OtherRanks(const Origin& origin) {
  const auto agree = [&](std::string_view where) {
    return fmt::format("{} agree{}{}", RanksText(origin.ranks_agreeing),
                       origin.ranks_agreeing.size() == 1 ? "s" : "", where);
  };
  std::vector<int32_t> also;  // of those alike, where it does not begin
  std::set_difference(origin.ranks_alike.begin(), origin.ranks_alike.end(), origin.ranks.begin(),
                      origin.ranks.end(), std::back_inserter(also));
  if (also.empty() && origin.ranks_agreeing.empty()) return "";
  if (also.empty()) return fmt::format("only {}: {}", RanksOfOrigin(origin), agree(" here"));
  return fmt::format("also on {}{}", RanksText(also),
                     origin.ranks_agreeing.empty() ? "" : "; " + agree(""));
}

bool IsTap(const Origin& origin) { return origin.row && origin.row->kind == OperatorKind::kTap; }

// Of a parameter the figures are those of a record that it may have spoilt.
std::string WhatDiffers(const Origin& origin) {
  if (origin.kind == OriginKind::kParameter)
    return fmt::format("{} {}: ", ShownName(origin.row->name), ObservationText(*origin.row));
  if (origin.kind != OriginKind::kOperator) return "";
  if (IsTap(origin)) return "tap does not: ";
  return IsStateOfOptimizer(origin) ? "what is kept does not: " : "output does not: ";
}

// The parameter that differs, with its numbers where they were read; "" where there is none.
std::string ParameterText(const Origin& origin) {
  if (origin.parameter.empty()) return "";
  std::string text = fmt::format("its {} differs: {}", origin.of_buffer ? "buffer" : "parameter",
                                 Printable(origin.parameter));
  const Row* const row = origin.parameter_row.get();
  if (row == nullptr || row->comparison.evidence != Evidence::kPayload) return text;
  const Metrics m = row->comparison.metrics;
  if (m.elements == 0 || m.bits_equal == m.elements) return text;
  text += fmt::format(": {} of {} elements", CountText(m.elements - m.bits_equal),
                      CountText(m.elements));
  if (HasNoDistance(m))
    text += fmt::format(", NaN or infinities on one side in {}",
                        CountText(m.nan_mismatch + m.inf_mismatch));
  else
    text += ", max abs " + m.max_abs_text;
  if (!m.has_worst) return text;
  return text +
         fmt::format(" at {}, A {}, B {}", ShapeText(m.worst.position), m.worst.a, m.worst.b);
}

// SQNR, cosine, ULP and quantiles of a row that was read.
std::string DistanceText(const Metrics& m) {
  std::string text = "SQNR " + SqnrText(m.sqnr_db);
  if (m.cosine) text += fmt::format(", cosine {:.6g}", *m.cosine);
  text += fmt::format(", RMSE {}, max ULP {}", Short(m.rmse), Short(m.max_ulp));
  text += fmt::format("; |error| 50 % {}, 99 % {}", Short(m.p50), Short(m.p99));
  if (m.worst_channel)
    text += fmt::format("; worst channel {} (mean {})", m.worst_channel->index,
                        Short(m.worst_channel->mean_error));
  return text;
}

// The first that begins so; "" where none does.
std::string NoteOf(const Comparison& comparison, std::string_view head) {
  const auto note = std::find_if(comparison.notes.begin(), comparison.notes.end(),
                                 [&](const std::string& text) { return text.starts_with(head); });
  return note == comparison.notes.end() ? "" : *note;
}

}  // namespace

std::string RankName(int32_t rank) { return rank < 0 ? "all" : std::to_string(rank); }

std::string SideText(const DiffReport& report, const SideInfo& side, bool is_a) {
  const std::vector<int32_t> ranks = RanksOf(report, is_a);
  if (ranks.empty()) return "";
  const std::string& dtype = is_a ? report.dtype_a : report.dtype_b;
  std::string text = fmt::format("{} of {}   {}{}", RanksText(ranks), side.world,
                                 dtype.empty() ? "" : dtype + "   ", StepsOfSide(report, is_a));
  if (report.job) {
    const std::string& topology = is_a ? report.job->topology_a : report.job->topology_b;
    if (!topology.empty()) text += "   " + Printable(topology);
  }
  return text;
}

std::vector<Fact> Facts(const DiffReport& report) {
  if (report.counts.paired == 0) return {};
  std::vector<Fact> facts = {{"paired", PairedText(report)}};
  if (std::string steps = StepPairingText(report); !steps.empty())
    facts.push_back({"steps", std::move(steps)});
  if (report.job && !report.job->map.empty()) facts.push_back({"map", Printable(report.job->map)});
  if (std::string layout = LayoutText(report); !layout.empty())
    facts.push_back({"layout", std::move(layout)});
  facts.push_back({"weights", WeightsText(report)});
  facts.push_back({"inputs", InputsText(report)});
  if (!report.steps_not_judged.empty()) facts.push_back({"judged", JudgedText(report)});
  if (std::string bounds = BoundsUsedText(report.bounds);
      !bounds.empty() && report.overall == Overall::kSame)
    facts.push_back({"bounds", std::move(bounds)});
  return facts;
}

std::string DifferingIn(const Counts& c) {
  std::string text =
      fmt::format("differing in: shape {}, dtype {}, special values {}, bits {}, tolerance {}",
                  CountText(c.shape), CountText(c.dtype), CountText(c.special), CountText(c.bits),
                  CountText(c.tolerance));
  if (const uint64_t unproven = c.unproven - c.unproven_weights; unproven > 0)
    text += fmt::format(" (of {} only the hash was kept)", unproven);
  return text;
}

std::string ObservationText(const Row& row) { return Printable(ObservationText(row.key)); }

// The path of the root says nothing to a reader.
std::string ShownName(const std::string& name) {
  return name == "." ? "the whole model" : Printable(name);
}

std::string StatisticsNote(const Comparison& comparison) {
  return NoteOf(comparison, "statistics ");
}

bool HasNoDistance(const Metrics& m) { return m.nan_mismatch + m.inf_mismatch > 0; }

// Of a pair of which no element is outside: which test all together failed.
std::string_view WithinText(const Row& row) {
  if (!row.fails || !row.explanation || row.explanation->within) return "within the bound";
  const ErrorLevel error = LevelOf(row.comparison.metrics);
  const ErrorLevel& bound = row.explanation->bound;
  const bool power = error.power > bound.power, gain = error.gain > bound.gain;
  if (power && gain) return "each within its bound; the error in dB and the factor are not";
  if (power) return "each within its bound; the error in dB is not";
  return gain ? "each within its bound; the factor is not" : "within the bound";
}

std::string ValuesText(const Row& row) {
  const Comparison& comparison = row.comparison;
  const Verdict& v = comparison.verdict;
  if (row.unresolved && !comparison.notes.empty()) return comparison.notes.back();
  const std::string sparse = NoteOf(comparison, kSparseNote);
  if (v.shape == Answer::kDiffers)
    return fmt::format("shape {} against {}{}{}", ShapeText(row.shape_a), ShapeText(row.shape_b),
                       sparse.empty() ? "" : "; ", sparse);
  if (!sparse.empty() && v.tolerance == Answer::kSame) return sparse;
  std::string text = sparse.empty() ? "" : sparse + "; ";
  if (v.dtype == Answer::kDiffers)
    text += fmt::format("dtype {} against {}; ", row.dtype_a, row.dtype_b);
  if (v.statistics != Answer::kNotJudged) return text + StatisticsNote(comparison);
  if (comparison.evidence == Evidence::kHash) {
    return text + (v.bitwise == Answer::kSame ? "bit for bit equal (hash)"
                                              : "bits differ (hash; values were not kept)");
  }
  if (comparison.evidence == Evidence::kMeta) return text + "values were not kept";
  if (v.bitwise == Answer::kSame) return text + "bit for bit equal";
  const Metrics& m = comparison.metrics;
  text +=
      m.outside() > 0
          ? fmt::format("{} of {} elements outside", CountText(m.outside()), CountText(m.elements))
          : fmt::format("{} of {} elements differ, {}", CountText(m.elements - m.bits_equal),
                        CountText(m.elements), WithinText(row));
  std::string_view numbers = ", ";
  if (HasNoDistance(m)) {
    text += fmt::format("; NaN on one side only {}, Inf {} (NaN in A {}, in B {})",
                        CountText(m.nan_mismatch), CountText(m.inf_mismatch), CountText(m.nan_a),
                        CountText(m.nan_b));
    if (m.compared == 0) return text + "; none is finite on both sides";
    numbers = "; where both are finite ";
  }
  return text + fmt::format("{}max abs {}, max rel {}, mean abs {}", numbers, m.max_abs_text,
                            Short(m.max_rel), Short(m.mean_abs));
}

std::string WorstText(const Row& row) {
  const Metrics& m = row.comparison.metrics;
  if (row.comparison.evidence != Evidence::kPayload || !m.has_worst) return "";
  return fmt::format("worst element {}   A {}   B {}", ShapeText(m.worst.position), m.worst.a,
                     m.worst.b);
}

std::vector<std::string> NextWorstTexts(const Row& row) {
  std::vector<std::string> texts;
  for (size_t i = 1; i < row.worst_elements.size(); ++i) {
    const Worst& worst = row.worst_elements[i];
    texts.push_back(
        fmt::format("then {}   A {}   B {}", ShapeText(worst.position), worst.a, worst.b));
  }
  return texts;
}

std::string WorstRelativeText(const Row& row) {
  const Metrics& m = row.comparison.metrics;
  if (row.comparison.evidence != Evidence::kPayload || !m.worst_relative) return "";
  const Worst& worst = *m.worst_relative;
  if (m.has_worst && worst.position == m.worst.position) return "";
  return fmt::format("max rel {} at {}   A {}   B {}", Short(m.max_rel), ShapeText(worst.position),
                     worst.a, worst.b);
}

std::string SqnrText(std::optional<double> sqnr_db) {
  if (!sqnr_db) return "undefined";
  return std::isinf(*sqnr_db) && *sqnr_db > 0 ? "exact" : fmt::format("{:.1f} dB", *sqnr_db);
}

std::string OriginTitle(const Origin& origin) {
  std::string title =
      fmt::format("{}, step {}, {}", RanksOfOrigin(origin), origin.step, ShownName(origin.name));
  if (origin.missing)
    return fmt::format("{}, step {}, {}, only in {}", RanksOfOrigin(origin), origin.step,
                       origin.missing->is_micro_batch()
                           ? fmt::format("micro-batch {}", origin.missing->key.micro)
                           : ShownName(origin.name),
                       origin.missing->side);
  if (origin.skipped) return title + ", not run";
  if (!origin.row || origin.kind == OriginKind::kParameter) return title;
  return title + ", " +
         (IsTap(origin) ? Printable("tap " + origin.row->key.op) : ObservationText(*origin.row));
}

std::vector<std::string> OriginLines(const Origin& origin, const std::string& across) {
  std::vector<std::string> lines = {InputsOfOrigin(origin, across)};
  if (origin.update) AddUpdateLines(*origin.update, &lines);
  lines.push_back(ParameterText(origin));
  if (origin.drifted && !origin.update)
    lines.push_back(fmt::format(
        "at an earlier step it was equal, and all operators before it agree: look at what updates "
        "it{}",
        origin.may_be_steps && origin.may_divide
            ? "; an optimizer that divides by the size of the gradient (Adam) turns the rounding "
              "of a tiny one into whole steps"
        : origin.in_lower_precision ? "; where B computes in another precision, the rounding of "
                                      "its gradients parts weights from update to update"
                                    : ""));
  if (origin.weights_unseen)
    lines.push_back(fmt::format(
        "weights were not recorded at this step, and the steps before it differ in rounding: they "
        "may have parted{}; capture role param at every step to see",
        origin.may_divide ? " (Adam turns the rounding of a tiny gradient into whole steps)" : ""));
  if (origin.row) {
    const Row& row = *origin.row;
    const std::string what = WhatDiffers(origin);
    lines.push_back(what + ValuesText(row));
    const Metrics m = row.comparison.metrics;
    const bool read = row.comparison.evidence == Evidence::kPayload;
    const bool has_distance = !read || !HasNoDistance(m) || m.compared > 0;
    const std::string_view which = read && HasNoDistance(m) ? "where both are finite: " : "";
    if (const std::string text = ExplainedText(row.comparison, row.explanation);
        !text.empty() && has_distance)
      lines.push_back(fmt::format("{}error {}", which, text));
    lines.push_back(row.remedy);
    if (read && m.numeric && has_distance)
      lines.push_back(fmt::format("{}{}", which, DistanceText(m)));
    lines.push_back(WorstText(row));
    for (std::string& text : NextWorstTexts(row)) lines.push_back(std::move(text));
    lines.push_back(WorstRelativeText(row));
    if (row.comparison.evidence == Evidence::kPayload) lines.push_back("bound " + row.bound);
  }
  if (origin.unexplained)
    lines.push_back(
        "gradients on every rank, and what was kept one step before, are equal bit for bit: "
        "nothing explains it");
  if (origin.by_bits)
    lines.push_back(
        origin.row && !origin.row->comparison.verdict.HasValues()
            ? "first difference in bits, of unknown size; others are outside their bounds later"
            : "first difference in bits, still within its bound; it grows beyond the bound later");
  lines.push_back(OtherRanks(origin));
  std::erase(lines, "");
  return lines;
}

std::string UnpairedLine(const Unpaired& unpaired) {
  std::string what = Printable(unpaired.key);
  if (unpaired.name.empty())
    what = fmt::format("the whole step{} ({})",
                       unpaired.extra ? ", which this rank ran beyond the others" : "",
                       Plural(unpaired.records, "record"));
  else if (unpaired.records > 1)
    what += fmt::format(" and {} more", unpaired.records - 1);
  return fmt::format("only in {}   {}{}, step {}: {}{}{}", unpaired.side, RankText(unpaired.rank),
                     unpaired.against ? fmt::format(" against {}", *unpaired.against) : "",
                     unpaired.step, what,
                     unpaired.why.empty() ? "" : "; " + Printable(unpaired.why),
                     unpaired.allowed ? " (allowed)" : "");
}

std::string DamageText(const io::Damage& damage) {
  return Printable(damage.file.empty()
                       ? damage.what
                       : fmt::format("{}: offset {}: {}", damage.file, damage.offset, damage.what));
}

std::string AddressOf(const SideInfo& side) {
  return side.is_ours ? Printable(fmt::format("{}@{}", side.run, side.generation)) : "";
}

bool HasValues(const Row& row) {
  const std::string_view text = row.kept_b;  // "meta+hash+payload (reason)"
  const std::string_view kept = text.substr(0, text.find(' '));
  return kept.ends_with("payload") || kept.ends_with("slice") || kept.ends_with("sample");
}

std::string PlaceOfWorst(const Row& row) {
  const Metrics m = row.comparison.metrics;
  const bool whole = row.kept_b.substr(0, row.kept_b.find(' ')).ends_with("payload");
  const bool read = row.comparison.evidence == Evidence::kPayload && m.has_worst;
  if (!whole || !read || row.put_together || m.worst.position.empty()) return "";
  return fmt::format("{}", fmt::join(m.worst.position, ","));
}

std::string ViewCommand(const SideInfo& side, const Row& row) {
  if (!side.is_ours || !HasValues(row)) return "";
  const std::string address = fmt::format("{}:{}/{}/{}", AddressOf(side), row.step_b,
                                          std::max(row.rank_b, 0), ToText(row.key));
  const std::string at = PlaceOfWorst(row);
  return "tdump-view " + ShellWord(Printable(address)) + " --values 8" +
         (at.empty() ? "" : " --at " + at);
}

std::string CaptureAdvice(const Row& row) {
  const Evidence evidence = row.comparison.evidence;
  if (evidence == Evidence::kPayload || row.comparison.verdict.shape == Answer::kDiffers) return "";
  const std::string_view field = row.key.op.empty() ? "name" : "op";
  const std::string& name = row.key.op.empty() ? row.key.path : row.key.op;
  return fmt::format(
      "its values were not kept on both sides; capture both with a rule "
      "{{{}: '^{}$', role: [{}], level: full}}",
      field, Printable(RegexOf(name)), ToString(row.key.role));
}

}  // namespace tdump::compare
