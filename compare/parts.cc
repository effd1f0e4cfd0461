#include "compare/parts.h"

#include <fmt/format.h>

#include <algorithm>

#include "compare/payload_view.h"
#include "io/value_parts.h"

namespace tdump::compare {
namespace {

bool SameSlice(const io::Record& a, const io::Record& b) {
  return a.slice && b.slice && a.slice->begins == b.slice->begins &&
         a.slice->sizes == b.slice->sizes && a.slice->steps == b.slice->steps;
}

// The sampled elements as a tensor of one dimension.
io::Record SampleAsRecord(const io::Record& record) {
  io::Record flat = record;
  const uint64_t unit = std::max<uint32_t>(1, record.dtype.unit_bytes());
  flat.sizes = {static_cast<int64_t>(record.sample->size() / unit)};
  flat.strides = {1};
  return flat;
}

// NaN and infinities are special whatever else is known.
void JudgeStatistics(const Statistics& a, const Statistics& b, Comparison* comparison) {
  if (a == b) {
    comparison->notes.push_back("statistics agree, values were not kept");
    return;
  }
  Verdict& v = comparison->verdict;
  v.bitwise = Answer::kDiffers;
  if (a.nan != b.nan || a.positive_inf != b.positive_inf || a.negative_inf != b.negative_inf)
    v.special = Answer::kDiffers;
  comparison->notes.push_back(
      fmt::format("statistics differ: mean {:.6g} and {:.6g}, rms {:.6g} "
                  "and {:.6g}, NaN {} and {}",
                  a.mean, b.mean, a.rms(), b.rms(), a.nan, b.nan));
}

}  // namespace

Status JudgeParts(const io::Record& a, const io::Record& b, const Bound& bound,
                  const MeasureRecords& measure, Comparison* comparison) {
  if (SameSlice(a, b)) {
    const io::Record left = io::SliceAsRecord(a), right = io::SliceAsRecord(b);
    TDUMP_ASSIGN_OR_RETURN(const Metrics metrics, measure(left, right, bound));
    JudgeMetrics(metrics, comparison);
    comparison->notes.push_back("of the slice that was kept");
  } else if (a.sample && b.sample && a.sample->size() == b.sample->size()) {
    const io::Record left = SampleAsRecord(a), right = SampleAsRecord(b);
    TDUMP_ASSIGN_OR_RETURN(const Metrics metrics, Measure({&left, FromMemory(*a.sample)},
                                                          {&right, FromMemory(*b.sample)}, bound));
    JudgeMetrics(metrics, comparison);
    comparison->notes.push_back(fmt::format("of a sample of {} elements", left.sizes[0]));
  } else if (a.statistics && b.statistics && a.dtype == b.dtype && StoredOnce(a) == StoredOnce(b)) {
    JudgeStatistics(*a.statistics, *b.statistics, comparison);
  }
  return Status();
}

}  // namespace tdump::compare
