// DequantisedView: a StepView in which tensors that are integers or float8 numbers with recorded
// scales appear as the float32 numbers they stand for, so that they can be compared with anything.
//
// Scales are looked for where captures have them:
//   components   `X.scales`, `X.zero_points`, `X.axis` beside a tensor with argument X (torch's own
//                quantised tensors, collectors/torch/components.h)
//   parameters   `X_scale`, `X_scale_inv`, `X.scale` of the same module beside a float8, float4 or
//                8-bit integer parameter X; all of them multiply
// number = (stored - zero point) * scale. A scale of one element is for the whole tensor; `axis`
// says which dimension has one each; else dimension by dimension a scale is for size / scales
// elements, rounded up (blocks, rows, columns).
//
// The scales themselves are taken out of the view: they are part of what is compared. What a tensor
// was recorded as stands in its record's `subclass`, see RecordedDType.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compare/step_view.h"

namespace tdump::compare {

// The dtype that was captured: of the integers, where a DequantisedView made float32 of them.
DType RecordedDType(const io::Record& record);
// "dequantised from float8_e4m3fn, per tensor"; "" where it was not.
std::string DequantisedText(const io::Record& record);

// Where the scale of each element lies.
class ScaleGrid {
 public:
  // nullopt: scales of this shape cannot belong to a tensor of that one.
  static std::optional<ScaleGrid> Fit(const std::vector<uint64_t>& tensor,
                                      const std::vector<uint64_t>& scales,
                                      std::optional<uint64_t> axis);

  // Index among the scales for `count` elements from `first` on, in row-major order.
  void Indices(uint64_t first, std::span<uint64_t> indices) const;
  // "per tensor", "per channel 0", "in blocks of [128, 128]".
  std::string text() const { return text_; }

 private:
  std::vector<uint64_t> sizes_, block_, step_;  // step: of the scale's index, 0 where it is shared
  std::string text_;
};

// Thread-safe after it was made. Owns the view it wraps. Memory: the scales.
class DequantisedView : public StepView {
 public:
  // Error: the view's.
  static Result<std::unique_ptr<StepView>> Wrap(std::unique_ptr<StepView> view);

  Status ForEachTensor(const VisitTensor& visit) const override;
  Result<io::Record> Get(uint64_t id) const override;
  Result<ReadBytes> Open(const io::Record& record) const override;
  Status ForEachCall(const VisitCall& visit) const override { return view_->ForEachCall(visit); }
  const std::vector<io::Damage>& damage() const override { return view_->damage(); }
  bool is_assembled() const override { return view_->is_assembled(); }
  std::string LayoutOf(uint64_t id) const override { return view_->LayoutOf(id); }
  Status StateOf(uint64_t id) const override { return view_->StateOf(id); }
  int32_t RankAt(uint64_t id, std::span<const uint64_t> position) const override {
    return view_->RankAt(id, position);
  }

 private:
  struct Quantised {
    DType dtype;
    std::vector<double> scales, zero_points;  // zero_points: empty, one, or as many as scales
    ScaleGrid grid;
    std::optional<io::Hash128> hash;  // of integers, scales and zero points
  };

  explicit DequantisedView(std::unique_ptr<StepView> view) : view_(std::move(view)) {}
  Status FindAll();

  std::unique_ptr<StepView> view_;
  std::map<uint64_t, Quantised> quantised_;  // by id
  std::set<uint64_t> taken_;                 // ids of their scales
};

}  // namespace tdump::compare
