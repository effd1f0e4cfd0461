#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "compare/job_text.h"
#include "compare/report.h"

namespace tdump::compare {
namespace {

constexpr size_t kMostHoles = 3, kMostNames = 3;

std::string StepsText(const DiffReport& report, bool a) {
  std::vector<uint64_t> steps;
  for (const auto& [step_a, step_b] : report.steps) steps.push_back(a ? step_a : step_b);
  return (steps.size() == 1 ? "step " : "steps ") + RangesText(steps);
}

// "rank 2", "ranks 0-1,3".
std::string RanksText(const std::vector<int32_t>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + RangesText({ranks.begin(), ranks.end()});
}

// `width`: of the longer label.
std::string SideLine(const DiffReport& report, const SideInfo& side, bool a, size_t width) {
  const std::vector<int32_t> ranks = RanksOf(report, a);
  std::string line = fmt::format("{} {:<{}}", a ? 'A' : 'B', Printable(side.label), width);
  if (!ranks.empty())
    line += fmt::format("   {} of {}   {}", RanksText(ranks), side.world, StepsText(report, a));
  if (report.job) {
    const std::string& topology = a ? report.job->topology_a : report.job->topology_b;
    if (!topology.empty()) line += "   " + topology;
  }
  if (side.holes.empty()) return line + "\n";
  line += "   INCOMPLETE\n";
  for (size_t i = 0; i < std::min(kMostHoles, side.holes.size()); ++i)
    line += "  missing   " + Printable(side.holes[i]) + "\n";
  if (side.holes.size() > kMostHoles)
    line += fmt::format("  missing   {} more: tdump-view {}\n", side.holes.size() - kMostHoles,
                        Printable(side.run));
  return line;
}

std::string PairedLine(const DiffReport& report) {
  const Counts& c = report.counts;
  std::string line = fmt::format("paired    {} in {}", Plural(c.paired, "record"),
                                 Plural(c.passes_paired, "pass"));
  if (c.unpaired_a + c.unpaired_b > 0) {
    line += fmt::format("; only in A {}, only in B {}", CountText(c.unpaired_a),
                        CountText(c.unpaired_b));
    if (c.unpaired_allowed > 0) line += fmt::format(" ({} allowed)", CountText(c.unpaired_allowed));
  } else {
    line += "; none without a partner";
  }
  line += fmt::format("; {} equal by hash, {} read", CountText(c.equal_by_hash), CountText(c.read));
  if (c.not_judged > 0)
    line += fmt::format("; {} not judged (shape and dtype only)", CountText(c.not_judged));
  if (c.unreadable > 0) line += fmt::format("; {} damaged", CountText(c.unreadable));
  return line + "\n";
}

std::string WeightsLine(const DiffReport& report) {
  const ParameterReport& p = report.parameters;
  if (p.pairs == 0) return "weights   none recorded\n";
  std::string line = fmt::format("weights   {} of {} parameters",
                                 CountText(p.compared - p.differing_names), CountText(p.compared));
  if (p.buffers_compared > 0)
    line +=
        fmt::format(" and {} of {} buffers", CountText(p.buffers_compared - p.buffers_differing),
                    CountText(p.buffers_compared));
  line += " equal on every rank";
  std::map<std::string, std::vector<int32_t>> ranks;
  for (const ParameterDifference& difference : p.differing)
    ranks[difference.name].push_back(difference.rank);
  size_t shown = 0;
  for (const auto& [name, list] : ranks) {
    if (shown++ == kMostNames) break;
    line += fmt::format("\n          not on {}: {}",
                        list.front() == kAllRanks ? RankText(kAllRanks) : RanksText(list),
                        Printable(name));
  }
  if (ranks.size() > kMostNames)
    line += fmt::format("\n          {} more: --json",
                        CountText(p.differing_names + p.buffers_differing - kMostNames));
  return line + "\n";
}

std::string InputsLine(const DiffReport& report) {
  const InputReport& inputs = report.inputs;
  if (inputs.judging_stopped) return "inputs    " + PartedText(report).substr(7) + "\n";
  if (inputs.compared == 0) return "inputs    of the model: none recorded\n";
  if (inputs.first_differing_step) {
    return fmt::format("inputs    differ from step {} on: input {}\n", *inputs.first_differing_step,
                       Printable(fmt::format("{}", fmt::join(inputs.differing, ", input "))));
  }
  return fmt::format("inputs    {} of {} equal{}\n", inputs.equal, inputs.compared,
                     inputs.equal == inputs.compared ? "" : ", the rest within bounds");
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

std::string ValuesText(const Row& row) {
  const Comparison& comparison = row.comparison;
  const Verdict& v = comparison.verdict;
  if (v.shape == Answer::kDiffers)
    return fmt::format("shape {} against {}", ShapeText(row.shape_a), ShapeText(row.shape_b));
  std::string text;
  if (v.dtype == Answer::kDiffers)
    text = fmt::format("dtype {} against {}; ", row.dtype_a, row.dtype_b);
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
          : fmt::format("{} of {} elements differ, within the bound",
                        CountText(m.elements - m.bits_equal), CountText(m.elements));
  text += fmt::format(", max abs {}, max rel {}, mean abs {}", m.max_abs_text, Short(m.max_rel),
                      Short(m.mean_abs));
  if (m.nan_mismatch + m.inf_mismatch > 0) {
    text += fmt::format("; NaN on one side only {}, Inf {}", m.nan_mismatch, m.inf_mismatch);
  }
  return text;
}

std::string WorstText(const Row& row) {
  const Metrics& m = row.comparison.metrics;
  if (row.comparison.evidence != Evidence::kPayload || !m.has_worst) return "";
  return fmt::format("worst element {}   A {}   B {}", ShapeText(m.worst.position), m.worst.a,
                     m.worst.b);
}

// "output", "input 0", "input kwargs.mask of call 2".
std::string Observation(const Row& row) {
  return fmt::format("{}{}{}{}", ToString(row.key.role), row.key.arg.empty() ? "" : " ",
                     row.key.arg,
                     row.key.call == 0 ? "" : fmt::format(" of call {}", row.key.call));
}

// The path of the root says nothing to a reader.
std::string ShownName(const std::string& name) {
  return name == "." ? "the whole model" : Printable(name);
}

bool AllBitsEqual(const std::vector<Row>& rows) {
  return std::all_of(rows.begin(), rows.end(),
                     [](const Row& r) { return r.comparison.verdict.bitwise == Answer::kSame; });
}

// What is known of the data that went into the origin.
std::string InputsOfOrigin(const Origin& origin) {
  switch (origin.kind) {
    case OriginKind::kInputs:
      return "the runs were given different data: what follows from it is not judged";
    case OriginKind::kOperator:
      if (origin.inputs.empty())
        return "its inputs were not recorded: capture role input to be sure";
      return fmt::format("inputs agree: {} of {}, {}", origin.inputs.size(), origin.inputs.size(),
                         AllBitsEqual(origin.inputs) ? "bit for bit" : "within bounds");
    case OriginKind::kInterval:
    case OriginKind::kParameter:
      if (!origin.row) return "";
      return origin.last_agreeing
                 ? fmt::format(
                       "between {} (agrees) and {} {} (differs); what runs between was not "
                       "recorded",
                       ShownName(origin.last_agreeing->name), ShownName(origin.row->name),
                       Printable(Observation(*origin.row)))
                 : fmt::format("before {} {}, the first record that can tell",
                               ShownName(origin.row->name), Printable(Observation(*origin.row)));
  }
  return "";
}

std::string OtherRanks(const Origin& origin) {
  const auto agree = [&](std::string_view where) {
    return fmt::format("{} agree{}{}", RanksText(origin.ranks_agreeing),
                       origin.ranks_agreeing.size() == 1 ? "s" : "", where);
  };
  if (origin.ranks_alike.empty() && origin.ranks_agreeing.empty()) return "";
  if (origin.ranks_alike.empty())
    return fmt::format("only {}: {}", RankText(origin.rank), agree(" here"));
  return fmt::format("also on {}{}", RanksText(origin.ranks_alike),
                     origin.ranks_agreeing.empty() ? "" : "; " + agree(""));
}

std::string OriginText(const Origin& origin, std::string_view head, const Style& style) {
  std::string title =
      fmt::format("{}, step {}, {}", RankText(origin.rank), origin.step, ShownName(origin.name));
  const bool is_tap = origin.row && origin.row->kind == OperatorKind::kTap;
  if (origin.row && origin.kind != OriginKind::kParameter)
    title += ", " + Printable(is_tap ? "tap " + origin.row->key.op : Observation(*origin.row));
  std::string text = fmt::format("{:<9} {}\n", head, style.Bold(title));
  const auto add = [&](const std::string& line) {
    if (!line.empty()) text += fmt::format("          {}\n", line);
  };
  add(InputsOfOrigin(origin));
  if (!origin.parameter.empty()) add("its parameter differs: " + Printable(origin.parameter));
  if (origin.row) {
    const char* what = origin.kind != OriginKind::kOperator ? ""
                       : is_tap                             ? "tap does not: "
                                                            : "output does not: ";
    add(what + ValuesText(*origin.row));
    add(WorstText(*origin.row));
    if (origin.row->comparison.evidence == Evidence::kPayload) add("bound " + origin.row->bound);
  }
  if (origin.by_bits)
    add("first difference in bits, still within its bound; it grows beyond the bound later");
  add(OtherRanks(origin));
  return text;
}

std::string FailingTable(const DiffReport& report, const Style& style) {
  if (report.failing.empty()) return "";
  std::vector<std::vector<std::string>> rows = {
      {"rank", "step", "name", "role", "outside", "max abs", "max rel", "differs in"}};
  for (const Row& row : report.failing) {
    const Metrics& m = row.comparison.metrics;
    const bool read = row.comparison.evidence == Evidence::kPayload;
    const Verdict& v = row.comparison.verdict;
    std::vector<std::string> in;
    if (v.shape == Answer::kDiffers) in.push_back("shape");
    if (v.dtype == Answer::kDiffers) in.push_back("dtype");
    if (v.special == Answer::kDiffers) in.push_back("special values");
    if (v.tolerance == Answer::kDiffers) in.push_back("tolerance");
    if (in.empty() && !v.Judged() && !row.comparison.notes.empty())
      in.push_back(row.comparison.notes.front());
    if (in.empty()) in.push_back(v.bitwise == Answer::kDiffers ? "bits" : "");
    rows.push_back(
        {row.rank_b == kAllRanks ? "all" : std::to_string(row.rank_b), std::to_string(row.step_b),
         ShownName(row.name), Printable(Observation(row)),
         read ? fmt::format("{} of {}", CountText(m.outside()), CountText(m.elements)) : "-",
         read ? m.max_abs_text : "-", read ? Short(m.max_rel) : "-",
         fmt::format("{}{}", fmt::join(in, ", "), row.allowed ? " (allowed)" : "")});
  }
  std::string text =
      "\n" + Table(rows, {true, true, false, false, true, true, true, false}, "  ", style);
  const uint64_t all = report.counts.failing + report.counts.allowed;
  if (all > report.failing.size())
    text += fmt::format("  {} more like this: --all, or --jsonl FILE\n",
                        CountText(all - report.failing.size()));
  return text;
}

std::string UnpairedText(const DiffReport& report) {
  if (report.unpaired.empty()) return "";
  std::string text = "\n";
  for (const Unpaired& unpaired : report.unpaired) {
    const std::string what =
        unpaired.name.empty()
            ? fmt::format("the whole step{} ({})",
                          unpaired.extra ? ", which this rank ran beyond the others" : "",
                          Plural(unpaired.records, "record"))
            : Printable(unpaired.key);
    text +=
        fmt::format("  only in {}   {}, step {}: {}{}{}\n", unpaired.side, RankText(unpaired.rank),
                    unpaired.step, what, unpaired.why.empty() ? "" : "; " + Printable(unpaired.why),
                    unpaired.allowed ? " (allowed)" : "");
  }
  const Counts& c = report.counts;
  uint64_t shown = 0;
  for (const Unpaired& unpaired : report.unpaired) shown += unpaired.records;
  if (c.unpaired_a + c.unpaired_b > shown)
    text += fmt::format("  {} more records without a partner: --all, or --jsonl FILE\n",
                        c.unpaired_a + c.unpaired_b - shown);
  return text;
}

std::string DamageText(const io::Damage& damage) {
  return Printable(damage.file.empty()
                       ? damage.what
                       : fmt::format("{}: offset {}: {}", damage.file, damage.offset, damage.what));
}

uint64_t WeightsDiffer(const DiffReport& report) {
  return report.parameters.differing_names + report.parameters.buffers_differing;
}

// "2 parameters", "1 buffer", "2 parameters and 1 buffer".
std::string WeightsText(const DiffReport& report) {
  const ParameterReport& p = report.parameters;
  std::string text;
  if (p.differing_names > 0) text = Plural(p.differing_names, "parameter");
  if (p.buffers_differing > 0)
    text += (text.empty() ? "" : " and ") + Plural(p.buffers_differing, "buffer");
  return text;
}

// Pairs that were judged, but for weights known to differ by hash.
std::string SameText(const DiffReport& report) {
  const Counts& c = report.counts;
  const uint64_t judged = c.paired - c.not_judged;
  std::string text =
      c.bits_equal == judged
          ? fmt::format("SAME  {} of {} bit for bit", CountText(judged), CountText(judged))
          : fmt::format("SAME  {} of {} within bounds (bitwise {})",
                        CountText(judged - c.allowed - c.unproven), CountText(judged),
                        CountText(c.bits_equal));
  if (const uint64_t weights = WeightsDiffer(report); weights > 0)
    text += fmt::format("; {} differ{} in bits", WeightsText(report), weights == 1 ? "s" : "");
  if (c.allowed > 0) text += fmt::format("; {} outside, allowed", c.allowed);
  return text;
}

std::string DiffersText(const DiffReport& report, bool required_bits) {
  const Counts& c = report.counts;
  const uint64_t alone = c.unpaired_a + c.unpaired_b - c.unpaired_allowed;
  if (report.inputs.judging_stopped && c.failing <= report.inputs.differing_pairs) {
    return fmt::format("DIFFERS  {}: {} same within bounds", PartedText(report),
                       CountText(c.judged - report.inputs.differing_pairs));
  }
  if (c.failing > 0) {
    return fmt::format("DIFFERS  {} of {} {}{}      {}", CountText(c.failing), CountText(c.paired),
                       required_bits ? "not equal" : "outside their bound",
                       alone == 0 ? "" : fmt::format(", {} without a partner", CountText(alone)),
                       DifferingIn(c));
  }
  if (alone > 0) {
    return fmt::format("DIFFERS  {} without a partner; the {} agree", Plural(alone, "record"),
                       Plural(c.paired, "pair"));
  }
  return fmt::format("DIFFERS  in {}", WeightsText(report));
}

}  // namespace

std::string RenderVerdict(const DiffReport& report, bool required_bits) {
  const Counts& c = report.counts;
  switch (report.overall) {
    case Overall::kNotComparable:
      return "NOT COMPARABLE  " + report.why_not;
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

std::string RenderText(const DiffReport& report, const SideInfo& a, const SideInfo& b,
                       bool required_bits, const Style& style) {
  const size_t width = std::max(Printable(a.label).size(), Printable(b.label).size());
  std::string text = SideLine(report, a, true, width) + SideLine(report, b, false, width);
  if (report.counts.paired > 0)
    text += PairedLine(report) + LayoutLines(report) + WeightsLine(report) + InputsLine(report);
  const std::string verdict = RenderVerdict(report, required_bits);
  text +=
      "\n" + (report.overall == Overall::kSame ? style.Green(verdict) : style.Red(verdict)) + "\n";
  if (report.origin) text += "\n" + OriginText(*report.origin, "ORIGIN", style);
  if (report.first_bits) text += "\n" + OriginText(*report.first_bits, "BITS", style);
  text += FailingTable(report, style) + UnpairedText(report);
  for (const std::string& note : report.notes) text += "note      " + Printable(note) + "\n";
  for (const io::Damage& damage : report.damage) {
    text += style.Red("damage    ") + DamageText(damage) + "\n";
  }
  return text;
}

}  // namespace tdump::compare
