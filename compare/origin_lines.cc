#include "compare/origin_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "compare/bound_text.h"
#include "compare/cause_lines.h"
#include "compare/job_text.h"
#include "compare/record_patterns.h"
#include "compare/report_lines.h"
#include "compare/roles.h"
#include "compare/text.h"

namespace tdump::compare {
namespace {

// Of an operator whose inputs were not recorded: between which records it began.
std::string UnseenInputs(const Origin& origin) {
  const std::string where =
      origin.last_agreeing
          ? fmt::format("it began between {} (agrees) and {} (differs)",
                        ShownName(origin.last_agreeing->name), ShownName(origin.name))
          : fmt::format("it began before or in {}, the first record that can tell",
                        ShownName(origin.name));
  return fmt::format("its inputs were not recorded: {}; capture role input to be sure", where);
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

// Of one whose output differs.
std::string InputsOfOperator(const Origin& origin, const std::string& across) {
  if (IsStateOfOptimizer(origin)) return GradientOfOrigin(origin, across);
  // Made by a call of its own, of what other calls of the operator were given.
  if (origin.inputs.empty() && origin.row && origin.row->key.role == Role::kParamGrad)
    return "what it is made of, the operator's input and grad_output, is compared by itself where "
           "it was recorded";
  if (origin.inputs.empty() && origin.of_named_records)
    return "its inputs are not compared: the address leaves them out; RUN:STEP/RANK on both sides "
           "compares them too";
  if (origin.inputs.empty()) return UnseenInputs(origin);
  if (JudgedOf(origin.inputs) == 0)
    return "its inputs are not judged: their values were not kept on both sides";
  return fmt::format("inputs agree: {} of {}, {}", JudgedOf(origin.inputs), origin.inputs.size(),
                     HowTheyAgree(origin.inputs));
}

// Between which records it lies.
std::string IntervalText(const Origin& origin) {
  if (!origin.row) return "";
  return origin.last_agreeing
             ? fmt::format(
                   "between {} (agrees) and {} {} (differs); what runs between was not recorded",
                   ShownName(origin.last_agreeing->name), ShownName(origin.row->name),
                   ObservationText(*origin.row))
             : fmt::format("before {} {}, the first record that can tell",
                           ShownName(origin.row->name), ObservationText(*origin.row));
}

// What ranks that were killed left.
std::string MissingPartText(const KilledOrigin& killed) {
  const bool is_one = killed.ranks.size() == 1;
  const auto name = [](const Key& key) {
    return ShownName(PlainName(key.root, key.path, key.op)) + ", " +
           Printable(ObservationText(key));
  };
  const std::optional<Key>& last = killed.first.last;
  return fmt::format(
      "{}; {} part of {}, and of what comes after it, is missing",
      last ? fmt::format("the last {} recorded is {}", is_one ? "it" : "they", name(*last))
           : fmt::format("nothing of step {} was recorded", killed.step),
      is_one ? "its" : "their", name(killed.lacking));
}

// What is known of the data that went into the origin.
std::string InputsOfOrigin(const Origin& origin, const std::string& across) {
  if (origin.killed) return MissingPartText(*origin.killed);
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
      return InputsOfOperator(origin, across);
    case OriginKind::kInterval:
    case OriginKind::kParameter:
      return IntervalText(origin);
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
  const Row* const row = origin.parameter_row.get();
  std::string text =
      fmt::format("its {} {}: {}", origin.of_buffer ? "buffer" : "parameter",
                  row != nullptr && row->unresolved ? "could not be put together" : "differs",
                  Printable(origin.parameter));
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
  text += m.cosine ? fmt::format(", cosine {:.6g}", *m.cosine) : ", cosine undefined";
  text += fmt::format(", RMSE {}, max ULP {}", Short(m.rmse), Short(m.max_ulp));
  text += fmt::format("; |error| 50 % {}, 99 % {}", Short(m.p50), Short(m.p99));
  if (m.worst_channel)
    text += fmt::format("; worst channel {} (mean {})", m.worst_channel->index,
                        Short(m.worst_channel->mean_error));
  return text;
}

// Of weights that parted on the way, which may be harmless.
std::string DriftText(const Origin& origin) {
  if (!origin.drifted || origin.update) return "";
  return fmt::format(
      "at an earlier step it was equal, and all operators before it agree: look at what updates "
      "it{}",
      origin.may_be_steps && origin.may_divide
          ? "; an optimizer that divides by the size of the gradient (Adam) turns the rounding of "
            "a tiny one into whole steps"
      : origin.in_lower_precision ? "; where B computes in another precision, the rounding of its "
                                    "gradients parts weights from update to update"
                                  : "");
}

std::string UnseenWeightsText(const Origin& origin) {
  if (!origin.weights_unseen) return "";
  return fmt::format(
      "weights were not recorded at this step: they may have parted before it, by what updates "
      "them (another learning rate, say) or by rounding{}; capture role param at every step to see",
      origin.may_divide ? ", as Adam turns that of a tiny gradient into whole steps" : "");
}

// How the first record that differs does.
void AddRowLines(const Origin& origin, std::vector<std::string>* lines) {
  const Row& row = *origin.row;
  lines->push_back(WhatDiffers(origin) + ValuesText(row));
  const Metrics m = row.comparison.metrics;
  const bool read = row.comparison.evidence == Evidence::kPayload;
  const bool has_distance = !read || !HasNoDistance(m) || m.compared > 0;
  const std::string_view which = read && HasNoDistance(m) ? "where both are finite: " : "";
  if (const std::string text = ExplainedText(row.comparison, row.explanation);
      !text.empty() && has_distance)
    lines->push_back(fmt::format("{}error {}", which, text));
  lines->push_back(row.remedy);
  if (read && m.numeric && has_distance)
    lines->push_back(fmt::format("{}{}", which, DistanceText(m)));
  lines->push_back(WorstText(row));
  for (std::string& text : NextWorstTexts(row)) lines->push_back(std::move(text));
  lines->push_back(WorstRelativeText(row));
  if (read) lines->push_back("bound " + row.bound);
}

}  // namespace

std::string OriginTitle(const Origin& origin) {
  if (origin.killed)
    return fmt::format("{} of {}, step {}, {}", RanksText(origin.killed->ranks),
                       origin.killed->side, origin.killed->step, KilledText(*origin.killed));
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
  lines.push_back(DriftText(origin));
  lines.push_back(UnseenWeightsText(origin));
  if (origin.row) AddRowLines(origin, &lines);
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

}  // namespace tdump::compare
