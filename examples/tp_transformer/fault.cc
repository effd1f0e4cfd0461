#include "fault.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

namespace tp {
namespace {

std::optional<int> ParseNumber(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, substituted}));
    }
  }
  return row.back();
}

std::string NearestNames(const std::string& name, const torch::nn::Module& model) {
  std::vector<std::string> names = model.named_parameters().keys();
  const size_t count = std::min<size_t>(3, names.size());
  std::ranges::stable_sort(names, {},
                           [&](const std::string& other) { return EditDistance(name, other); });
  std::string list;
  for (size_t i = 0; i < count; ++i) list += (i == 0 ? "" : ", ") + names[i];
  return list;
}

}  // namespace

Fault ParseFault(const std::string& spec, const torch::nn::Module& model, int world) {
  const auto fail = [&](const std::string& why) {
    throw std::invalid_argument("--fault '" + spec + "': " + why);
  };
  const size_t first = spec.find(':');
  const size_t last = spec.rfind(':');
  if (first == last) fail("expected RANK:PARAM:BIT, such as 1:layers.1.mlp.down.weight:23");

  const auto rank = ParseNumber(std::string_view(spec).substr(0, first));
  const auto bit = ParseNumber(std::string_view(spec).substr(last + 1));
  const std::string name = spec.substr(first + 1, last - first - 1);
  if (!rank || *rank >= world) fail("the rank is not one of 0.." + std::to_string(world - 1));
  if (!bit || *bit > 31) fail("the bit is not one of 0..31 of a float32");
  if (!model.named_parameters().contains(name)) {
    fail("no parameter '" + name + "'; nearest: " + NearestNames(name, model));
  }
  return {*rank, name, *bit};
}

void FlipBit(const Fault& fault, torch::nn::Module& model) {
  auto parameters = model.named_parameters();
  torch::Tensor& parameter = parameters[fault.parameter];
  TORCH_CHECK(parameter.is_contiguous() && parameter.scalar_type() == torch::kFloat32);
  const std::span values(parameter.data_ptr<float>(), static_cast<size_t>(parameter.numel()));
  const auto flipped = [&](float value) {
    return std::bit_cast<float>(std::bit_cast<uint32_t>(value) ^ (uint32_t{1} << fault.bit));
  };
  auto chosen = std::ranges::find_if(values, [&](float v) { return std::isfinite(flipped(v)); });
  if (chosen == values.end()) chosen = values.begin();
  *chosen = flipped(*chosen);
}

ScaleFault ParseScaleFault(const std::string& spec, int64_t layers, int world) {
  const auto fail = [&](const std::string& why) {
    throw std::invalid_argument("--wrong-scale '" + spec + "': " + why);
  };
  const size_t first = spec.find(':');
  const size_t last = spec.rfind(':');
  if (first == last) fail("expected RANK:LAYER:STEP, such as 1:2:0");

  const auto rank = ParseNumber(std::string_view(spec).substr(0, first));
  const auto layer = ParseNumber(std::string_view(spec).substr(first + 1, last - first - 1));
  const auto step = ParseNumber(std::string_view(spec).substr(last + 1));
  if (!rank || *rank >= world) fail("the rank is not one of 0.." + std::to_string(world - 1));
  if (!layer || *layer >= layers) fail("the layer is not one of 0.." + std::to_string(layers - 1));
  if (!step) fail("the step is not a whole number");
  return {*rank, *layer, *step};
}

}  // namespace tp
