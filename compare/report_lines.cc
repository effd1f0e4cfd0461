#include "compare/report_lines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "compare/job_text.h"
#include "compare/judged_lines.h"
#include "compare/record_patterns.h"
#include "compare/sparse_pairs.h"
#include "compare/text.h"
#include "core/key.h"
#include "io/printed_name.h"

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

// "13 of 14 parameters and 2 of 2 buffers equal on every rank at step 0".
std::string EqualWeightsText(const DiffReport& report) {
  const ParameterReport& p = report.parameters;
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
  return text;
}

// Where a weight differs.
struct WeightPlace {
  std::vector<int32_t> ranks;
  uint64_t step = 0;
  bool drifted = false;
};
std::map<std::string, WeightPlace> PlacesOfWeights(const ParameterReport& p) {
  std::map<std::string, WeightPlace> places;
  for (const ParameterDifference& difference : p.differing) {
    WeightPlace& place = places[difference.name];
    if (place.ranks.empty()) place.step = difference.step;
    place.ranks.push_back(difference.rank);
    place.drifted = place.drifted || difference.drifted;
  }
  return places;
}

std::string WeightsText(const DiffReport& report) {
  const ParameterReport& p = report.parameters;
  if (p.pairs == 0 && p.alone == 0 && p.of_other_steps)
    return "none compared: each side recorded them at other work";
  if (p.pairs == 0) return WhyNone(report, p.alone);
  std::string text = EqualWeightsText(report);
  const std::map<std::string, WeightPlace> places = PlacesOfWeights(p);
  const size_t shown = report.lists_all ? places.size() : std::min(kMostNames, places.size());
  for (size_t left = shown; const auto& [name, place] : places) {
    if (left-- == 0) break;
    text += fmt::format(
        "\nnot on {}{}: {}",
        place.ranks.front() == kAllRanks ? RankText(kAllRanks) : RanksText(place.ranks),
        place.drifted ? fmt::format(" from step {} on", place.step) : "", Printable(name));
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

// The first that begins so; "" where none does.
std::string NoteOf(const Comparison& comparison, std::string_view head) {
  const auto note = std::find_if(comparison.notes.begin(), comparison.notes.end(),
                                 [&](const std::string& text) { return text.starts_with(head); });
  return note == comparison.notes.end() ? "" : *note;
}

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
std::string ShownName(const std::string& name) { return io::ShownName(name); }

bool HasNoDistance(const Metrics& m) { return m.nan_mismatch + m.inf_mismatch > 0; }

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
  if (v.statistics != Answer::kNotJudged) return text + NoteOf(comparison, "statistics ");
  if (comparison.evidence == Evidence::kHash) {
    if (v.bitwise == Answer::kSame) return text + "bit for bit equal (hash)";
    const std::string shards = NoteOf(comparison, kShardsDiffer);
    return text + "bits differ (hash; values were not kept)" + (shards.empty() ? "" : "; ") +
           shards;
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
