// Metrics: how far two tensors of equal shape are apart, measured in one streaming pass over both
// payloads (a second pass, only over chunks that have elements outside the bound, counts them).
// Memory: for each thread a window of both payloads of 128 KiB, the bins of the errors and a sum
// for each channel, whatever the tensors' size. Results are the same bits for any number of
// threads.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compare/pair_tile.h"
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

// The index of the last dimension whose mean of b - a is farthest from 0.
struct WorstChannel {
  uint64_t index = 0;
  double mean_error = 0;
};

// Of e = b - a, over the elements that are finite on both sides (`compared`) unless said otherwise.
struct Metrics {
  uint64_t elements = 0;
  uint64_t bits_equal = 0;  // elements; 0 when the dtypes differ
  // Elements proven within the bound: finite and close, or the same special value.
  uint64_t within = 0;
  // Elements finite on both sides: what the numbers below are over. But for equal ones that are far
  // beyond all others (compare/huge_elements.h), which are to all sums what infinities are.
  uint64_t compared = 0;
  double max_abs = 0;
  std::string max_abs_text;  // exact for integers
  double max_rel = 0;        // of |a - b| / max(|a|, |b|), 0 / 0 = 0
  double mean_abs = 0;
  double mean_rel = 0;    // of |e| / max(|a|, |b|)
  double mean_error = 0;  // of e; 0 for complex numbers
  double rmse = 0;
  // a.b / (|a| |b|), the real part for complex numbers; none where a norm is 0. 1 exactly when all
  // e are 0.
  std::optional<double> cosine;
  // 10 log10(sum a^2 / sum e^2): infinite when all e are 0; none when a is 0 as well.
  std::optional<double> sqnr_db;
  // |e| in units in the last place of the larger number, in the coarser of the two formats; of
  // integers in ones. ulp[k]: how many lie in bin k (kUlpBins in compare/pair_tile.h).
  double max_ulp = 0;
  std::array<uint64_t, kUlpBins> ulp{};
  // Of |e|, to within 1/64: half, nine tenths, 99 % and 99.9 % of the elements are at most this
  // far.
  double p50 = 0, p90 = 0, p99 = 0, p999 = 0;
  // Where the last dimension has 2 to 2^20 indices and there are others.
  std::optional<WorstChannel> worst_channel;
  // There too: how many indices, and the root mean square over them of the mean of b - a, which is
  // the part of e that all rows have in common. 0: not known.
  uint64_t channels = 0;
  double rms_in_common = 0;
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
  std::optional<Worst> worst_relative;  // the first of max_rel; none where that is 0

  uint64_t outside() const { return elements - within; }
};

struct Operand {
  const io::Record* record = nullptr;
  ReadBytes read;
  // Another reader of the same bytes, for a further thread. Empty: one thread measures.
  std::function<Result<ReadBytes>()> open;
};

// Sizes in elements: the last dimension of a packed dtype counts each of its numbers.
std::vector<uint64_t> ElementShape(const io::Record& record);

// Precondition: equal ElementShape. Errors: the payload's (kCorrupt).
Result<Metrics> Measure(const Operand& a, const Operand& b, const Bound& bound,
                        unsigned threads = 1);

// Of which size on a pair is worth several threads.
inline constexpr uint64_t kLargePair = 32ull << 20;  // bytes of a side

}  // namespace tdump::compare
