#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "compare/bounds.h"
#include "compare/judged_lines.h"
#include "compare/report.h"
#include "compare/report_lines.h"
#include "core/key.h"

namespace tdump::compare {
namespace {

using Json = nlohmann::ordered_json;

Json Number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

std::string_view ToText(Evidence evidence) {
  switch (evidence) {
    case Evidence::kMeta:
      return "meta";
    case Evidence::kHash:
      return "hash";
    case Evidence::kStatistics:
      return "statistics";
    case Evidence::kPayload:
      return "payload";
  }
  return "unknown";
}

Json VerdictJson(const Verdict& v) {
  return {{"shape", ToString(v.shape)},     {"dtype", ToString(v.dtype)},
          {"bitwise", ToString(v.bitwise)}, {"tolerance", ToString(v.tolerance)},
          {"special", ToString(v.special)}, {"statistics", ToString(v.statistics)}};
}

Json NumberOrNull(const std::optional<double>& value) {
  return value ? Number(*value) : Json(nullptr);
}

// How many elements are at least so many ULP apart and less than the next: {"0": 90, "1": 7}. "0"
// is none at all, "<1" less than one, which dtypes that differ can give.
Json UlpJson(const Metrics& m) {
  Json json = Json::object();
  for (size_t bin = 0; bin < m.ulp.size(); ++bin) {
    if (m.ulp[bin] == 0) continue;
    const std::string from = bin == 0   ? "0"
                             : bin == 1 ? "<1"
                                        : std::to_string(uint64_t{1} << (bin - 2));
    json[from] = m.ulp[bin];
  }
  return json;
}

// Ratios in dB; null: not known.
Json PointJson(const GrowthPoint& point) {
  const auto db = [](float value) { return std::isnan(value) ? Json(nullptr) : Number(value); };
  return {{"name", point.name},         {"role", ToString(point.role)},
          {"arg", point.arg},           {"in_db", db(point.in_db)},
          {"out_db", db(point.out_db)}, {"bound_db", db(point.bound_db)},
          {"fails", point.fails},       {"follows", point.follows}};
}

Json WorstJson(const Worst& worst) {
  return {{"position", worst.position}, {"a", worst.a}, {"b", worst.b}};
}

// The number that a value's text begins with; none of NaN, of a complex number, of true and false.
std::optional<double> NumberIn(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || *end != '\0' || std::isnan(number)) return std::nullopt;
  return number;
}

// With the error relative to A alone, which is how people often look at it.
Json WorstRelativeJson(const Worst& worst) {
  Json json = WorstJson(worst);
  const std::optional<double> a = NumberIn(worst.a), b = NumberIn(worst.b);
  json["of_a"] = a && b && *a != 0 ? Number(std::abs(*b - *a) / std::abs(*a)) : Json(nullptr);
  return json;
}

Json MetricsJson(const Metrics& m) {
  Json json = {{"elements", m.elements},
               {"bits_equal", m.bits_equal},
               {"outside", m.outside()},
               {"compared", m.compared},
               {"max_abs", Number(m.max_abs)},
               {"max_abs_text", m.max_abs_text},
               {"max_rel", Number(m.max_rel)},
               {"mean_abs", Number(m.mean_abs)},
               {"mean_rel", Number(m.mean_rel)},
               {"mean_error", Number(m.mean_error)},
               {"rmse", Number(m.rmse)},
               {"cosine", NumberOrNull(m.cosine)},
               {"sqnr_db", NumberOrNull(m.sqnr_db)},
               {"max_ulp", Number(m.max_ulp)},
               {"quantiles",
                {{"0.5", Number(m.p50)},
                 {"0.9", Number(m.p90)},
                 {"0.99", Number(m.p99)},
                 {"0.999", Number(m.p999)}}},
               {"rms_a", Number(m.rms_a)},
               {"rms_b", Number(m.rms_b)},
               {"bound_abs", Number(m.bound_abs)},
               {"nan_a", m.nan_a},
               {"nan_b", m.nan_b},
               {"inf_a", m.inf_a},
               {"inf_b", m.inf_b},
               {"nan_mismatch", m.nan_mismatch},
               {"inf_mismatch", m.inf_mismatch},
               {"sign_mismatch", m.sign_mismatch},
               {"zero_sign_mismatch", m.zero_sign_mismatch}};
  json["ulp"] = UlpJson(m);
  if (m.worst_channel)
    json["worst_channel"] = {{"index", m.worst_channel->index},
                             {"mean_error", Number(m.worst_channel->mean_error)}};
  if (m.has_worst) json["worst"] = WorstJson(m.worst);
  if (m.worst_relative) json["worst_relative"] = WorstRelativeJson(*m.worst_relative);
  return json;
}

// null where ranks were put together and no single one decided.
Json RankJson(int32_t rank) { return rank == kAllRanks ? Json(nullptr) : Json(rank); }

Json RowJson(const Row& row) {
  Json json = {{"type", "pair"},
               {"step", row.step_b},
               {"rank", RankJson(row.rank_b)},
               {"step_a", row.step_a},
               {"rank_a", RankJson(row.rank_a)},
               {"name", row.name},
               {"key", ToText(row.key)},
               {"path", row.key.path},
               {"op", row.key.op},
               {"role", ToString(row.key.role)},
               {"arg", row.key.arg},
               {"call", row.key.call},
               {"class", row.cls},
               {"kind", ToString(row.kind)},
               {"dtype_a", row.dtype_a},
               {"dtype_b", row.dtype_b},
               {"shape_a", row.shape_a},
               {"shape_b", row.shape_b},
               {"kept_a", row.kept_a},
               {"kept_b", row.kept_b},
               {"order", row.order},
               {"fails", row.fails},
               {"allowed", row.allowed},
               {"evidence", ToText(row.comparison.evidence)},
               {"verdicts", VerdictJson(row.comparison.verdict)}};
  if (row.comparison.evidence == Evidence::kPayload) {
    json["metrics"] = MetricsJson(row.comparison.metrics);
    json["bound"] = row.bound;
  }
  if (row.explanation) {
    const Explanation& e = *row.explanation;
    const ErrorLevel error = LevelOf(row.comparison.metrics);
    json["explained"] = {{"in_db", e.in_known ? Number(DbOf(e.in.power)) : Json(nullptr)},
                         {"bound_db", Number(DbOf(e.bound.power))},
                         {"gain", Number(error.gain)},
                         {"gain_bound", Number(e.bound.gain)},
                         {"peak", Number(error.peak)},
                         {"peak_bound", Number(e.bound.peak)},
                         {"within", e.within},
                         {"follows", e.follows}};
    if (e.sum.terms > 0)
      json["explained"]["sum"] = {
          {"terms", e.sum.terms}, {"rms", Number(e.sum.rms)}, {"error", Number(e.sum.error)}};
  }
  for (const Worst& worst : row.worst_elements) json["worst_elements"].push_back(WorstJson(worst));
  if (!row.name_a.empty()) json["name_a"] = row.name_a;
  if (!row.layout_a.empty()) json["layout_a"] = row.layout_a;
  if (!row.layout_b.empty()) json["layout_b"] = row.layout_b;
  if (!row.comparison.notes.empty()) json["notes"] = row.comparison.notes;
  return json;
}

Json UnpairedJson(const Unpaired& u) {
  const char* type = u.lacking ? "unpaired_copies" : u.name.empty() ? "unpaired_pass" : "unpaired";
  return {{"type", type},
          {"side", std::string(1, u.side)},
          {"step", u.step},
          {"rank", RankJson(u.rank)},
          {"against", u.against ? Json(*u.against) : Json(nullptr)},
          {"name", u.name},
          {"key", u.key},
          {"lacking", u.lacking ? Json(*u.lacking) : Json(nullptr)},
          {"extra", u.extra},
          {"records", u.records},
          {"why", u.why},
          {"allowed", u.allowed}};
}

Json MissingJson(const MissingWork& work) {
  return {{"only_in", std::string(1, work.side)},
          {"key", ToText(work.key)},
          {"records", work.records},
          {"micro_batches_a", work.micro_batches_a},
          {"micro_batches_b", work.micro_batches_b}};
}

Json UpdateJson(const UpdateFault& fault) {
  return {{"step", fault.step},
          {"parameters", fault.parameters},
          {"parted", fault.parted},
          {"of_weights", fault.of_weights},
          {"apart", fault.apart},
          {"more_apart", fault.more_apart},
          {"apart_db", Number(fault.apart_db)},
          {"median_db", Number(fault.median_db)},
          {"ranks", fault.ranks},
          {"ranks_smaller", fault.others}};
}

Json SkippedJson(const SkippedOperator& skipped) {
  return {
      {"side", std::string(1, skipped.side)}, {"ranks", skipped.ranks}, {"others", skipped.others}};
}

Json KilledJson(const KilledOrigin& killed) {
  const std::optional<Key>& last = killed.first.last;
  return {{"side", std::string(1, killed.side)},
          {"ranks", killed.ranks},
          {"how", killed.first.how},
          {"last", last ? Json(ToText(*last)) : Json(nullptr)},
          {"lacking", ToText(killed.lacking)}};
}

Json OriginJson(const Origin& o) {
  Json json = {{"rank", RankJson(o.rank)},
               {"name", o.name},
               {"step", o.step},
               {"kind", ToString(o.kind)},
               {"certain", o.certain},
               {"by_bits", o.by_bits},
               {"unexplained", o.unexplained},
               {"path", o.path},
               {"op", o.op},
               {"rank_a", RankJson(o.rank_a)},
               {"step_a", o.step_a},
               {"parameter", o.parameter},
               {"drifted", o.drifted},
               {"weights_unseen", o.weights_unseen},
               {"ranks", o.ranks},
               {"ranks_alike", o.ranks_alike},
               {"ranks_agreeing", o.ranks_agreeing}};
  json["skipped"] = o.skipped ? SkippedJson(*o.skipped) : Json(nullptr);
  json["killed"] = o.killed ? KilledJson(*o.killed) : Json(nullptr);
  json["difference"] = o.row ? RowJson(*o.row) : Json(nullptr);
  json["inputs"] = Json::array();
  for (const Row& input : o.inputs) json["inputs"].push_back(RowJson(input));
  json["missing"] = o.missing ? MissingJson(*o.missing) : Json(nullptr);
  json["update"] = o.update ? UpdateJson(*o.update) : Json(nullptr);
  json["last_agreeing"] = o.last_agreeing ? Json(o.last_agreeing->name) : Json(nullptr);
  return json;
}

Json DifferingJson(const ParameterReport& parameters, bool buffers) {
  Json list = Json::array();
  for (const ParameterDifference& d : parameters.differing) {
    if (d.buffer == buffers)
      list.push_back(
          {{"name", d.name}, {"rank", RankJson(d.rank)}, {"step", d.step}, {"drifted", d.drifted}});
  }
  return list;
}

Json FarthestJson(const std::optional<FollowingWeight>& weight) {
  if (!weight) return nullptr;
  return {{"name", weight->name},
          {"rank", RankJson(weight->rank)},
          {"step", weight->step},
          {"special", weight->special},
          {"sqnr_db", NumberOrNull(weight->sqnr_db)}};
}

Json SideJson(const SideInfo& side) {
  return {{"label", side.label}, {"run", side.run}, {"generation", side.generation},
          {"world", side.world}, {"job", side.job}, {"complete", side.holes.empty()},
          {"holes", side.holes}};
}

Json JobJson(const JobReport& job) {
  return {{"ranks_a", job.ranks_a},       {"ranks_b", job.ranks_b}, {"topology_a", job.topology_a},
          {"topology_b", job.topology_b}, {"map", job.map},         {"layouts_a", job.how_a},
          {"layouts_b", job.how_b}};
}

// null: all that agrees is equal in bits.
Json BoundsJson(const BoundsUsed& used) {
  if (used.pairs + used.other_pairs == 0) return nullptr;
  Json json = {{"pairs", used.pairs}, {"other_pairs", used.other_pairs}, {"others", used.others}};
  if (used.pairs > 0) {
    json["least_db"] = used.least_db;
    json["most_db"] = used.most_db;
  }
  json["closest"] = nullptr;
  if (used.closest)
    json["closest"] = {{"error_db", used.closest->error_db},
                       {"bound_db", used.closest->bound_db},
                       {"pair", RowJson(used.closest->row)}};
  return json;
}

Json CountsJson(const Counts& c) {
  return {{"passes", c.passes_paired},
          {"paired", c.paired},
          {"judged", c.judged},
          {"failing", c.failing},
          {"allowed", c.allowed},
          {"allowed_by_hash", c.allowed_by_hash},
          {"bitwise_equal", c.bits_equal},
          {"equal_by_hash", c.equal_by_hash},
          {"read", c.read},
          {"not_judged", c.not_judged},
          {"unresolved", c.unresolved},
          {"unreadable", c.unreadable},
          {"hash_only_differences", c.unproven},
          {"unexplained_states", c.unexplained_states},
          {"by_statistics", c.by_statistics},
          {"not_by_statistics", c.not_by_statistics},
          {"of_other_kind", c.of_other_kind},
          {"nan_on_both", c.nan_on_both},
          {"unpaired_a", c.unpaired_a},
          {"unpaired_b", c.unpaired_b},
          {"unpaired_allowed", c.unpaired_allowed},
          {"differing",
           {{"shape", c.shape},
            {"dtype", c.dtype},
            {"special", c.special},
            {"bitwise", c.bits},
            {"tolerance", c.tolerance}}}};
}

// Names may hold any bytes; JSON is UTF-8: others become U+FFFD.
std::string Dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

constexpr int kIndent = 2;

// Of an object that has some: as they stand in the document, without its braces.
std::string Members(const Json& object) {
  const std::string text = Dump(object, kIndent);
  return text.substr(2, text.size() - 4);
}

// As it stands in a list in a member; a text has no line breaks but those between members.
void AddIndented(const std::string& text, std::string* out) {
  constexpr char kNewLine[] = "\n      ";
  *out += kNewLine;
  for (const char c : text) {
    if (c == '\n')
      *out += kNewLine;
    else
      *out += c;
  }
}

// The member "growth" of the document.
void WriteGrowth(const Growth& growth, const std::function<void(std::string_view)>& write) {
  constexpr size_t kPiece = 64 * 1024;
  std::string piece = fmt::format("  \"growth\": {{\n    \"step\": {},\n    \"rank\": {},\n",
                                  growth.step, growth.rank);
  piece += "    \"points\": [";
  bool any = false;
  for (const GrowthPoint& point : growth.points) {
    if (std::exchange(any, true)) piece += ',';
    AddIndented(Dump(PointJson(point), kIndent), &piece);
    if (piece.size() < kPiece) continue;
    write(piece);
    piece.clear();
  }
  piece += any ? "\n    ]\n  }" : "]\n  }";
  write(piece);
}

}  // namespace

std::string RowToJson(const Row& row) { return Dump(RowJson(row), -1); }
std::string UnpairedToJson(const Unpaired& unpaired) { return Dump(UnpairedJson(unpaired), -1); }

std::string RenderJson(const DiffReport& report, const SideInfo& a, const SideInfo& b,
                       bool required_bits) {
  std::string text;
  WriteJson(report, a, b, required_bits, [&](std::string_view piece) { text += piece; });
  return text;
}

void WriteJson(const DiffReport& report, const SideInfo& a, const SideInfo& b, bool required_bits,
               const std::function<void(std::string_view piece)>& write) {
  Json json = {{"tool", "tdump-diff"},
               {"version", TDUMP_VERSION},
               {"a", SideJson(a)},
               {"b", SideJson(b)},
               {"required", required_bits ? "bitwise" : "tolerance"},
               {"verdict", ToString(report.overall)},
               {"summary", RenderVerdict(report, required_bits)}};
  json["origin"] = report.origin ? OriginJson(*report.origin) : Json(nullptr);
  json["beyond_drift"] = report.beyond_drift ? OriginJson(*report.beyond_drift) : Json(nullptr);
  json["first_bits"] = report.first_bits ? OriginJson(*report.first_bits) : Json(nullptr);
  write("{\n" + Members(json) + ",\n");
  WriteGrowth(report.growth, write);
  json = Json::object();
  json["counts"] = CountsJson(report.counts);
  json["bounds"] = BoundsJson(report.bounds);
  const ParameterReport& parameters = report.parameters;
  json["parameters"] = {{"compared", parameters.compared},
                        {"first_steps", parameters.first_steps},
                        {"differing_names", parameters.differing_names},
                        {"allowed_names", parameters.allowed_names},
                        {"following_names", parameters.following_names},
                        {"farthest", FarthestJson(parameters.farthest)},
                        {"differing", DifferingJson(parameters, false)}};
  json["buffers"] = {{"compared", parameters.buffers_compared},
                     {"differing_names", parameters.buffers_differing},
                     {"allowed_names", parameters.buffers_allowed},
                     {"following_names", parameters.buffers_following},
                     {"farthest", FarthestJson(parameters.buffers_farthest)},
                     {"differing", DifferingJson(parameters, true)}};
  json["inputs"] = {{"compared", report.inputs.compared},
                    {"equal", report.inputs.equal},
                    {"not_judged", report.inputs.not_judged},
                    {"differing", report.inputs.differing}};
  json["inputs"]["first_differing_step"] = report.inputs.first_differing_step
                                               ? Json(*report.inputs.first_differing_step)
                                               : Json(nullptr);
  json["inputs"]["judging_stopped"] = report.inputs.judging_stopped;
  json["steps"] = report.steps;
  json["steps_not_judged"] = Json::array();
  for (const StepsNotJudged& steps : report.steps_not_judged)
    json["steps_not_judged"].push_back(
        {{"steps", steps.steps}, {"why", WhyNotJudged(report, steps)}});
  json["job"] = report.job ? JobJson(*report.job) : Json(nullptr);
  json["ranks"] = report.ranks;
  json["failing"] = Json::array();
  for (const Row& row : report.failing) json["failing"].push_back(RowJson(row));
  json["unpaired"] = Json::array();
  for (const Unpaired& unpaired : report.unpaired)
    json["unpaired"].push_back(UnpairedJson(unpaired));
  json["signature"] = report.signature;
  json["notes"] = report.notes;
  json["damage"] = Json::array();
  for (const io::Damage& d : report.damage)
    json["damage"].push_back({{"file", d.file}, {"offset", d.offset}, {"what", d.what}});
  write(",\n" + Members(json) + "\n}\n");
}

}  // namespace tdump::compare
