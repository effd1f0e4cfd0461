// Histograms of exponents: every one, from values that were kept, or the 32 bins of eight exponents
// each that statistics have (core/statistics.h).
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/statistics.h"
#include "core/status.h"
#include "io/pass_reader.h"

namespace tdump::tools {

struct Exponents {
  // E -> elements with 2^E <= |x| < 2^(E + 1); of complex numbers |z|, of integers their value.
  std::map<int, uint64_t> counts;
  uint64_t zeros = 0, nan = 0, infinite = 0;
  uint64_t elements = 0;
};

// Reads all values, through a window. Of a dtype that is no number `elements` alone is set. Error:
// damaged or unreadable.
Result<Exponents> CountExponents(const io::PassReader& reader, const io::Record& record);

// A line for what is no power of two, then one for each exponent from the least to the largest,
// each begun with `indent`.
std::string ExponentsText(const Exponents& exponents, const std::string& indent);
// {"elements", "zeros", "nan", "inf", "counts": {"-3": 17, ...}}.
nlohmann::ordered_json ExponentsJson(const Exponents& exponents);

// The same of statistics, in bins of eight exponents: of a record whose values were not kept.
std::string BinsText(const Statistics& statistics, const std::string& indent);
// {"elements", "zeros", "nan", "inf", "bins": {"-7..0": 17, ...}}.
nlohmann::ordered_json BinsJson(const Statistics& statistics);

}  // namespace tdump::tools
