// Weights rounded as quantisers round them, worked out from the table of a format's numbers alone,
// and diffs of a float run against one that holds them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "compare/compute.h"
#include "compare/element.h"
#include "compare/encode.h"
#include "tests/compare/diff_runs.h"

namespace tdump::compare {

using Numbers = std::vector<double>;

enum class How { kNearest, kStochastic, kCut };

// The numbers of a format of at most 8 bits, ascending.
class CodeTable {
 public:
  explicit CodeTable(const std::string& dtype) : format_(FormatOf(DTypeOf(dtype))) {
    if (format_.kind == NumberKind::kInteger) {
      for (int i = -127; i <= 127; ++i) entries_.push_back({i, static_cast<uint8_t>(i)});
      return;
    }
    const std::array<double, 256> numbers = SmallTable(format_);
    for (int code = 0; code < 256; ++code) {
      const double number = numbers[static_cast<size_t>(code)];
      if (std::isfinite(number) && !(number == 0 && code != 0))
        entries_.push_back({number, static_cast<uint8_t>(code)});
    }
    std::sort(entries_.begin(), entries_.end());
  }

  double largest() const { return entries_.back().first; }
  // What is larger than all becomes the largest.
  uint8_t Round(double number, How how, std::mt19937* random) const {
    const auto above =
        std::lower_bound(entries_.begin(), entries_.end(), std::pair(number, uint8_t{0}));
    if (above == entries_.end()) return entries_.back().second;
    if (above->first == number || above == entries_.begin()) return above->second;
    const auto below = above - 1;
    const double share = (number - below->first) / (above->first - below->first);
    if (how == How::kCut) return (number > 0 ? below : above)->second;
    if (how == How::kStochastic)
      return (std::uniform_real_distribution<>()(*random) < share ? above : below)->second;
    if (share == 0.5) return (below->second % 2 == 0 ? below : above)->second;
    return (share < 0.5 ? below : above)->second;
  }

 private:
  NumberFormat format_;
  std::vector<std::pair<double, uint8_t>> entries_;
};

inline Tensor FloatTensor(const std::string& dtype, std::vector<int64_t> sizes,
                          const Numbers& numbers) {
  const DType type = DTypeOf(dtype);
  std::vector<std::byte> bytes(numbers.size() * type.unit_bytes());
  EncodeFloat(type, FormatOf(type), numbers, bytes);
  return MakeTensorBytes(dtype, std::move(sizes), std::move(bytes));
}

// Rounded to nearest, as numbers again.
inline Numbers RoundedTo(const std::string& dtype, const Numbers& numbers) {
  const Tensor tensor = FloatTensor(dtype, {static_cast<int64_t>(numbers.size())}, numbers);
  Numbers rounded(numbers.size());
  DecodeFloat(tensor.record.dtype, FormatOf(tensor.record.dtype), tensor.payload, rounded);
  return rounded;
}

// A matrix, its numbers those of `of`.
struct Weight {
  int64_t rows = 1, columns = 1;
  Numbers of;

  std::vector<int64_t> sizes() const { return {rows, columns}; }
};

enum class ScaleKind { kAmax, kNextPowerOfTwo, kPowerOfTwoBelow, kBFloat16 };

struct Quantiser {
  std::string dtype;
  int64_t block_rows = 0, block_columns = 0;  // 0: all of them
  ScaleKind scale = ScaleKind::kAmax;
  How how = How::kNearest;
  bool in_bfloat16 = false;  // the quotient
};

struct RoundedWeight {
  Tensor stored;
  int64_t scale_rows = 1, scale_columns = 1;
  std::vector<float> scales;

  Tensor Scales() const {
    return MakeTensor<float>("float32", {scale_rows, scale_columns}, scales);
  }
};

inline float ScaleOf(double amax, double largest, ScaleKind kind) {
  if (amax == 0) return 1;
  const double scale = amax / largest;
  switch (kind) {
    case ScaleKind::kAmax:
      return static_cast<float>(scale);
    case ScaleKind::kNextPowerOfTwo:
      return static_cast<float>(std::exp2(std::ceil(std::log2(scale))));
    case ScaleKind::kPowerOfTwoBelow:  // of microscaling: the largest numbers are cut off
      return static_cast<float>(
          std::exp2(std::floor(std::log2(amax)) - std::floor(std::log2(largest))));
    case ScaleKind::kBFloat16:
      return static_cast<float>(RoundedTo("bfloat16", {scale}).front());
  }
  return 1;
}

inline RoundedWeight Quantise(const Weight& x, const Quantiser& how, std::mt19937* random) {
  const CodeTable table(how.dtype);
  const int64_t height = how.block_rows == 0 ? x.rows : how.block_rows;
  const int64_t width = how.block_columns == 0 ? x.columns : how.block_columns;
  RoundedWeight made;
  made.scale_rows = (x.rows + height - 1) / height;
  made.scale_columns = (x.columns + width - 1) / width;
  const auto block = [&](int64_t row, int64_t column) {
    return static_cast<size_t>(row / height * made.scale_columns + column / width);
  };
  Numbers amax(static_cast<size_t>(made.scale_rows * made.scale_columns), 0.0);
  const auto for_each = [&](const std::function<void(size_t, size_t)>& visit) {
    for (int64_t i = 0; i < x.rows * x.columns; ++i)
      visit(static_cast<size_t>(i), block(i / x.columns, i % x.columns));
  };
  for_each([&](size_t i, size_t at) { amax[at] = std::max(amax[at], std::abs(x.of[i])); });
  for (const double most : amax) made.scales.push_back(ScaleOf(most, table.largest(), how.scale));
  std::vector<uint8_t> codes(x.of.size());
  for_each([&](size_t i, size_t at) {
    double quotient = static_cast<float>(x.of[i]) / made.scales[at];
    if (how.in_bfloat16) quotient = RoundedTo("bfloat16", {quotient}).front();
    codes[i] = table.Round(quotient, how.how, random);
  });
  made.stored = MakeTensor<uint8_t>(how.dtype, x.sizes(), codes);
  return made;
}

struct Judged {
  Overall overall = Overall::kSame;
  Answer tolerance = Answer::kNotJudged;
  uint64_t outside = 0;            // elements
  std::vector<std::string> gains;  // notes of a factor
};

struct WeightOptions {
  std::string compute;
  uint64_t step = 0;
  Role role = Role::kParam;
};

inline void KeepWeight(PassBuilder* pass, const std::string& name, const Tensor& tensor,
                       Role role = Role::kParam) {
  pass->Param("lin", name, tensor);
  pass->last()->payload = tensor.record.payload;
  pass->last()->key.role = role;
}

// Of a side with scales, and without.
struct StoredWeight {
  StoredWeight(const Tensor& tensor) : stored(tensor) {}
  StoredWeight(const RoundedWeight& weight) : stored(weight.stored), scales({weight.Scales()}) {}
  void Keep(PassBuilder* pass, Role role) const {
    KeepWeight(pass, "weight", stored, role);
    for (const Tensor& tensor : scales) KeepWeight(pass, "weight_scale", tensor, Role::kState);
  }
  Tensor stored;
  std::vector<Tensor> scales;
};

inline Judged JudgeWeight(const StoredWeight& a, const StoredWeight& b, const WeightOptions& how) {
  FakeRun left(1), right(1);
  PassBuilder of_a = left.Pass(0, how.step), of_b = right.Pass(0, how.step);
  a.Keep(&of_a, how.role);
  b.Keep(&of_b, how.role);
  const Tensor value = Vector<float>("float32", {1, 2});
  of_a.Module("lin", value, value);
  of_b.Module("lin", value, value);
  DiffOptions options;
  if (!how.compute.empty()) options.pass.compute = *ParsePrecision(how.compute);
  Judged judged;
  options.on_row = [&](const Row& row) {
    if (row.key.arg != "weight") return;
    judged.tolerance = row.comparison.verdict.tolerance;
    if (row.comparison.evidence == Evidence::kPayload)
      judged.outside = Metrics(row.comparison.metrics).outside();
    for (const std::string& note : row.comparison.notes.Copy())
      if (note.starts_with("B is ")) judged.gains.push_back(note);
  };
  judged.overall = DiffOk(left, right, options).overall;
  return judged;
}

}  // namespace tdump::compare
