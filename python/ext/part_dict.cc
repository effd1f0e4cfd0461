#include "python/ext/part_dict.h"

#include <algorithm>
#include <string_view>

#include "python/ext/errors.h"

namespace nb = nanobind;

namespace tdump::python {
namespace {

// Exactly, whatever its size: high * 2^64 + low.
nb::object WholeNumber(__int128 value) {
  const nb::int_ high(static_cast<int64_t>(value >> 64));
  const nb::int_ low(static_cast<uint64_t>(value));
  return nb::object(high << nb::int_(64)) | low;
}

nb::object Real(double value) { return nb::float_(value); }

void AddRange(const Statistics& s, nb::dict* out) {
  nb::dict& d = *out;
  const bool exact = s.kind == StatisticsKind::kInteger;
  d["min"] = exact ? WholeNumber(s.exact_min) : Real(s.min);
  d["max"] = exact ? WholeNumber(s.exact_max) : Real(s.max);
  d["sum"] = exact ? WholeNumber(s.exact_sum) : nb::none();
  d["mean"] = s.mean;
  d["mean_abs"] = s.mean_abs;
  d["l1"] = s.l1;
  d["l2"] = s.l2;
  d["absmax"] = exact ? WholeNumber(std::max(s.exact_max, -s.exact_min)) : Real(s.absmax());
  d["rms"] = s.rms();
}

}  // namespace

nb::object StatisticsOrNone(const io::Record& record) {
  if (!record.statistics) return nb::none();
  const Statistics& s = *record.statistics;
  nb::dict d;
  const std::string_view kind = ToString(s.kind);
  d["kind"] = nb::str(kind.data(), kind.size());
  d["count"] = s.count;
  d["finite"] = s.finite;
  d["nan"] = s.nan;
  d["positive_inf"] = s.positive_inf;
  d["negative_inf"] = s.negative_inf;
  d["zeros"] = s.zeros;
  d["negative_zeros"] = s.negative_zeros;
  for (const char* key :
       {"min", "max", "sum", "mean", "std", "mean_abs", "l1", "l2", "absmax", "rms"})
    d[key] = nb::none();
  if (s.has_range()) AddRange(s, &d);
  if (s.has_std()) d["std"] = s.std;
  nb::list histogram;
  for (const uint64_t count : s.histogram) histogram.append(count);
  d["histogram"] = nb::tuple(histogram);
  return d;
}

nb::object SampleOrNone(const io::Record& record) {
  if (!record.sample) return nb::none();
  return nb::bytes(reinterpret_cast<const char*>(record.sample->data()), record.sample->size());
}

nb::object SliceOrNone(const io::Record& record) {
  if (!record.slice) return nb::none();
  nb::list list;
  for (size_t i = 0; i < record.slice->sizes.size(); ++i) {
    list.append(
        nb::make_tuple(record.slice->begins[i], record.slice->sizes[i], record.slice->steps[i]));
  }
  return nb::tuple(list);
}

}  // namespace tdump::python
