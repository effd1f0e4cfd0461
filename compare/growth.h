// Growth: how the error of a run grows along the program, for reports ("error growth").
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"

namespace tdump::compare {

// One output (or what came back of it) with the error that went in. Errors are signal-to-error
// ratios in dB, 10 log10(sum a^2 / sum e^2): larger is better, infinite where nothing differs, NaN
// where it is not known.
struct GrowthPoint {
  static constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();

  std::string_view name;  // the operator's plain name; in Growth::texts, as arg
  std::string_view arg;
  Role role = Role::kOutput;
  float in_db = kUnknown;  // the worst of its inputs
  float out_db = kUnknown;
  float bound_db = kUnknown;  // what its precision and its inputs explain
  bool fails = false;
  bool follows = false;  // fails, and what went in failed already
};

// The outputs of one pass in order of time: of the pass that holds the origin, else of the first.
struct Growth {
  uint64_t step_a = 0, step = 0;
  int32_t rank_a = 0, rank = 0;
  std::vector<GrowthPoint> points;
  std::shared_ptr<const std::set<std::string, std::less<>>> texts;  // equal ones once
};

// "embeddings 60 | layer.0.mlp 28.4 | layer.1.mlp 6.2": outputs of the forward, evenly spaced, at
// most `most`, with the first that fails among them. "" where there are none that differ.
std::string GrowthText(const Growth& growth, size_t most);

struct PassDiff;
struct PassPair;
// Without points where nothing differs, or nothing was measured.
Growth GrowthOf(const PassDiff& pass, const PassPair& pair);

}  // namespace tdump::compare
