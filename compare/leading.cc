#include "compare/leading.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compare/rearrange.h"
#include "compare/tensor_source.h"
#include "compare/text.h"

namespace tdump::compare {
namespace {

// A record of the part, and its bytes.
struct Part {
  io::Record record;
  ReadBytes read;
};

Result<Part> Leading(const StepView& view, const io::Record& record,
                     const std::vector<int64_t>& sizes) {
  TDUMP_ASSIGN_OR_RETURN(ReadBytes bytes, view.Open(record));
  TDUMP_ASSIGN_OR_RETURN(
      Source cropped, Crop(SourceOf(record, std::move(bytes)), Shape(sizes.begin(), sizes.end())));
  Part part;
  part.record.key = record.key;
  part.record.dtype = record.dtype;
  part.record.sizes = sizes;
  part.record.strides = ContiguousStrides(sizes);
  part.read = BytesOf(std::move(cropped));
  return part;
}

}  // namespace

std::optional<std::vector<int64_t>> LeadingSizes(const io::Record& a, const io::Record& b) {
  if (a.sizes.size() != b.sizes.size() || a.sizes.empty()) return std::nullopt;
  if (a.dtype.elements_per_unit != b.dtype.elements_per_unit) return std::nullopt;
  std::vector<int64_t> sizes(a.sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    sizes[i] = std::min(a.sizes[i], b.sizes[i]);
    if (sizes[i] <= 0) return std::nullopt;
  }
  return sizes;
}

Result<Metrics> MeasureLeading(const StepView& view_a, const io::Record& a, const StepView& view_b,
                               const io::Record& b, const Bound& bound) {
  const auto sizes = LeadingSizes(a, b);
  if (!sizes) return InvalidArgument("nothing in common");
  TDUMP_ASSIGN_OR_RETURN(Part left, Leading(view_a, a, *sizes));
  TDUMP_ASSIGN_OR_RETURN(Part right, Leading(view_b, b, *sizes));
  return Measure({&left.record, std::move(left.read)}, {&right.record, std::move(right.read)},
                 bound);
}

std::string LeadingText(const io::Record& a, const io::Record& b) {
  const auto sizes = LeadingSizes(a, b);
  if (!sizes) return "";
  size_t differing = 0;
  for (size_t i = 0; i < sizes->size(); ++i) differing += a.sizes[i] != b.sizes[i];
  if (differing == 1 && a.sizes[0] != b.sizes[0])
    return "leading " + Plural(static_cast<uint64_t>(sizes->front()), "row");
  return fmt::format("leading [{}]", fmt::join(*sizes, ", "));
}

}  // namespace tdump::compare
