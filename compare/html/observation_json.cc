#include "compare/html/observation_json.h"

#include <cmath>

#include "compare/report_lines.h"

namespace tdump::compare::html {
namespace {

char Letter(Answer answer) {
  switch (answer) {
    case Answer::kSame:
      return 's';
    case Answer::kDiffers:
      return 'd';
    case Answer::kNotJudged:
      break;
  }
  return '-';
}

std::string_view EvidenceText(Evidence evidence) {
  switch (evidence) {
    case Evidence::kMeta:
      return "shape and dtype only";
    case Evidence::kHash:
      return "hash";
    case Evidence::kStatistics:
      return "statistics";
    case Evidence::kPayload:
      break;
  }
  return "values";
}

Json UlpBins(const Metrics& m) {
  Json bins = Json::array();
  for (size_t bin = 0; bin < m.ulp.size(); ++bin) {
    if (m.ulp[bin] != 0) bins.push_back({bin, m.ulp[bin]});
  }
  return bins;
}

Json WorstJson(const Worst& worst) {
  return {worst.position, ShownText(worst.a), ShownText(worst.b)};
}

Json MetricsJson(const Metrics& m) {
  Json channel = nullptr, worst = nullptr, worst_relative = nullptr;
  if (m.worst_channel) channel = {m.worst_channel->index, ShownNumber(m.worst_channel->mean_error)};
  if (m.has_worst) worst = WorstJson(m.worst);
  if (m.worst_relative) worst_relative = WorstJson(*m.worst_relative);
  return Json::array({m.elements,
                      m.bits_equal,
                      m.outside(),
                      ShownNumber(m.max_abs),
                      m.max_abs_text,
                      ShownNumber(m.max_rel),
                      ShownNumber(m.mean_abs),
                      ShownNumber(m.mean_error),
                      ShownNumber(m.rmse),
                      m.cosine ? Json(*m.cosine) : Json(nullptr),
                      ShownNumber(m.sqnr_db),
                      ShownNumber(m.max_ulp),
                      ShownNumber(m.p50),
                      ShownNumber(m.p90),
                      ShownNumber(m.p99),
                      ShownNumber(m.p999),
                      ShownNumber(m.rms_a),
                      ShownNumber(m.rms_b),
                      m.nan_a,
                      m.nan_b,
                      m.inf_a,
                      m.inf_b,
                      m.nan_mismatch,
                      m.inf_mismatch,
                      m.sign_mismatch,
                      std::move(channel),
                      std::move(worst),
                      std::move(worst_relative),
                      UlpBins(m)});
}

Json StepsJson(const std::vector<double>& by_step) {
  Json steps = Json::array();
  for (const double sqnr : by_step)
    steps.push_back(std::isnan(sqnr)       ? Json(nullptr)
                    : sqnr == kUnknownSqnr ? Json("bits")
                                           : ShownNumber(sqnr));
  return steps;
}

// Steps as text: they may be larger than a script's integers.
Json PlacesJson(const Observation& observation) {
  Json places = Json::array();
  for (const auto& [step, rank] : observation.places)
    places.push_back({std::to_string(step), RankName(rank)});
  return places;
}

}  // namespace

Json ObservationColumns() {
  return {"name",    "key",     "what",    "role",       "class",    "is_output", "layer",
          "pairs",   "failing", "allowed", "level",      "dtype_a",  "dtype_b",   "shape_a",
          "shape_b", "step",    "rank",    "evidence",   "verdicts", "bound",     "by_step",
          "places",  "notes",   "at",      "has_values", "metrics"};
}

Json MetricsColumns() {
  return {
      "elements",      "bits_equal", "outside", "max_abs",        "max_abs_text", "max_rel",
      "mean_abs",      "mean_error", "rmse",    "cosine",         "sqnr_db",      "max_ulp",
      "p50",           "p90",        "p99",     "p999",           "rms_a",        "rms_b",
      "nan_a",         "nan_b",      "inf_a",   "inf_b",          "nan_mismatch", "inf_mismatch",
      "sign_mismatch", "channel",    "worst",   "worst_relative", "ulp"};
}

size_t BoundTexts::IndexOf(const std::string& text) {
  const auto [found, added] = index_.try_emplace(text, texts_.size());
  if (added) texts_.push_back(text);
  return found->second;
}

Json ObservationJson(const Observation& observation, BoundTexts* bounds) {
  const Row& row = observation.worst;
  const Verdict& v = row.comparison.verdict;
  const bool read = row.comparison.evidence == Evidence::kPayload;
  Json notes = Json::array();
  for (const std::string& note : row.comparison.notes) notes.push_back(ShownText(note));
  const std::string verdicts = {Letter(v.shape), Letter(v.dtype), Letter(v.special),
                                Letter(v.bitwise), Letter(v.tolerance)};
  return Json::array({ShownText(row.name),
                      ShownText(observation.key),
                      ShownText(ObservationText(row)),
                      ToString(row.key.role),
                      ShownText(row.cls),
                      IsMade(row.key),
                      observation.layer,
                      observation.pairs,
                      observation.failing,
                      observation.failing > 0 && observation.all_allowed,
                      static_cast<int>(observation.level),
                      ShownText(row.dtype_a),
                      ShownText(row.dtype_b),
                      row.shape_a,
                      row.shape_b,
                      std::to_string(row.step_b),
                      RankName(row.rank_b),
                      EvidenceText(row.comparison.evidence),
                      verdicts,
                      read && !row.bound.empty() ? Json(bounds->IndexOf(row.bound)) : Json(nullptr),
                      StepsJson(observation.by_step),
                      PlacesJson(observation),
                      std::move(notes),
                      PlaceOfWorst(row),
                      HasValues(row),
                      read ? MetricsJson(row.comparison.metrics) : Json(nullptr)});
}

}  // namespace tdump::compare::html
