// Every dtype against what NumPy and torch say of the same bytes:
// reference.txt, made by make_reference.py.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "tests/compare/builders.h"

namespace tdump::compare {
namespace {

std::vector<std::byte> FromHex(const std::string& hex) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

constexpr double kSum = 1e-12, kBin = 1.0 / 64;

double Number(const std::string& text) { return std::strtod(text.c_str(), nullptr); }

// What a field of the reference means. Sums are in another order there, quantiles are of bins.
struct Field {
  std::function<double(const Metrics&)> value;
  double tolerance = 0;  // relative
};

const std::map<std::string, Field>& Fields() {
  const auto count = [](uint64_t Metrics::*field) {
    return Field{[field](const Metrics& m) { return static_cast<double>(m.*field); }};
  };
  const auto real = [](double Metrics::*field, double tolerance) {
    return Field{[field](const Metrics& m) { return m.*field; }, tolerance};
  };
  const auto optional = [](std::optional<double> Metrics::*field) {
    return Field{[field](const Metrics& m) { return (m.*field).value_or(NAN); }, kSum};
  };
  static const std::map<std::string, Field> fields = {
      {"bits_equal", count(&Metrics::bits_equal)},
      {"within", count(&Metrics::within)},
      {"nan_a", count(&Metrics::nan_a)},
      {"nan_b", count(&Metrics::nan_b)},
      {"inf_a", count(&Metrics::inf_a)},
      {"inf_b", count(&Metrics::inf_b)},
      {"nan_mismatch", count(&Metrics::nan_mismatch)},
      {"inf_mismatch", count(&Metrics::inf_mismatch)},
      {"sign_mismatch", count(&Metrics::sign_mismatch)},
      {"zero_sign_mismatch", count(&Metrics::zero_sign_mismatch)},
      {"max_abs", real(&Metrics::max_abs, 0)},
      {"max_rel", real(&Metrics::max_rel, 0)},
      {"max_ulp", real(&Metrics::max_ulp, 0)},
      {"rms_a", real(&Metrics::rms_a, kSum)},
      {"rms_b", real(&Metrics::rms_b, kSum)},
      {"mean_abs", real(&Metrics::mean_abs, kSum)},
      {"mean_rel", real(&Metrics::mean_rel, kSum)},
      {"mean_error", real(&Metrics::mean_error, 1e-9)},  // terms cancel
      {"rmse", real(&Metrics::rmse, kSum)},
      {"cosine", optional(&Metrics::cosine)},
      {"sqnr_db", optional(&Metrics::sqnr_db)},
      {"p50", real(&Metrics::p50, kBin)},
      {"p90", real(&Metrics::p90, kBin)},
      {"p99", real(&Metrics::p99, kBin)},
      {"p999", real(&Metrics::p999, kBin)},
  };
  return fields;
}

std::string UlpText(const Metrics& m) {
  std::string text;
  for (size_t bin = 0; bin < m.ulp.size(); ++bin) {
    if (m.ulp[bin] == 0) continue;
    text += (text.empty() ? "" : ",") + std::to_string(bin) + ":" + std::to_string(m.ulp[bin]);
  }
  return text;
}

void Check(const std::string& name, const std::string& right, const Metrics& m) {
  if (name == "max_abs_text") {
    EXPECT_EQ(m.max_abs_text, right);
    return;
  }
  if (name == "ulp") {
    EXPECT_EQ(UlpText(m), right);
    return;
  }
  const Field& field = Fields().at(name);
  const double value = field.value(m), expected = Number(right);
  if (field.tolerance == 0)
    EXPECT_EQ(value, expected) << name;
  else
    EXPECT_NEAR(value, expected, field.tolerance * std::abs(expected)) << name;
}

TEST(Reference, EveryDtypeIsMeasuredAsNumpyMeasuresIt) {
  std::ifstream file(TDUMP_REFERENCE);
  std::string line;
  size_t cases = 0;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string dtype, a, b, relative, scale, field;
    int64_t elements = 0;
    words >> dtype >> elements >> a >> b >> relative >> scale;
    SCOPED_TRACE(dtype + ", line " + std::to_string(++cases));
    const Tensor left = MakeTensorBytes(dtype, {elements}, FromHex(a));
    const Tensor right = MakeTensorBytes(dtype, {elements}, FromHex(b));
    const Result<Metrics> metrics = Measure(left.operand(), right.operand(),
                                            {.relative = Number(relative), .scale = Number(scale)});
    ASSERT_TRUE(metrics.ok()) << metrics.status().message();
    while (words >> field) {
      const size_t equals = field.find('=');
      Check(field.substr(0, equals), field.substr(equals + 1), *metrics);
    }
  }
  EXPECT_EQ(cases, 79u);  // 19 dtypes
}

}  // namespace
}  // namespace tdump::compare
