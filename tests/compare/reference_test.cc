// Every dtype against every kind of other one, measured as NumPy measures them: reference.txt, made
// by make_reference.py, which a test of its own runs again.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "compare/element.h"
#include "tests/compare/builders.h"

namespace tdump::compare {
namespace {

std::vector<std::byte> FromHex(const std::string& hex) {
  std::vector<std::byte> bytes;
  if (hex == "-") return bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

std::vector<std::string> Split(const std::string& text, char at) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == at)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
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
  static const std::map<std::string, Field> fields = {
      {"elements", count(&Metrics::elements)},
      {"compared", count(&Metrics::compared)},
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
      {"channels", count(&Metrics::channels)},
      {"max_abs", real(&Metrics::max_abs, 0)},
      {"max_rel", real(&Metrics::max_rel, 0)},
      {"max_ulp", real(&Metrics::max_ulp, 0)},
      {"rms_a", real(&Metrics::rms_a, kSum)},
      {"rms_b", real(&Metrics::rms_b, kSum)},
      {"mean_abs", real(&Metrics::mean_abs, kSum)},
      {"mean_rel", real(&Metrics::mean_rel, kSum)},
      {"rmse", real(&Metrics::rmse, kSum)},
      {"rms_in_common", real(&Metrics::rms_in_common, 1e-9)},  // of sums whose terms cancel
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
  return text.empty() ? "-" : text;
}

std::string PositionText(const std::vector<uint64_t>& position) {
  std::string text;
  for (const uint64_t index : position) text += (text.empty() ? "" : ",") + std::to_string(index);
  return text.empty() ? "-" : text;
}

// A value as the report prints it, which must read back as the number: `right` in C's hexadecimal
// form, integers in decimal, real and imaginary part of a complex number.
void CheckValue(const std::string& dtype, const std::string& text, const std::string& right) {
  const NumberFormat format = FormatOf(DTypeOf(dtype));
  if (format.kind == NumberKind::kInteger) {
    EXPECT_EQ(text, !format.is_bool ? right : right == "1" ? "true" : "false");
    return;
  }
  const char* rest = text.c_str();
  for (const std::string& part : Split(right, ',')) {
    char* end = nullptr;
    const double value = std::strtod(rest, &end), expected = Number(part);
    rest = end;
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(value)) << text;
    } else if (!std::isfinite(expected)) {
      EXPECT_EQ(value, expected) << text;
    } else {
      EXPECT_EQ(std::signbit(value), std::signbit(expected)) << text;
      // Of float32, and of what a float32 holds, the shortest text that is nearest to it.
      const bool same = format.bits > 32
                            ? value == expected
                            : static_cast<float>(value) == static_cast<float>(expected);
      EXPECT_TRUE(same) << text << ", not " << right;
    }
  }
}

struct Case {
  std::string dtype_a, dtype_b;
  Tensor a, b;
  Bound bound;
};

void CheckWorst(const Case& c, const std::string& right, const Worst* worst) {
  if (right == "none") {
    EXPECT_EQ(worst, nullptr);
    return;
  }
  ASSERT_NE(worst, nullptr) << right;
  const std::vector<std::string> parts = Split(right, '|');
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(PositionText(worst->position), parts[0]);
  CheckValue(c.dtype_a, worst->a, parts[1]);
  CheckValue(c.dtype_b, worst->b, parts[2]);
}

void CheckOptional(const std::string& right, const std::optional<double>& value) {
  EXPECT_EQ(value.has_value(), right != "none") << right;
  if (!value || right == "none") return;
  const double expected = Number(right);
  if (std::isinf(expected))
    EXPECT_EQ(*value, expected);
  else
    EXPECT_NEAR(*value, expected, kSum * std::abs(expected));
}

void Check(const Case& c, const std::string& name, const std::string& right, const Metrics& m) {
  SCOPED_TRACE(name);
  if (name == "max_abs_text") {
    EXPECT_EQ(m.max_abs_text, right);
  } else if (name == "ulp") {
    EXPECT_EQ(UlpText(m), right);
  } else if (name == "worst") {
    CheckWorst(c, right, m.has_worst ? &m.worst : nullptr);
  } else if (name == "worst_relative") {
    CheckWorst(c, right, m.worst_relative ? &*m.worst_relative : nullptr);
  } else if (name == "cosine" || name == "sqnr_db") {
    CheckOptional(right, name == "cosine" ? m.cosine : m.sqnr_db);
  } else if (name == "mean_error") {  // terms cancel
    EXPECT_NEAR(m.mean_error, Number(right), kSum * m.mean_abs);
  } else if (name == "worst_channel") {
    const std::vector<std::string> parts = Split(right, ':');
    ASSERT_TRUE(m.worst_channel);
    EXPECT_EQ(std::to_string(m.worst_channel->index), parts[0]);
    EXPECT_NEAR(m.worst_channel->mean_error, Number(parts[1]), 1e-9 * std::abs(Number(parts[1])));
  } else {
    const Field& field = Fields().at(name);
    const double value = field.value(m), expected = Number(right);
    if (field.tolerance == 0)
      EXPECT_EQ(value, expected);
    else
      EXPECT_NEAR(value, expected, field.tolerance * std::abs(expected));
  }
}

Tensor Filled(const std::string& dtype, const std::vector<int64_t>& sizes,
              const std::vector<std::byte>& period) {
  size_t bytes = DTypeOf(dtype).unit_bytes();
  for (const int64_t size : sizes) bytes *= static_cast<size_t>(size);
  std::vector<std::byte> payload(bytes);
  for (size_t i = 0; i < bytes; ++i) payload[i] = period[i % period.size()];
  return MakeTensorBytes(dtype, sizes, std::move(payload));
}

void Put(size_t element, const std::string& hex, Tensor* tensor) {
  const std::vector<std::byte> bytes = FromHex(hex);
  std::memcpy(tensor->payload.data() + element * bytes.size(), bytes.data(), bytes.size());
}

// The fields are left in `words`.
Case Read(std::istringstream* words, std::string* first_field) {
  Case c;
  std::string sizes, a, b, relative, scale;
  *words >> c.dtype_a >> c.dtype_b >> sizes >> a >> b >> relative >> scale;
  std::vector<int64_t> shape;
  if (sizes != "-") {
    for (const std::string& size : Split(sizes, 'x')) shape.push_back(std::stoll(size));
  }
  c.a = Filled(c.dtype_a, shape, FromHex(a));
  c.b = Filled(c.dtype_b, shape, FromHex(b));
  c.bound = {.relative = Number(relative), .scale = Number(scale)};
  while (*words >> *first_field && first_field->starts_with("put=")) {
    const std::vector<std::string> put = Split(first_field->substr(4), ':');
    Put(std::stoull(put[0]), put[1], &c.a);
    Put(std::stoull(put[0]), put[2], &c.b);
  }
  return c;
}

Operand WithReaders(const Tensor& tensor) {
  Operand operand = tensor.operand();
  operand.open = [&tensor]() -> Result<ReadBytes> { return FromMemory(tensor.payload); };
  return operand;
}

TEST(Reference, EveryDtypeIsMeasuredAsNumpyMeasuresIt) {
  std::ifstream file(TDUMP_REFERENCE);
  std::string line;
  size_t cases = 0;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string field;
    const Case c = Read(&words, &field);
    SCOPED_TRACE(c.dtype_a + ", " + c.dtype_b + ", line " + std::to_string(++cases));
    const Result<Metrics> alone = Measure(c.a.operand(), c.b.operand(), c.bound);
    ASSERT_TRUE(alone.ok()) << alone.status().message();
    const Result<Metrics> shared = Measure(WithReaders(c.a), WithReaders(c.b), c.bound, 3);
    ASSERT_TRUE(shared.ok()) << shared.status().message();
    size_t fields = 0;
    do {
      const size_t equals = field.find('=');
      Check(c, field.substr(0, equals), field.substr(equals + 1), *alone);
      Check(c, field.substr(0, equals), field.substr(equals + 1), *shared);
      ++fields;
    } while (words >> field);
    EXPECT_GE(fields, 10u);
  }
  EXPECT_EQ(cases, 229u);
}

}  // namespace
}  // namespace tdump::compare
