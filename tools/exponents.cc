#include "tools/exponents.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "core/text.h"
#include "io/value_parts.h"
#include "tools/value_stream.h"

namespace tdump::tools {
namespace {

constexpr size_t kBarWidth = 40;
constexpr int kBinExponents = 8, kLeastExponent = -127;  // of the bins of statistics

// A line for each of the rows: what, how many, and a bar.
std::string Bars(const std::vector<std::pair<std::string, uint64_t>>& rows,
                 const std::string& indent) {
  uint64_t most = 1;
  size_t width = 6;
  for (const auto& [label, count] : rows) {
    most = std::max(most, count);
    width = std::max(width, label.size());
  }
  std::string text;
  for (const auto& [label, count] : rows) {
    const double share = static_cast<double>(count) / static_cast<double>(most);
    const auto bar = static_cast<size_t>(std::ceil(kBarWidth * share));
    text += fmt::format("{}2^{:<{}}{:>16}  {}\n", indent, label, width, CountText(count),
                        std::string(bar, '#'));
  }
  return text;
}

// "-7..0": the exponents of a bin. The first and the last one have all beyond them too: "..-120",
// "121..".
std::string BinText(int bin) {
  const int first = kLeastExponent + kBinExponents * bin;
  return fmt::format("{}..{}", bin == 0 ? "" : std::to_string(first),
                     bin == kHistogramBins - 1 ? "" : std::to_string(first + kBinExponents - 1));
}

uint64_t InfiniteOf(const Statistics& statistics) {
  return statistics.positive_inf + statistics.negative_inf;
}

// From the first that is not empty to the last.
std::vector<std::pair<std::string, uint64_t>> BinsOf(const Statistics& statistics) {
  std::vector<std::pair<std::string, uint64_t>> bins;
  size_t last = 0;
  for (size_t bin = 0; bin < statistics.histogram.size(); ++bin) {
    const uint64_t count = statistics.histogram[bin];
    if (bins.empty() && count == 0) continue;
    bins.emplace_back(BinText(static_cast<int>(bin)), count);
    if (count != 0) last = bins.size();
  }
  bins.resize(last);
  return bins;
}

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
  std::vector<std::pair<std::string, uint64_t>> rows;
  const int last = exponents.counts.rbegin()->first;
  for (int exponent = exponents.counts.begin()->first; exponent <= last; ++exponent) {
    const auto found = exponents.counts.find(exponent);
    rows.emplace_back(std::to_string(exponent),
                      found == exponents.counts.end() ? 0 : found->second);
  }
  return text + Bars(rows, indent);
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

std::string BinsText(const Statistics& statistics, const std::string& indent) {
  return fmt::format(
             "{}{} elements: {} zero, {} NaN, {} Inf; bins of eight exponents, from statistics\n",
             indent, CountText(statistics.count), CountText(statistics.zeros),
             CountText(statistics.nan), CountText(InfiniteOf(statistics))) +
         Bars(BinsOf(statistics), indent);
}

nlohmann::ordered_json BinsJson(const Statistics& statistics) {
  nlohmann::ordered_json bins = nlohmann::ordered_json::object();
  for (const auto& [label, count] : BinsOf(statistics)) bins[label] = count;
  return {{"elements", statistics.count},
          {"zeros", statistics.zeros},
          {"nan", statistics.nan},
          {"inf", InfiniteOf(statistics)},
          {"bins", std::move(bins)}};
}

}  // namespace tdump::tools
