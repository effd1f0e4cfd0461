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

#include "compare/compute.h"
#include "compare/find_scales.h"
#include "compare/forwarding_view.h"

namespace tdump::compare {

// The dtype that was captured: of the integers, where a DequantisedView made float32 of them.
DType RecordedDType(const io::Record& record);
// "dequantised from float8_e4m3fn, per tensor"; "" where it was not.
std::string DequantisedText(const io::Record& record);

// The words of --compute whose rounding is that to integers of at most 8 bits: "int8", "int4"; ""
// where the record was not dequantised from some.
std::string_view IntegerPrecision(const io::Record& record);
// What numbers are rounded to: the dtype that was captured, or float32 where that is of integers.
DType NumberDType(const io::Record& record);
// How far rounding to the nearest of those integers takes a pair apart: half a step of the largest
// scale, of each side; 0 where both were recorded alike.
double HalfStep(const io::Record& a, const io::Record& b);

// As of dtypes (compare/compute.h), of what two records with numbers were recorded as.
std::string_view PrecisionFor(const io::Record& a, const io::Record& b);
bool Explains(const Precision& precision, const io::Record& a, const io::Record& b);
// `given` (nullptr: the dtypes), and results that are rounded to the coarser side's integers.
Precision ResultPrecision(const Precision* given, const io::Record& a, const io::Record& b);

// What is said of a tensor whose scale is not known by its values.
inline constexpr std::string_view kNotDequantised =
    " is not dequantised, as no values of its scale were recorded";

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
  const Quantised* ScalesOf(uint64_t id) const override { return Find(id); }
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
