// WeightUpdate: a weight (or a momentum of steps, which is summed up like one) at two steps in a
// row, with all that its update was made of in between, read tile by tile from both sides of a
// pair.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compare/optimizer_states.h"
#include "compare/pair_side.h"
#include "compare/pairing.h"
#include "compare/step_view.h"
#include "core/status.h"

namespace tdump::compare {

// Both sides of a pair. Not thread-safe. Memory: a tile of each side.
class BothSides {
 public:
  // Error: one cannot be read, or holds no real numbers.
  static Result<std::unique_ptr<BothSides>> Open(const StepView& view_a, const StepView& view_b,
                                                 const RecordIds& ids);

  std::vector<uint64_t> shape() const;
  double roundoff_a() const { return sides_[0].format().UnitRoundoff(); }
  uint64_t elements() const { return sides_.front().elements(); }
  Status Load(uint64_t first, uint64_t count);
  Status LoadA(uint64_t first, uint64_t count);

  std::span<const double> a, b;  // of the tile

 private:
  io::Record record_a_, record_b_;
  std::vector<PairSide> sides_;
};

struct WeightUpdate {
  // What an optimizer keeps of the weight, or its gradient.
  struct Part {
    std::string name;  // "exp_avg"; of a gradient ""
    std::unique_ptr<BothSides> sides;
  };

  std::unique_ptr<BothSides> now;
  std::unique_ptr<BothSides> before;  // null: it was 0
  std::vector<Part> parts;            // elements as those of the weight
  double relative = 0;  // that the roundings of one update explain, of the largest number in it

  uint64_t elements() const { return now->elements(); }
  // Of an element of the loaded tile.
  double BeforeA(uint64_t i) const { return before ? before->a[i] : 0; }
  double BeforeB(uint64_t i) const { return before ? before->b[i] : 0; }
  enum class Of { kBoth, kA, kWeightsOfA };  // the last: without `parts`
  // Calls each(i) for all elements, where i is of the loaded tile, until it returns false. Error: a
  // payload's.
  template <class Each>
  Status ForEachTile(Of of, const Each& each) const {
    constexpr uint64_t kTileElements = 4096;
    for (uint64_t first = 0; first < elements(); first += kTileElements) {
      const uint64_t count = std::min(kTileElements, elements() - first);
      const auto load = [&](BothSides* sides) {
        return of == Of::kBoth ? sides->Load(first, count) : sides->LoadA(first, count);
      };
      TDUMP_RETURN_IF_ERROR(load(now.get()));
      if (before) TDUMP_RETURN_IF_ERROR(load(before.get()));
      if (of != Of::kWeightsOfA) {
        for (const Part& part : parts) TDUMP_RETURN_IF_ERROR(load(part.sides.get()));
      }
      for (uint64_t i = 0; i < count; ++i)
        if (!each(i)) return {};
    }
    return {};
  }
};

}  // namespace tdump::compare
