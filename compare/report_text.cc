#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "compare/bounds.h"
#include "compare/report.h"
#include "compare/report_lines.h"
#include "core/utf8.h"

namespace tdump::compare {
namespace {

constexpr size_t kGrowthPoints = 6;
constexpr size_t kMostHoles = 3;
constexpr size_t kIndent = 10;  // of text beside "ORIGIN", "weights", ...

std::string Line(std::string_view head, const std::string& text) {
  return Wrap(fmt::format("{:<{}}{}", head, kIndent, text), kIndent) + "\n";
}

// `width`: of the longer label.
std::string SideLine(const DiffReport& report, const SideInfo& side, bool is_a, size_t width) {
  std::string line = fmt::format("{} {:<{}}", is_a ? 'A' : 'B', Printable(side.label), width);
  if (const std::string text = SideText(report, side, is_a); !text.empty()) line += "   " + text;
  if (side.holes.empty()) return line + "\n";
  line += "   INCOMPLETE\n";
  for (size_t i = 0; i < std::min(kMostHoles, side.holes.size()); ++i)
    line += Wrap("  missing   " + Printable(side.holes[i]), kIndent + 2) + "\n";
  if (side.holes.size() > kMostHoles)
    line += fmt::format("  missing   {} more: tdump-view {}\n", side.holes.size() - kMostHoles,
                        ShellWord(Printable(side.run)));
  return line;
}

std::string FactLines(const Fact& fact) {
  std::string text, head = fact.name;
  for (size_t at = 0; at <= fact.text.size();) {
    const size_t end = std::min(fact.text.find('\n', at), fact.text.size());
    text += Line(head, fact.text.substr(at, end - at));
    head.clear();
    at = end + 1;
  }
  return text;
}

std::string OriginText(const DiffReport& report, const Origin& origin, std::string_view head,
                       const Style& style, const std::string& why = "") {
  std::string text = fmt::format("{:<{}}{}\n", head, kIndent, style.Bold(OriginTitle(origin)));
  if (!why.empty()) text += Line("", why);
  for (const std::string& line : OriginLines(origin, report.across)) text += Line("", line);
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

std::string FailingTable(const DiffReport& report, const Style& style) {
  if (report.failing.empty()) return "";
  std::vector<std::vector<std::string>> rows = {
      {"rank", "step", "operator", "outside", "max abs", "in dB", "out dB", "bound", "differs in"}};
  for (const Row& row : report.failing) {
    const Metrics& m = row.comparison.metrics;
    const bool read = row.comparison.evidence == Evidence::kPayload;
    rows.push_back({RankName(row.rank_b), std::to_string(row.step_b),
                    ShownName(row.name) + ", " + ObservationText(row), read ? ShareText(m) : "-",
                    read ? m.max_abs_text : "-", InDbText(row), read ? DbCell(m.sqnr_db) : "-",
                    BoundDbText(row), DiffersInText(row)});
  }
  std::string text =
      "\n" + Table(std::move(rows), {true, true, false, true, true, true, true, true, false}, 2,
                   "  ", style);
  const auto allowed = static_cast<uint64_t>(std::count_if(
      report.failing.begin(), report.failing.end(), [](const Row& row) { return row.allowed; }));
  return text + MoreText(report.counts.failing - (report.failing.size() - allowed), "like this",
                         report.counts.allowed - allowed);
}

std::string UnpairedText(const DiffReport& report) {
  if (report.unpaired.empty()) return "";
  std::string text = "\n";
  for (const Unpaired& unpaired : report.unpaired)
    text += Wrap("  " + UnpairedLine(unpaired), 4) + "\n";
  const Counts& c = report.counts;
  uint64_t shown = 0, allowed = 0;
  for (const Unpaired& unpaired : report.unpaired)
    (unpaired.allowed ? allowed : shown) += unpaired.records;
  return text + MoreText(c.unpaired_a + c.unpaired_b - c.unpaired_allowed - shown,
                         "records without a partner", c.unpaired_allowed - allowed);
}

std::string LookCloser(const DiffReport& report, const SideInfo& b) {
  if (!report.origin || !report.origin->row) return "";
  const std::string command = ViewCommand(b, *report.origin->row);
  return command.empty() ? "" : fmt::format("\nlook closer: {}\n", command);
}

}  // namespace

std::string RenderText(const DiffReport& report, const SideInfo& a, const SideInfo& b,
                       bool required_bits, const Style& style) {
  const size_t width = std::max(CharactersIn(Printable(a.label)), CharactersIn(Printable(b.label)));
  std::string text = SideLine(report, a, true, width) + SideLine(report, b, false, width);
  for (const Fact& fact : Facts(report)) text += FactLines(fact);
  const std::string verdict = Wrap(RenderVerdict(report, required_bits), kIndent - 1);
  text +=
      "\n" + (report.overall == Overall::kSame ? style.Green(verdict) : style.Red(verdict)) + "\n";
  if (report.overall == Overall::kDiffers && report.counts.failing > 0)
    text += Wrap("         " + DifferingIn(report.counts), kIndent) + "\n";
  if (report.origin) text += "\n" + OriginText(report, *report.origin, "ORIGIN", style);
  if (report.beyond_drift)
    text += "\n" + OriginText(report, *report.beyond_drift, "ALSO", style,
                              "weights that parted by rounding do not make this: look here first");
  if (report.first_bits) text += "\n" + OriginText(report, *report.first_bits, "BITS", style);
  const bool of_inputs = report.origin && report.origin->kind == OriginKind::kInputs;
  if (const std::string growth = GrowthText(report.growth, kGrowthPoints);
      !growth.empty() && report.overall == Overall::kDiffers && !of_inputs)
    text += "\n" + Line("growth", "SQNR in dB: " + Printable(growth));
  text += FailingTable(report, style) + UnpairedText(report);
  for (const std::string& note : report.signature) text += Line("note", Printable(note));
  for (const std::string& note : report.notes) text += Line("note", Printable(note));
  for (const io::Damage& damage : report.damage)
    text += style.Red("damage    ") + DamageText(damage) + "\n";
  return text + LookCloser(report, b);
}

}  // namespace tdump::compare
