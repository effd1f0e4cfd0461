// Metrics: how far two tensors of equal shape are apart, measured in one streaming pass over both
// payloads (a second pass, only when elements lie outside the bound, counts them). Memory: a few
// tiles, whatever the tensors' size.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compare/payload_view.h"
#include "core/status.h"
#include "io/records.h"

namespace tdump::compare {

// An element is within when |a - b| <= relative * max(|a|, |b|) + scale *
// min(rms(A), rms(B)). Zeros: exact.
struct Bound {
  double relative = 0;
  double scale = 0;
  std::string text;  // how it came about, for the report
};

struct Worst {
  std::vector<uint64_t> position;  // in elements; empty for a 0-dim tensor
  std::string a, b;                // the values, as text that reads back
};

struct Metrics {
  uint64_t elements = 0;
  uint64_t bits_equal = 0;  // elements; 0 when the dtypes differ
  // Elements proven within the bound: finite and close, or the same special value.
  uint64_t within = 0;
  uint64_t compared = 0;  // elements finite on both sides: what the numbers below are over
  double max_abs = 0;
  std::string max_abs_text;  // exact for integers
  double max_rel = 0;        // of |a - b| / max(|a|, |b|), 0 / 0 = 0
  double mean_abs = 0;
  double rms_a = 0, rms_b = 0;  // over finite elements of each side
  double bound_abs = 0;         // scale * min(rms_a, rms_b)
  uint64_t nan_a = 0, nan_b = 0, inf_a = 0, inf_b = 0;
  uint64_t nan_mismatch = 0;        // NaN on one side only
  uint64_t inf_mismatch = 0;        // infinite on one side only, or of the other sign
  uint64_t sign_mismatch = 0;       // signs differ (zeros included, NaN not)
  uint64_t zero_sign_mismatch = 0;  // 0.0 against -0.0
  bool numeric = true;              // false: an opaque dtype, only bits were compared
  bool has_worst = false;           // some element differs
  // The first special-value mismatch, else the largest |a - b|, else the first other bits.
  Worst worst;

  uint64_t outside() const { return elements - within; }
};

struct Operand {
  const io::Record* record = nullptr;
  ReadBytes read;
};

// Sizes in elements: the last dimension of a packed dtype counts each of its numbers.
std::vector<uint64_t> ElementShape(const io::Record& record);

// Precondition: equal ElementShape. Errors: the payload's (kCorrupt).
Result<Metrics> Measure(const Operand& a, const Operand& b, const Bound& bound);

}  // namespace tdump::compare
