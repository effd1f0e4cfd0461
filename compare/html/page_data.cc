#include "compare/html/page_data.h"

#include <algorithm>
#include <cmath>

#include "compare/roles.h"
#include "core/key.h"

namespace tdump::compare::html {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Of pairs about whose values nothing is known: NaN.
double SqnrOf(const Row& row) {
  const Answer bits = row.comparison.verdict.bitwise;
  if (bits == Answer::kSame) return kInfinity;
  if (row.comparison.evidence != Evidence::kPayload)
    return bits == Answer::kDiffers ? kUnknownSqnr : kNan;
  return row.comparison.metrics->sqnr_db.value_or(kNan);
}

// The worse one is smaller; what is unknown comes last.
double Rank(double sqnr) { return std::isnan(sqnr) ? kInfinity : sqnr; }

}  // namespace

bool IsMade(const Key& key) { return IsOutput(key.role) || IsOfOptimizer(key); }

Level LevelOf(const Row& row) {
  const Verdict& v = row.comparison.verdict;
  if (row.fails) {
    const bool special =
        v.shape == Answer::kDiffers || v.dtype == Answer::kDiffers || v.special == Answer::kDiffers;
    return special ? Level::kSpecial : Level::kOutside;
  }
  if (v.bitwise == Answer::kSame) return Level::kEqual;
  if (v.tolerance == Answer::kSame) return Level::kWithin;
  return v.bitwise == Answer::kDiffers ? Level::kBits : Level::kNotJudged;
}

void PageData::Add(const Row& row) {
  const Level level = LevelOf(row);
  const Level shown = row.allowed ? Level::kWithin : level;
  const size_t layer = map_.Add(row.key.path, row.rank_b, row.step_b, shown);
  if (steps_.size() < kMostSteps && (steps_.empty() || steps_.back() != row.step_b) &&
      std::find(steps_.begin(), steps_.end(), row.step_b) == steps_.end())
    steps_.push_back(row.step_b);
  Observation* observation = Find(row, level);
  if (observation == nullptr) {
    ++left_out_;
    return;
  }
  const bool first = observation->pairs++ == 0;
  const bool worse =
      level > observation->level ||
      (level == observation->level && Rank(SqnrOf(row)) < Rank(SqnrOf(observation->worst)));
  if (first || worse) {
    observation->worst = row;
    observation->level = level;
  }
  observation->layer = layer;
  if (row.fails) {
    ++observation->failing;
    observation->all_allowed = observation->all_allowed && row.allowed;
    if (observation->places.size() < kMostPlaces)
      observation->places.emplace_back(row.step_b, row.rank_b);
  }
  if (IsMade(row.key)) AddStep(row, observation);
}

void PageData::AddStep(const Row& row, Observation* observation) {
  const auto step = std::find(steps_.begin(), steps_.end(), row.step_b);
  if (step == steps_.end()) return;
  const auto at = static_cast<size_t>(step - steps_.begin());
  if (at >= observation->by_step.size()) observation->by_step.resize(at + 1, kNan);
  double& least = observation->by_step[at];
  const double sqnr = SqnrOf(row);
  if (std::isnan(least) || sqnr < least) least = sqnr;
}

void PageData::Add(const Unpaired& unpaired) {
  if (unpaired_.size() < kMostUnpaired) unpaired_.push_back(unpaired);
}

Observation* PageData::Find(const Row& row, Level level) {
  std::string key = ToText(row.key);
  const auto found = index_.find(key);
  if (found != index_.end()) return &observations_[found->second];
  const bool matters = level >= Level::kBits;
  if (observations_.size() >= (matters ? 2 : 1) * kMostObservations) return nullptr;
  index_.emplace(key, observations_.size());
  Observation& observation = observations_.emplace_back();
  observation.key = std::move(key);
  return &observation;
}

int64_t PageData::IndexOf(const std::string& key) const {
  const auto found = index_.find(key);
  return found == index_.end() ? -1 : static_cast<int64_t>(found->second);
}

}  // namespace tdump::compare::html
