// PageData: what the HTML report shows of the pairs, collected while they are compared. One entry
// for each observation (a tensor at one point of one operator) over all ranks and steps, with the
// metrics of its worst pair. Memory: bounded by kMostObservations, whatever the runs' size.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compare/diff.h"
#include "compare/html/layer_map.h"

namespace tdump::compare::html {

Level LevelOf(const Row& row);
// Whether it was made in the step: what operators return, gradients, what an optimizer keeps.
bool IsMade(const Key& key);

// Of tensors whose bits differ, nobody knows by how much: worse than equal ones.
inline constexpr double kUnknownSqnr = std::numeric_limits<double>::max();

struct Observation {
  // The first pair of the highest level, among those of the lowest SQNR.
  Row worst;
  std::string key;
  Level level = Level::kNone;
  size_t layer = 0;
  uint64_t pairs = 0, failing = 0;
  bool all_allowed = true;  // every failing pair is allowed
  // The lowest SQNR of each step (PageData::kMostSteps, by PageData::steps), infinite where all
  // pairs are equal bit by bit, NaN where nothing is known. Of what IsMade only.
  std::vector<double> by_step;
  std::vector<std::pair<uint64_t, int32_t>> places;  // step and rank of the first failing pairs
};

// Not thread-safe: takes what DiffOptions::on_row and on_unpaired give, in their order.
class PageData {
 public:
  // Beyond it only observations that fail, or are known to differ, are entered, up to as many
  // again.
  static constexpr size_t kMostObservations = 50'000;
  static constexpr size_t kMostSteps = 64, kMostPlaces = 16, kMostUnpaired = 1000;

  void Add(const Row& row);
  void Add(const Unpaired& unpaired);

  // As they appeared.
  const std::vector<Observation>& observations() const { return observations_; }
  uint64_t left_out() const { return left_out_; }  // pairs
  const LayerMap& map() const { return map_; }
  const std::vector<Unpaired>& unpaired() const { return unpaired_; }
  // Steps of B of `by_step`.
  const std::vector<uint64_t>& steps() const { return steps_; }

  // The observation of a key's text, -1 for none.
  int64_t IndexOf(const std::string& key) const;

 private:
  Observation* Find(const Row& row, Level level);
  void AddStep(const Row& row, Observation* observation);

  std::vector<Observation> observations_;
  std::unordered_map<std::string, size_t> index_;  // by text of the key
  std::vector<uint64_t> steps_;
  LayerMap map_;
  std::vector<Unpaired> unpaired_;
  uint64_t left_out_ = 0;
};

}  // namespace tdump::compare::html
