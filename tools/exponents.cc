#include "tools/exponents.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/text.h"
#include "io/value_parts.h"
#include "tools/value_stream.h"

namespace tdump::tools {
namespace {

constexpr size_t kBarWidth = 40;

void Add(const io::Value& value, Exponents* exponents) {
  double magnitude = 0;
  switch (value.kind) {
    case io::ValueKind::kFloat:
      magnitude = std::fabs(value.real);
      break;
    case io::ValueKind::kComplex:
      magnitude = std::hypot(value.real, value.imaginary);
      if (std::isnan(value.real) || std::isnan(value.imaginary)) magnitude = std::nan("");
      break;
    case io::ValueKind::kSigned:
      magnitude = std::fabs(static_cast<double>(value.integer));
      break;
    case io::ValueKind::kUnsigned:
    case io::ValueKind::kBool:
      magnitude = static_cast<double>(value.natural);
      break;
    case io::ValueKind::kBits:
      return;
  }
  if (std::isnan(magnitude))
    ++exponents->nan;
  else if (std::isinf(magnitude))
    ++exponents->infinite;
  else if (magnitude == 0)
    ++exponents->zeros;
  else
    ++exponents->counts[std::ilogb(magnitude)];
}

}  // namespace

Result<Exponents> CountExponents(const io::PassReader& reader, const io::Record& record) {
  Exponents exponents;
  if (!record.payload && record.slice) return CountExponents(reader, io::SliceAsRecord(record));
  if (!record.payload) return exponents;
  ValueStream values(&reader, &record);
  const io::ValueDecoder& decoder = values.decoder();
  while (!values.done()) {
    TDUMP_ASSIGN_OR_RETURN(const auto unit, values.Next());
    for (uint32_t element = 0; element < decoder.elements_per_unit(); ++element) {
      ++exponents.elements;
      Add(decoder.Decode(unit, element), &exponents);
    }
  }
  return exponents;
}

std::string ExponentsText(const Exponents& exponents, const std::string& indent) {
  std::string text = fmt::format("{}{} elements: {} zero, {} NaN, {} Inf\n", indent,
                                 CountText(exponents.elements), CountText(exponents.zeros),
                                 CountText(exponents.nan), CountText(exponents.infinite));
  if (exponents.counts.empty()) return text;
  uint64_t most = 0;
  for (const auto& [exponent, count] : exponents.counts) most = std::max(most, count);
  const int last = exponents.counts.rbegin()->first;
  for (int exponent = exponents.counts.begin()->first; exponent <= last; ++exponent) {
    const auto found = exponents.counts.find(exponent);
    const uint64_t count = found == exponents.counts.end() ? 0 : found->second;
    const double share = static_cast<double>(count) / static_cast<double>(most);
    const auto bar = static_cast<size_t>(std::ceil(kBarWidth * share));
    text += fmt::format("{}2^{:<6}{:>16}  {}\n", indent, exponent, CountText(count),
                        std::string(bar, '#'));
  }
  return text;
}

nlohmann::ordered_json ExponentsJson(const Exponents& exponents) {
  nlohmann::ordered_json counts = nlohmann::ordered_json::object();
  for (const auto& [exponent, count] : exponents.counts) counts[std::to_string(exponent)] = count;
  return {{"elements", exponents.elements},
          {"zeros", exponents.zeros},
          {"nan", exponents.nan},
          {"inf", exponents.infinite},
          {"counts", std::move(counts)}};
}

}  // namespace tdump::tools
