// DequantisedView: a StepView in which tensors that are integers or float8 numbers with recorded
// scales (compare/find_scales.h) appear as the float32 numbers they stand for, so that they can be
// compared with anything.
//
// The scales themselves are taken out of the view: they are part of what is compared. What a tensor
// was recorded as stands in its record's `subclass`, see RecordedDType.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "compare/find_scales.h"
#include "compare/forwarding_view.h"

namespace tdump::compare {

// The dtype that was captured: of the integers, where a DequantisedView made float32 of them.
DType RecordedDType(const io::Record& record);
// "dequantised from float8_e4m3fn, per tensor"; "" where it was not.
std::string DequantisedText(const io::Record& record);

// Thread-safe after it was made. Owns the view it wraps. Memory: the scales.
class DequantisedView : public WrappedView {
 public:
  // Error: the view's.
  static Result<std::unique_ptr<StepView>> Wrap(std::unique_ptr<StepView> view);

  Status ForEachTensor(const VisitTensor& visit) const override;
  Result<io::Record> Get(uint64_t id) const override;
  const io::Record* Known(uint64_t id) const override {
    return Find(id) == nullptr ? WrappedView::Known(id) : nullptr;
  }
  Result<ReadBytes> Open(const io::Record& record) const override;
  bool dequantises() const override { return !quantised_.tensors.empty(); }
  void ShowStored(const std::function<bool(const io::Record& stored)>& picks) override;

 private:
  DequantisedView(std::unique_ptr<StepView> view, QuantisedTensors quantised)
      : WrappedView(std::move(view)),
        quantised_(std::move(quantised)),
        hidden_(quantised_.used()) {}
  const Quantised* Find(uint64_t id) const;  // nullptr: it is as it was captured

  QuantisedTensors quantised_;
  std::set<uint64_t> hidden_;  // ids
};

}  // namespace tdump::compare
