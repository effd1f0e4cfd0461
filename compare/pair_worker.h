// How Measure goes over a pair: in chunks of a size that depends on the pair alone, so that they
// can be measured by any number of threads and their sums added in order. Internal to compare/.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "compare/huge_elements.h"
#include "compare/metrics.h"
#include "compare/pair_side.h"
#include "compare/pair_sums.h"

namespace tdump::compare {

// What all chunks of a pair have in common.
struct PairPlan {
  enum class Path : uint8_t { kBits, kInteger, kReal, kWideReal, kComplex };

  PairPlan(const io::Record& a, const io::Record& b, double relative_bound);

  uint64_t chunks() const { return (elements + chunk - 1) / chunk; }

  const io::Record& a;
  const io::Record& b;
  double bound;                     // relative
  double huge_from = kNothingHuge;  // equal elements from there on do not count
  std::vector<bool> skip;           // dimensions that both sides store once: walked once
  uint64_t weight = 1;              // elements of the tensor for each of the walk
  uint64_t elements = 1;            // of the walk
  Path path = Path::kBits;
  bool same_dtype = false;
  bool integers = false;  // both sides
  UlpScale ulp;
  uint64_t channels = 0;  // length of the walk's last dimension; 0: no sums by channel
  // Elements at a time: one decoding, one reading, one worker's piece.
  uint64_t tile = 1, window = 1, chunk = 1;
};

// Measures chunks of a pair, one at a time. Not thread-safe: one a thread. Memory: a window of both
// sides, and a sum for each channel.
class PairWorker {
 public:
  // `counts` takes what is counted. All outlive the worker.
  PairWorker(const PairPlan& plan, ReadBytes a, ReadBytes b, PairCounts* counts);

  // Adds up one chunk: sums() and channel_errors() are of it.
  Status Measure(uint64_t chunk);
  PairSums& sums() { return adder_.sums(); }
  std::vector<double>& channel_errors() { return adder_.channel_errors(); }

  // Precondition: real numbers.
  Result<Magnitudes> CountMagnitudes(uint64_t chunk);
  // How many finite pairs of the chunk are outside the bound.
  Result<uint64_t> CountOutside(uint64_t chunk, double absolute);

  PairSide& a() { return a_; }
  PairSide& b() { return b_; }

 private:
  using Body = std::function<void(uint64_t first, uint64_t offset, uint64_t count)>;
  Status ForEachTile(uint64_t chunk, const Body& body);
  void AddTile(uint64_t first, uint64_t offset, uint64_t count);
  void AddAllButHuge(uint64_t first, uint64_t offset, uint64_t count);
  bool AddNumbers(uint64_t first, uint64_t offset, uint64_t count);
  void CountEqualBits(std::span<const std::byte> x, std::span<const std::byte> y, uint64_t first,
                      uint64_t count, bool equal);
  uint64_t OutsideOfTile(uint64_t offset, uint64_t count, double absolute);
  bool AsTheyLie(uint64_t count) const;  // whether vectors read a tile without its being decoded

  const PairPlan& plan_;
  PairSide a_, b_;
  PairAdder adder_;
};

}  // namespace tdump::compare
