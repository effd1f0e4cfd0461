#include "compare/name_templates.h"

#include <algorithm>

#include "compare/names.h"
#include "core/parse_number.h"

namespace tdump::compare {
namespace {

constexpr size_t kMostDigits = 9;  // of the number of a layer

std::string TextOf(const std::string& path, std::vector<uint64_t>* numbers) {
  std::string text;
  for (const std::string_view part : ComponentsOf(path)) {
    if (IsDigits(part) && part.size() <= kMostDigits) {
      text += '#';
      numbers->push_back(*ParseNumber<uint64_t>(part));
    } else {
      text += part;
    }
    text += '.';
  }
  text.pop_back();
  return text;
}

void Note(const NamedTensor& tensor, ModuleTemplate* module) {
  if (tensor.key.role == Role::kParam) module->params.try_emplace(tensor.key.arg, tensor.sizes);
  const bool first = tensor.key.arg.empty() || tensor.key.arg == "0";
  if (tensor.key.role == Role::kOutput && first && module->output.empty())
    module->output = tensor.sizes;
  if (tensor.key.role == Role::kInput && first && module->input.empty())
    module->input = tensor.sizes;
}

}  // namespace

bool IsShare(uint64_t x, uint64_t y) { return x != 0 && y % x == 0 && y / x <= 1024; }

bool AreShares(const Shape& x, const Shape& y) {
  if (x.size() != y.size()) return false;
  size_t differing = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] == y[i]) continue;
    if (!IsShare(x[i], y[i])) return false;
    ++differing;
  }
  return differing <= 1;
}

size_t ModuleTemplate::holes() const {
  const std::vector<std::string_view> parts = ComponentsOf(text);
  return static_cast<size_t>(std::count(parts.begin(), parts.end(), "#"));
}

std::vector<ModuleTemplate> TemplatesOf(std::span<const NamedTensor> tensors) {
  std::vector<ModuleTemplate> templates;
  std::map<std::string, size_t> known;
  for (const NamedTensor& tensor : tensors) {
    if (!tensor.key.op.empty() || tensor.kind != OperatorKind::kModule) continue;
    std::vector<uint64_t> numbers;
    const std::string text = TextOf(tensor.key.path, &numbers);
    const auto [place, added] = known.try_emplace(text, templates.size());
    if (added) {
      ModuleTemplate module;
      module.text = text;
      module.cls = tensor.cls;
      module.order = templates.size();
      templates.push_back(std::move(module));
    }
    ModuleTemplate& module = templates[place->second];
    if (!numbers.empty()) module.numbers.insert(numbers[0]);
    Note(tensor, &module);
  }
  return templates;
}

std::string PatternOf(const std::string& text) {
  std::string pattern;
  for (const std::string_view part : ComponentsOf(text)) {
    if (part.data() != text.data()) pattern += "\\.";
    if (part == "#") {
      pattern += "(\\d+)";
      continue;
    }
    for (const char c : part) {
      if (std::string_view("\\^$|?*+()[]{}").find(c) != std::string_view::npos) pattern += '\\';
      pattern += c;
    }
  }
  return pattern;
}

std::string ReplacementOf(const std::string& text) {
  std::string replacement;
  size_t hole = 0;
  for (const std::string_view part : ComponentsOf(text)) {
    if (part == "#") {
      replacement += "$" + std::to_string(++hole);
    } else {
      for (const char c : part) replacement += c == '$' ? std::string("$$") : std::string(1, c);
    }
    replacement += '.';
  }
  replacement.pop_back();
  return replacement;
}

std::string KindOfClass(std::string_view cls) {
  const std::string name = LowerCase(LastComponent(cls));
  static constexpr std::pair<std::string_view, std::string_view> kKinds[] = {
      {"layernormlinear", "norm+linear"},
      {"layernormcolumnparallel", "norm+linear"},
      {"layernormmlp", "norm+mlp"},
      {"lmhead", "linear"},
      {"linear", "linear"},
      {"conv1d", "linear"},
      {"norm", "norm"},
      {"embedding", "embedding"},
      {"attention", "attention"},
      {"attn", "attention"},
      {"mlp", "mlp"},
      {"dropout", "dropout"},
      {"gelu", "activation"},
      {"silu", "activation"},
      {"act", "activation"}};
  for (const auto& [word, kind] : kKinds) {
    if (name.find(word) != std::string::npos) return std::string(kind);
  }
  return name;
}

}  // namespace tdump::compare
