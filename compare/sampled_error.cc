#include "compare/sampled_error.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "compare/element.h"
#include "compare/infer_layout.h"
#include "io/hash.h"

namespace tdump::compare {
namespace {

constexpr uint64_t kBlock = 512, kMostBlocks = 128;
constexpr uint64_t kWindow = kBlock * kMostBlocks;  // read at a time, where all is
// A sample is sparse of which less than one number in so many is not zero.
constexpr uint64_t kDense = 8;

// From block to block, so that at most `most` of `units` are read.
uint64_t StepOf(uint64_t units, uint64_t most) {
  return std::max<uint64_t>(kBlock, units / std::max<uint64_t>(1, most / kBlock));
}

// Of an opaque dtype there are none.
Result<std::vector<double>> NumbersAt(TensorSource& tensor, uint64_t first, uint64_t count,
                                      std::vector<std::byte>* bytes) {
  const DType& dtype = tensor.dtype();
  const NumberFormat format = FormatOf(dtype);
  bytes->resize(count * dtype.unit_bytes());
  TDUMP_RETURN_IF_ERROR(tensor.Read(first, *bytes));
  if (format.kind == NumberKind::kOpaque) return std::vector<double>();
  std::vector<double> numbers(count * static_cast<size_t>(NumbersPerUnit(dtype, format)));
  DecodeFloat(dtype, format, *bytes, numbers);
  return numbers;
}

// -0 is zero.
uint64_t CountNumbers(std::span<const double> numbers) {
  return static_cast<uint64_t>(
      std::count_if(numbers.begin(), numbers.end(), [](double number) { return number != 0; }));
}

bool HoldsNumbers(const DType& dtype, std::span<const std::byte> bytes) {
  const bool is_zero =
      std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{0}; });
  const NumberFormat format = FormatOf(dtype);
  if (is_zero || format.kind == NumberKind::kOpaque) return !is_zero;
  std::vector<double> numbers(bytes.size() / dtype.unit_bytes() *
                              static_cast<size_t>(NumbersPerUnit(dtype, format)));
  DecodeFloat(dtype, format, bytes, numbers);
  return CountNumbers(numbers) > 0;
}

// Adds what a block of units says.
class ErrorSums {
 public:
  Status AddBlock(TensorSource& a, TensorSource& b, uint64_t first) {
    const uint64_t count = std::min(kBlock, a.units() - first);
    TDUMP_ASSIGN_OR_RETURN(const std::vector<double> x, NumbersAt(a, first, count, &bytes_a_));
    TDUMP_ASSIGN_OR_RETURN(const std::vector<double> y, NumbersAt(b, first, count, &bytes_b_));
    seen_ += x.size();
    numbers_a_ += CountNumbers(x);
    numbers_b_ += CountNumbers(y);
    if (x.empty() || x.size() != y.size()) {
      Add(1, bytes_a_ == bytes_b_ ? 1 : 0);
      return {};
    }
    for (size_t i = 0; i < x.size(); ++i) Add(x[i], y[i]);
    return {};
  }

  Status AddBlocks(TensorSource& a, TensorSource& b, std::span<const uint64_t> blocks) {
    for (const uint64_t first : blocks) TDUMP_RETURN_IF_ERROR(AddBlock(a, b, first));
    return {};
  }

  // Of one side at least.
  bool is_sparse() const { return kDense * std::min(numbers_a_, numbers_b_) < seen_; }

  double Relative() const {
    const double scale = std::max(of_a_, of_b_);
    if (scale == 0) return std::numeric_limits<double>::quiet_NaN();
    return std::sqrt(difference_ / scale);
  }

 private:
  void Add(double a, double b) {
    if (!std::isfinite(a) || !std::isfinite(b)) return;
    difference_ += (a - b) * (a - b);
    of_a_ += a * a;
    of_b_ += b * b;
  }

  double difference_ = 0, of_a_ = 0, of_b_ = 0;
  uint64_t seen_ = 0, numbers_a_ = 0, numbers_b_ = 0;
  std::vector<std::byte> bytes_a_, bytes_b_;
};

Result<std::vector<uint64_t>> FindNumbers(TensorSource& tensor) {
  const uint64_t unit_bytes = tensor.dtype().unit_bytes();
  std::vector<uint64_t> blocks;
  std::vector<std::byte> bytes;
  uint64_t found = 0, every = 1;
  for (uint64_t first = 0; first < tensor.units(); first += kWindow) {
    const uint64_t count = std::min(kWindow, tensor.units() - first);
    bytes.resize(count * unit_bytes);
    TDUMP_RETURN_IF_ERROR(tensor.Read(first, bytes));
    for (uint64_t at = 0; at < count; at += kBlock) {
      const auto block =
          std::span(bytes).subspan(at * unit_bytes, std::min(kBlock, count - at) * unit_bytes);
      if (!HoldsNumbers(tensor.dtype(), block) || found++ % every != 0) continue;
      blocks.push_back(first + at);
      if (blocks.size() < 2 * kMostBlocks) continue;
      for (size_t i = 0; i < kMostBlocks; ++i) blocks[i] = blocks[2 * i];
      blocks.resize(kMostBlocks);
      every *= 2;
    }
  }
  return blocks;
}

// What is seen of a tensor.
struct Glance {
  bool zero = false;  // all of it, -0 too
  bool sparse = false;
  io::Hash128 bytes;
};

Result<Glance> LookAt(TensorSource& tensor, uint64_t block, uint64_t step) {
  uint64_t seen = 0, numbers = 0;
  io::TileHasher hasher;
  std::vector<std::byte> bytes;
  for (uint64_t first = 0; first < tensor.units(); first += step) {
    const uint64_t count = std::min(block, tensor.units() - first);
    TDUMP_ASSIGN_OR_RETURN(const std::vector<double> here, NumbersAt(tensor, first, count, &bytes));
    hasher.Update(bytes);
    seen += here.empty() ? count : here.size();
    numbers += here.empty() ? count : CountNumbers(here);
  }
  return Glance{numbers == 0, kDense * numbers < seen, hasher.Finish()};
}

// Two gradients of few rows may have no number where the sample looks.
Result<Glance> GlanceAt(TensorSource& tensor) {
  const uint64_t step = StepOf(tensor.units(), kWindow);
  TDUMP_ASSIGN_OR_RETURN(const Glance glance, LookAt(tensor, kBlock, step));
  return glance.sparse && step > kBlock ? LookAt(tensor, kWindow, kWindow) : Result<Glance>(glance);
}

}  // namespace

Result<std::span<const uint64_t>> NumberBlocks::Of(TensorSource& tensor) {
  if (!first_units_) {
    TDUMP_ASSIGN_OR_RETURN(first_units_, FindNumbers(tensor));
  }
  return std::span<const uint64_t>(*first_units_);
}

namespace {

Result<double> Sampled(TensorSource& a, TensorSource& b, uint64_t units, NumberBlocks* of_a,
                       NumberBlocks* of_b) {
  if (a.shape() != b.shape()) return InvalidArgument("tensors of different shapes");
  const uint64_t step = StepOf(a.units(), units);
  ErrorSums sums;
  for (uint64_t first = 0; first < a.units(); first += step)
    TDUMP_RETURN_IF_ERROR(sums.AddBlock(a, b, first));
  if (step == kBlock || !sums.is_sparse()) return sums.Relative();
  TDUMP_ASSIGN_OR_RETURN(const auto blocks_b, of_b->Of(b));
  TDUMP_RETURN_IF_ERROR(sums.AddBlocks(a, b, blocks_b));
  // Of what agrees with b as far as that goes, a may hold more.
  if (!(sums.Relative() <= kAgree)) return sums.Relative();
  TDUMP_ASSIGN_OR_RETURN(const auto blocks_a, of_a->Of(a));
  TDUMP_RETURN_IF_ERROR(sums.AddBlocks(a, b, blocks_a));
  return sums.Relative();
}

}  // namespace

Result<double> SampledError(TensorSource& a, TensorSource& b, NumberBlocks* of_a,
                            NumberBlocks* of_b) {
  return Sampled(a, b, kWindow, of_a, of_b);
}

Result<double> SampledError(TensorSource& a, TensorSource& b, uint64_t units) {
  NumberBlocks of_a, of_b;
  return Sampled(a, b, units, &of_a, &of_b);
}

Result<bool> MayBeCopies(const UnshardPlan& plan, const OpenShard& open) {
  if (plan.summands.size() < 2) return false;
  std::vector<Glance> glances;
  for (const size_t shard : plan.shards) {
    TDUMP_ASSIGN_OR_RETURN(const Source source, open(shard));
    TDUMP_ASSIGN_OR_RETURN(Glance glance, GlanceAt(*source));
    glances.push_back(glance);
  }
  size_t with_numbers = 0;
  std::set<std::vector<io::Hash128>> different;
  for (const std::vector<Box>& boxes : plan.summands) {
    const bool zero = std::all_of(boxes.begin(), boxes.end(),
                                  [&](const Box& box) { return glances[box.source].zero; });
    if (zero) continue;
    ++with_numbers;
    std::vector<io::Hash128> bytes;
    for (const Box& box : boxes) bytes.push_back(glances[box.source].bytes);
    different.insert(std::move(bytes));
  }
  return with_numbers == 1 || different.size() < with_numbers;
}

}  // namespace tdump::compare
