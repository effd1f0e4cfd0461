#include "compare/noise.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compare/bounds.h"

namespace tdump::compare {
namespace {

std::string Slot(const std::string& name, const Key& key) {
  return fmt::format("{}\n{}\n{}", name, ToString(key.role), key.arg);
}

}  // namespace

void NoiseModel::Add(const std::string& name, const Key& key, bool bits_equal,
                     const Metrics& metrics) {
  NoiseLevel& level = levels_[Slot(name, key)];
  ++level.pairs;
  if (bits_equal) return;
  const ErrorLevel between = LevelOf(metrics);
  if (!std::isfinite(between.peak)) return;
  level.peak = std::max(level.peak, between.peak);
  level.power = std::max(level.power, between.power);
}

const NoiseLevel* NoiseModel::Find(const std::string& name, const Key& key) const {
  const auto found = levels_.find(Slot(name, key));
  return found == levels_.end() ? nullptr : &found->second;
}

}  // namespace tdump::compare
