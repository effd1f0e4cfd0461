#include "compare/widened.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "compare/element.h"
#include "compare/pair_side.h"

namespace tdump::compare {
namespace {

constexpr uint64_t kTileElements = 4096;
constexpr int kDigits = 8;            // binary ones of bfloat16
constexpr uint64_t kEnough = 16;      // elements
constexpr double kNearlyAll = 0.9;    // of them
constexpr double kTelling = 0x1p-10;  // a difference beside the number: less may be anything
constexpr double kRounding = 0x1p-23;

double OffGrid(double x, int digits) {
  const double unit = std::ldexp(1, std::ilogb(x) - digits + 1);
  return std::abs(x - std::round(x / unit) * unit);
}

struct Share {
  uint64_t all = 0, fit = 0;

  void Add(bool fits) {
    ++all;
    fit += fits ? 1 : 0;
  }
  bool IsNearlyAll() const {
    return all >= kEnough && static_cast<double>(fit) >= kNearlyAll * static_cast<double>(all);
  }
};

}  // namespace

bool AreWidened(const StepView& a, const io::Record& record_a, const StepView& b,
                const io::Record& record_b) {
  for (const io::Record* record : {&record_a, &record_b})
    if (!record->payload || record->dtype.view() != "float32") return false;
  if (ElementShape(record_a) != ElementShape(record_b)) return false;
  Result<ReadBytes> read_a = a.Open(record_a), read_b = b.Open(record_b);
  if (!read_a.ok() || !read_b.ok()) return false;
  PairSide left(record_a, *std::move(read_a), {}), right(record_b, *std::move(read_b), {});
  Share of_a, of_b, steps;
  for (uint64_t first = 0; first < left.elements(); first += kTileElements) {
    const uint64_t count = std::min(kTileElements, left.elements() - first);
    if (!left.Load(first, count).ok() || !right.Load(first, count).ok()) return false;
    const auto x = left.Floats(0, count), y = right.Floats(0, count);
    for (uint64_t i = 0; i < count; ++i) {
      if (!std::isfinite(x[i]) || !std::isfinite(y[i])) continue;
      if (x[i] != 0) of_a.Add(OffGrid(x[i], kDigits) == 0);
      if (y[i] != 0) of_b.Add(OffGrid(y[i], kDigits) == 0);
      const double larger = std::max(std::abs(x[i]), std::abs(y[i]));
      const double step = y[i] - x[i];
      if (std::abs(step) > kTelling * larger)
        steps.Add(OffGrid(step, kDigits + 1) <= kRounding * larger);
    }
  }
  return of_a.IsNearlyAll() || of_b.IsNearlyAll() || steps.IsNearlyAll();
}

}  // namespace tdump::compare
