// Statistics, samples and slices as Python values.
#pragma once

#include <nanobind/nanobind.h>

#include "io/records.h"

namespace tdump::python {

// None where there is none. Numbers without a meaning (a mean of nothing) are None.
nanobind::object StatisticsOrNone(const io::Record& record);
// The units as bytes.
nanobind::object SampleOrNone(const io::Record& record);
// ((begin, size, step), ...), one a dimension.
nanobind::object SliceOrNone(const io::Record& record);

}  // namespace tdump::python
