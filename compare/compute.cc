#include "compare/compute.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "compare/element.h"
#include "core/text.h"

namespace tdump::compare {
namespace {

constexpr double kBfloat16 = 0x1p-8, kFloat16 = 0x1p-11, kFloat32 = 0x1p-24, kFloat64 = 0x1p-53;

struct Known {
  std::string_view name;  // what a user writes
  std::string_view shown;
  double operands, others;
};
constexpr Known kKnown[] = {
    {"fp64", "float64", kFloat64, kFloat64},        {"fp32", "float32", kFloat32, kFloat32},
    {"tf32", "tf32", kFloat16, kFloat32},  // ten bits of mantissa, as float16
    {"fp16", "float16", kFloat16, kFloat16},        {"bf16", "bfloat16", kBfloat16, kBfloat16},
    {"fp8", "float8_e4m3", 0x1p-4, kBfloat16},      {"fp8_e4m3", "float8_e4m3", 0x1p-4, kBfloat16},
    {"fp8_e5m2", "float8_e5m2", 0x1p-3, kBfloat16}, {"int8", "int8", 0x1p-4, kBfloat16},
    {"fp4", "float4_e2m1", 0x1p-2, kBfloat16},      {"int4", "int4", 0x1p-2, kBfloat16},
};
constexpr std::pair<std::string_view, std::string_view> kAliases[] = {
    {"float64", "fp64"},
    {"double", "fp64"},
    {"float32", "fp32"},
    {"float", "fp32"},
    {"float16", "fp16"},
    {"half", "fp16"},
    {"bfloat16", "bf16"},
    {"float8", "fp8"},
    {"float8_e4m3", "fp8"},
    {"float8_e4m3fn", "fp8"},
    {"float8_e4m3fnuz", "fp8"},
    {"mxfp8", "fp8"},
    {"float8_e5m2", "fp8_e5m2"},
    {"float8_e5m2fnuz", "fp8_e5m2"},
    {"mxfp4", "fp4"},
    {"nvfp4", "fp4"},
    {"float4_e2m1", "fp4"},
    {"float4_e2m1fn_x2", "fp4"},
};

const Known* Find(std::string_view text) {
  for (const auto& [alias, name] : kAliases) {
    if (alias == text) text = name;
  }
  for (const Known& known : kKnown) {
    if (known.name == text) return &known;
  }
  return nullptr;
}

bool IsInexact(const NumberFormat& format) { return format.UnitRoundoff() > 0; }

}  // namespace

Result<Precision> ParsePrecision(std::string_view text) {
  if (const Known* known = Find(text))
    return Precision{std::string(known->shown), known->operands, known->others};
  std::vector<std::string> names;
  for (const Known& known : kKnown) names.emplace_back(known.name);
  std::string message = fmt::format("'{}' is no precision; expected one of {}", Printable(text),
                                    fmt::join(names, ", "));
  return InvalidArgument(std::move(message));
}

std::string_view PrecisionFor(const DType& a, const DType& b) {
  const NumberFormat left = FormatOf(a), right = FormatOf(b);
  if (left.kind != right.kind || !IsInexact(left) || !IsInexact(right)) return "";
  const double coarser = std::max(left.UnitRoundoff(), right.UnitRoundoff());
  std::string_view name;
  // The coarsest first, so that the finest that will do stays; of equal ones the dtype's own.
  for (const std::string_view candidate :
       {"fp4", "fp8_e5m2", "fp8", "bf16", "fp16", "fp32", "fp64"}) {
    if (Find(candidate)->operands >= coarser) name = candidate;
  }
  return name;
}

bool Explains(const Precision& precision, const DType& a, const DType& b) {
  const NumberFormat left = FormatOf(a), right = FormatOf(b);
  if (left.kind != right.kind || !IsInexact(left) || !IsInexact(right)) return false;
  const double allowed = std::max(precision.operands, precision.others);
  return std::max(left.UnitRoundoff(), right.UnitRoundoff()) <= allowed;
}

}  // namespace tdump::compare
