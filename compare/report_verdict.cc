// The first line of a report.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compare/job_text.h"
#include "compare/judged_lines.h"
#include "compare/names.h"
#include "compare/near.h"
#include "compare/record_patterns.h"
#include "compare/report.h"
#include "compare/report_lines.h"
#include "core/text.h"

namespace tdump::compare {
namespace {

uint64_t WeightsDiffer(const DiffReport& report) {
  return report.parameters.differing_names + report.parameters.buffers_differing;
}

constexpr std::string_view kByHash = "by hash, which does not say by how much";

// "2 parameters", "1 buffer", "2 parameters and 1 buffer".
std::string DifferingWeights(const DiffReport& report) {
  const ParameterReport& p = report.parameters;
  std::string text;
  if (p.differing_names > 0) text = Plural(p.differing_names, "parameter");
  if (p.buffers_differing > 0)
    text += (text.empty() ? "" : " and ") + Plural(p.buffers_differing, "buffer");
  return text;
}

// How they differ: `otherwise`, but for what is known by hash alone.
std::string HowWeightsDiffer(const DiffReport& report, std::string_view otherwise) {
  const uint64_t by_hash = report.parameters.by_hash;
  if (by_hash == 0) return std::string(otherwise);
  if (by_hash == WeightsDiffer(report)) return fmt::format(" {}", kByHash);
  return fmt::format("{}, {} of them by hash alone", otherwise, CountText(by_hash));
}

// What agreement does not cover.
std::string NotJudgedText(const Counts& c) {
  return c.not_judged == 0 ? "" : fmt::format("; {} not judged", CountText(c.not_judged));
}
std::string StepsNotJudgedText(const DiffReport& report) {
  const std::vector<uint64_t> steps = AllNotJudged(report);
  return steps.empty() ? "" : fmt::format("; nothing judged in {}", StepsText(steps));
}

// Pairs that were judged, but for weights known to differ by hash.
std::string SameText(const DiffReport& report) {
  const Counts& c = report.counts;
  const uint64_t judged = c.paired - c.not_judged;
  const std::string statistics =
      c.by_statistics == 0
          ? ""
          : fmt::format(", as far as statistics tell {}", CountText(c.by_statistics));
  std::string text =
      c.bits_equal == judged
          ? fmt::format("SAME  {} of {} bit for bit", CountText(judged), CountText(judged))
          : fmt::format("SAME  {} of {} within bounds (bitwise {}{})", CountText(c.agreeing),
                        CountText(judged), CountText(c.bits_equal), statistics);
  if (const uint64_t weights = WeightsDiffer(report); weights > 0)
    text += fmt::format("; {} differ{}{}", DifferingWeights(report), weights == 1 ? "s" : "",
                        HowWeightsDiffer(report, " in bits"));
  if (c.unproven_states > 0)
    text +=
        fmt::format("; {} of what the optimizer keeps differ{} {}",
                    Plural(c.unproven_states, "pair"), c.unproven_states == 1 ? "s" : "", kByHash);
  if (c.allowed > 0) text += fmt::format("; {} outside, allowed", c.allowed);
  if (c.allowed_by_hash > 0)
    text += fmt::format("; {} by hash, allowed", Plural(c.allowed_by_hash, "difference"));
  return text + NotJudgedText(c) + StepsNotJudgedText(report);
}

// "--allow-failed '^\.@input#0'": of the inputs that differ.
std::string AllowInputs(const InputDistance& distance) {
  std::vector<std::string> options;
  for (const auto& [name, args] : distance.args) {
    std::vector<std::string> patterns;
    for (const std::string& arg : args) patterns.push_back(RegexOf(arg));
    std::string any = fmt::format("{}", fmt::join(patterns, "|"));
    if (args.size() > 1) any = "(" + any + ")";
    const std::string root = name == "." ? "\\." : RegexOf(name);
    options.push_back("--allow-failed " +
                      ShellWord(Printable(fmt::format("^{}@input#{}", root, any))));
  }
  return fmt::format("{}", fmt::join(options, " "));
}

// " by little (SQNR 120.4 dB, max abs 3.6e-06)"; "" where their values were not read.
std::string InputDistanceText(const InputReport& inputs) {
  if (!inputs.distance || !inputs.distance->is_read || inputs.judging_stopped) return "";
  return fmt::format("{} (SQNR {}, max abs {})",
                     inputs.distance->least_sqnr_db >= kNearDb ? " by little" : "",
                     SqnrText(inputs.distance->least_sqnr_db), inputs.distance->max_abs_text);
}

// Of runs that were given different data: nothing before it differs.
std::string InputsText(const DiffReport& report) {
  const Origin& origin = *report.origin;
  std::vector<uint64_t> before;
  for (const auto& [step_a, step_b] : report.steps) {
    if (step_b < origin.step) before.push_back(step_b);
  }
  const std::string judged =
      before.empty() ? "no step before it was compared"
                     : fmt::format("{} agree{}", StepsText(before), before.size() == 1 ? "s" : "");
  std::vector<std::string> names = report.inputs.differing;
  if (names.empty() && origin.row) names = {RootInputName(origin.row->key)};
  for (std::string& name : names) {
    if (IsDigits(name.substr(0, name.find(' ')))) name.insert(0, "input ");
  }
  const std::string distance = InputDistanceText(report.inputs);
  std::string text = fmt::format("INPUTS DIFFER  {} from step {} on{}; {}",
                                 Printable(fmt::format("{}", fmt::join(names, ", "))), origin.step,
                                 distance, judged);
  if (!distance.empty() && report.inputs.distance->least_sqnr_db >= kNearDb)
    text +=
        "; to judge what follows by what that explains: " + AllowInputs(*report.inputs.distance);
  return text;
}

// Of runs that were given other tokens: what was judged even so.
std::string PartedVerdict(const DiffReport& report) {
  const Counts& c = report.counts;
  const ParameterReport& p = report.parameters;
  const bool before = std::any_of(report.steps.begin(), report.steps.end(), [&](const auto& step) {
    return step.second < *report.inputs.first_differing_step;
  });
  std::string text = "DIFFERS  " + PartedText(report);
  if (const uint64_t weights = WeightsDiffer(report); weights > 0)
    text += fmt::format("; {} differ{}{}", DifferingWeights(report), weights == 1 ? "s" : "",
                        HowWeightsDiffer(report, ""));
  else if (!before && p.pairs > 0)
    text += "; weights agree";
  if (!before) return text;
  return text + fmt::format(": {} same within bounds", CountText(c.agreeing));
}

std::string HowPairsFail(const Counts& c, bool required_bits) {
  if (required_bits) return " not equal";
  if (c.failing_by_hash == 0) return " outside their bound";
  if (c.failing_by_hash == c.failing) return fmt::format(" {}", kByHash);
  return fmt::format(": {} outside their bound, {} {}", CountText(c.failing - c.failing_by_hash),
                     CountText(c.failing_by_hash), kByHash);
}

std::string DiffersText(const DiffReport& report, bool required_bits) {
  const Counts& c = report.counts;
  const uint64_t alone = c.unpaired_a + c.unpaired_b - c.unpaired_allowed;
  if (report.inputs.judging_stopped &&
      c.failing <= report.inputs.differing_pairs + report.parameters.failing_pairs)
    return PartedVerdict(report);
  if (report.origin && report.origin->kind == OriginKind::kInputs &&
      !report.origin->may_be_handed_on)
    return InputsText(report);
  if (c.failing > 0) {
    return fmt::format("DIFFERS  {} of {}{}{}", CountText(c.failing), CountText(c.paired),
                       HowPairsFail(c, required_bits),
                       alone == 0 ? "" : fmt::format(", {} without a partner", CountText(alone)));
  }
  if (alone > 0) {
    return fmt::format("DIFFERS  {} without a partner; the {} agree{}", Plural(alone, "record"),
                       Plural(c.paired - c.not_judged, "pair"), NotJudgedText(c));
  }
  if (WeightsDiffer(report) == 0)
    return fmt::format(
        "DIFFERS  in {} of what the optimizer keeps, {}{}",
        Plural(c.unexplained_states > 0 ? c.unexplained_states : c.unproven_states, "pair"),
        kByHash, NotJudgedText(c));
  return fmt::format("DIFFERS  in {}{}{}", DifferingWeights(report), HowWeightsDiffer(report, ""),
                     NotJudgedText(c));
}

}  // namespace

std::string RenderVerdict(const DiffReport& report, bool required_bits) {
  const Counts& c = report.counts;
  switch (report.overall) {
    case Overall::kNotComparable:
      return "NOT COMPARABLE  " + Printable(report.why_not);
    case Overall::kSame:
      return SameText(report);
    case Overall::kDiffers:
      return DiffersText(report, required_bits);
    case Overall::kDamaged:
      return fmt::format("DAMAGED  {} could not be read; of {} that could be, {} differ{}",
                         Plural(report.damage.size(), "place"),
                         Plural(c.paired - c.unreadable, "pair"), c.failing,
                         c.failing == 1 ? "s" : "");
  }
  return "unknown";
}

}  // namespace tdump::compare
