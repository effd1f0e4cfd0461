#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "compare/bounds.h"
#include "compare/origin_lines.h"
#include "compare/report.h"
#include "compare/report_lines.h"
#include "compare/roles.h"
#include "core/utf8.h"

namespace tdump::compare {
namespace {

constexpr size_t kGrowthPoints = 6;
constexpr size_t kMostHoles = 3;
constexpr size_t kIndent = 10;  // of text beside "ORIGIN", "weights", ...

std::string Line(std::string_view head, const std::string& text, const Style& style) {
  return Wrap(fmt::format("{:<{}}{}", head, kIndent, text), kIndent, style.prose_columns()) + "\n";
}

// `width`: of the longer label.
std::string SideLine(const DiffReport& report, const SideInfo& side, bool is_a, size_t width,
                     const Style& style) {
  std::string line = fmt::format("{} {:<{}}", is_a ? 'A' : 'B', Printable(side.label), width);
  if (const std::string text = SideText(report, side, is_a); !text.empty()) line += "   " + text;
  if (side.holes.empty()) return line + "\n";
  line += "   INCOMPLETE\n";
  for (size_t i = 0; i < std::min(kMostHoles, side.holes.size()); ++i)
    line +=
        Wrap("  missing   " + Printable(side.holes[i]), kIndent + 2, style.prose_columns()) + "\n";
  if (side.holes.size() > kMostHoles)
    line += fmt::format("  missing   {} more: tdump-view {}\n", side.holes.size() - kMostHoles,
                        ShellWord(Printable(side.run)));
  return line;
}

std::string FactLines(const Fact& fact, const Style& style) {
  std::string text, head = fact.name;
  for (size_t at = 0; at <= fact.text.size();) {
    const size_t end = std::min(fact.text.find('\n', at), fact.text.size());
    text += Line(head, fact.text.substr(at, end - at), style);
    head.clear();
    at = end + 1;
  }
  return text;
}

std::string OriginText(const DiffReport& report, const Origin& origin, std::string_view head,
                       const Style& style, const std::string& why = "") {
  std::string text = fmt::format("{:<{}}{}\n", head, kIndent, style.Bold(OriginTitle(origin)));
  if (!why.empty()) text += Line("", why, style);
  for (const std::string& line : OriginLines(origin, report.across)) text += Line("", line, style);
  return text;
}

std::string DbCell(std::optional<double> db) {
  if (!db) return "-";
  return std::isinf(*db) && *db > 0 ? "exact" : fmt::format("{:.1f}", *db);
}

// The error of what went in, and how much it and the roundings explain.
std::string InDbText(const Row& row) {
  if (!row.explanation || !row.explanation->in_known) return "-";
  return DbCell(DbOf(row.explanation->in.power));
}
std::string BoundDbText(const Row& row) {
  return row.explanation ? DbCell(DbOf(row.explanation->bound.power)) : "-";
}

std::string DiffersInText(const Row& row) {
  const Verdict& v = row.comparison.verdict;
  std::vector<std::string> in;
  if (v.shape == Answer::kDiffers) in.push_back("shape");
  if (v.dtype == Answer::kDiffers) in.push_back("dtype");
  if (v.special == Answer::kDiffers) in.push_back("special values");
  if (v.tolerance == Answer::kDiffers) in.push_back("tolerance");
  if (in.size() == 1 && row.explanation && row.explanation->follows) in = {"what came before"};
  if (in.empty() && !v.Judged() && !row.comparison.notes.empty())
    in.push_back(row.unresolved ? "layout" : Printable(row.comparison.notes.front()));
  if (in.empty()) in.push_back(v.bitwise == Answer::kDiffers ? "bits" : "");
  return fmt::format("{}{}", fmt::join(in, ", "), row.allowed ? " (allowed)" : "");
}

// "0.26 %": of the elements.
std::string ShareText(const Metrics& m) {
  const double percent = 100 * static_cast<double>(m.outside()) /
                         static_cast<double>(std::max<uint64_t>(1, m.elements));
  return m.outside() > 0 && percent < 0.01 ? "<0.01 %" : fmt::format("{:.2f} %", percent);
}

// "  3 more like this, and 2 that are allowed: --all, or --jsonl FILE"; "" where all is shown.
std::string MoreText(uint64_t more, std::string_view what, uint64_t allowed) {
  std::string text;
  if (more > 0) text = fmt::format("{} more {}", CountText(more), what);
  if (allowed > 0)
    text += fmt::format("{}{} that {} allowed", more > 0 ? ", and " : "", CountText(allowed),
                        allowed == 1 ? "is" : "are");
  return text.empty() ? "" : fmt::format("  {}: --all, or --jsonl FILE\n", text);
}

bool IsSamePair(const Row& x, const Row& y) {
  return x.step_b == y.step_b && x.rank_b == y.rank_b && x.key == y.key;
}

// As many as are listed, those that say where it begins in front: in order of rank and time these
// need not be among the first ones.
std::vector<const Row*> RowsShown(const DiffReport& report) {
  std::vector<const Row*> rows;
  if (report.failing.empty()) return rows;
  if (report.origin && report.origin->kind == OriginKind::kParameter) {
    for (const Row& row : report.failing) {
      const bool is_it = row.name == report.origin->parameter && row.rank_b == report.origin->rank;
      if (is_it && rows.empty()) rows.push_back(&row);
    }
  }
  if (report.origin && report.origin->row && report.origin->row->fails)
    rows.push_back(&*report.origin->row);
  const size_t in_front = rows.size();
  for (const Row& row : report.failing) {
    const bool is_there = std::any_of(rows.begin(), rows.begin() + static_cast<ptrdiff_t>(in_front),
                                      [&](const Row* other) { return IsSamePair(*other, row); });
    if (!is_there) rows.push_back(&row);
  }
  rows.resize(std::min(rows.size(), report.failing.size()));
  return rows;
}

// Of values that were read; a NaN or an infinity on one side has no distance.
std::string MaxAbsText(const Metrics& m) {
  return m.nan_mismatch > 0 ? "nan" : m.inf_mismatch > 0 ? "inf" : m.max_abs_text;
}
std::string OutDbText(const Metrics& m) { return HasNoDistance(m) ? "-" : DbCell(m.sqnr_db); }

// What the rows lack that have no numbers.
std::string NoNumbersText(const std::vector<const Row*>& rows) {
  const auto lacks = [](const Row* row) {
    const Comparison& c = row->comparison;
    return c.evidence != Evidence::kPayload && c.verdict.shape != Answer::kDiffers &&
           !row->unresolved;
  };
  const auto count = static_cast<uint64_t>(std::count_if(rows.begin(), rows.end(), lacks));
  if (count == 0) return "";
  return fmt::format(
      "  \"-\": values of {} were not kept on both sides; to see elements capture "
      "both with level: full",
      Plural(count, "row"));
}

std::string FailingTable(const DiffReport& report, const Style& style) {
  const std::vector<const Row*> shown = RowsShown(report);
  if (shown.empty()) return "";
  std::vector<std::vector<std::string>> rows = {
      {"rank", "step", "operator", "outside", "max abs", "in dB", "out dB", "bound", "differs in"}};
  std::vector<NamedCell> names;
  for (const Row* row : shown) {
    const Metrics& m = row->comparison.metrics;
    const bool read = row->comparison.evidence == Evidence::kPayload;
    names.push_back({ShownName(row->name), ", " + ObservationText(*row)});
    rows.push_back({RankName(row->rank_b), std::to_string(row->step_b), "",
                    read ? ShareText(m) : "-", read ? MaxAbsText(m) : "-", InDbText(*row),
                    read ? OutDbText(m) : "-", BoundDbText(*row), DiffersInText(*row)});
  }
  std::string text =
      "\n" + Table(std::move(rows), {true, true, false, true, true, true, true, true, false}, 2,
                   names, "  ", style);
  if (const std::string lacks = NoNumbersText(shown); !lacks.empty())
    text += Wrap(lacks, 4, style.prose_columns()) + "\n";
  const auto allowed = static_cast<uint64_t>(
      std::count_if(shown.begin(), shown.end(), [](const Row* row) { return row->allowed; }));
  return text + MoreText(report.counts.failing - (shown.size() - allowed), "like this",
                         report.counts.allowed - allowed);
}

std::string UnpairedText(const DiffReport& report, const Style& style) {
  if (report.unpaired.empty()) return "";
  std::string text = "\n";
  for (const Unpaired& unpaired : report.unpaired)
    text += Wrap("  " + UnpairedLine(unpaired), 4, style.prose_columns()) + "\n";
  const Counts& c = report.counts;
  uint64_t shown = 0, allowed = 0;
  for (const Unpaired& unpaired : report.unpaired)
    (unpaired.allowed ? allowed : shown) += unpaired.records;
  return text + MoreText(c.unpaired_a + c.unpaired_b - c.unpaired_allowed - shown,
                         "records without a partner", c.unpaired_allowed - allowed);
}

std::string LookCloser(const DiffReport& report, const SideInfo& a, const SideInfo& b,
                       const Style& style) {
  if (!report.origin) return "";
  const Origin& origin = *report.origin;
  std::string text;
  for (const Row* row : {origin.row ? &*origin.row : nullptr, origin.parameter_row.get()}) {
    const std::string command = row == nullptr ? "" : ViewCommand(b, *row);
    if (command.empty()) continue;
    text += fmt::format("{:<13}{}\n", text.empty() ? "look closer:" : "", command);
  }
  if (!text.empty()) return "\n" + text;
  if (!origin.row) return "";
  const Row& row = *origin.row;
  const bool of_inputs = origin.kind == OriginKind::kInputs;
  const bool of_loss = origin.kind == OriginKind::kInterval && IsRootInput(row.key);
  std::string advice = of_loss ? "what runs before it was not recorded; capture both with a rule "
                                 "{role: [input, output], level: hash}"
                               : CaptureAdvice(row);
  if (of_inputs || !a.is_ours || !b.is_ours) advice.clear();
  if (advice.empty()) return "";
  return "\n" + Wrap("look closer: " + advice, kIndent + 3, style.prose_columns()) + "\n";
}

}  // namespace

std::string RenderText(const DiffReport& report, const SideInfo& a, const SideInfo& b,
                       bool required_bits, const Style& style) {
  const size_t width = std::max(CharactersIn(Printable(a.label)), CharactersIn(Printable(b.label)));
  std::string text =
      SideLine(report, a, true, width, style) + SideLine(report, b, false, width, style);
  for (const Fact& fact : Facts(report)) text += FactLines(fact, style);
  const std::string verdict =
      Wrap(RenderVerdict(report, required_bits), kIndent - 1, style.prose_columns());
  text +=
      "\n" + (report.overall == Overall::kSame ? style.Green(verdict) : style.Red(verdict)) + "\n";
  if (report.overall == Overall::kDiffers && report.counts.failing > 0)
    text += Wrap("         " + DifferingIn(report.counts), kIndent, style.prose_columns()) + "\n";
  if (report.origin) text += "\n" + OriginText(report, *report.origin, "ORIGIN", style);
  if (report.beyond_drift)
    text += "\n" + OriginText(report, *report.beyond_drift, "ALSO", style,
                              "weights that parted by rounding do not make this: look here first");
  if (report.first_bits) text += "\n" + OriginText(report, *report.first_bits, "BITS", style);
  const bool of_inputs = report.origin && report.origin->kind == OriginKind::kInputs;
  if (const std::string growth = GrowthText(report.growth, kGrowthPoints);
      !growth.empty() && report.overall == Overall::kDiffers && !of_inputs)
    text += "\n" + Line("growth", "SQNR in dB: " + Printable(growth), style);
  text += FailingTable(report, style) + UnpairedText(report, style);
  for (const std::string& note : report.signature) text += Line("note", Printable(note), style);
  for (const std::string& note : report.notes) text += Line("note", Printable(note), style);
  for (const io::Damage& damage : report.damage)
    text += style.Red("damage    ") + DamageText(damage) + "\n";
  return text + LookCloser(report, a, b, style);
}

}  // namespace tdump::compare
