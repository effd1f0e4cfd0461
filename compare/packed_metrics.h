// PackedMetrics: the Metrics of a pair, in about 200 bytes instead of 900.
#pragma once

#include <string>
#include <string_view>

#include "compare/metrics.h"
#include "compare/packed.h"

namespace tdump::compare {

template <>
struct Packing<Metrics> {
  static std::string Pack(const Metrics& metrics);
  static Metrics Unpack(std::string_view bytes);
};
using PackedMetrics = Packed<Metrics>;

}  // namespace tdump::compare
