#include "filters/print_config.h"

#include "filters/schema.h"
#include "filters/settings.h"

namespace tdump::filters {
namespace {

// The list under `key`, which stands `depth` levels in.
std::string PrintRules(std::string_view key, const std::vector<Rule>& rules, int depth) {
  const std::string indent(static_cast<size_t>(2 * depth), ' ');
  std::string text = indent + std::string(key) + ":";
  if (rules.empty()) return text + " []\n";
  text += "\n";
  for (const Rule& rule : rules) text += indent + "  - " + PrintRule(rule) + "\n";
  return text;
}

std::string PrintFilters(const Config& config) {
  if (config.filters.empty()) return "filters: {}\n";
  std::string text = "filters:\n";
  for (const auto& [name, rules] : config.filters) text += PrintRules(YamlScalar(name), rules, 1);
  return text;
}

std::string PrintCapture(const Config& config) {
  if (config.capture.size() == 1 && config.capture[0].name.empty())
    return PrintRules("capture", config.capture[0].rules, 0);
  if (config.capture.empty()) return "capture: {}\n";
  std::string text = "capture:\n";
  for (const FilterSet& set : config.capture)
    text += PrintRules(YamlScalar(set.name), set.rules, 1);
  return text;
}

}  // namespace

std::string PrintConfig(const Config& config) {
  std::string text = "version: 1\n";
  std::string_view section;
  for (const KeySpec<Config>& key : ConfigKeys()) {
    if (key.path == "filters") text += PrintFilters(config);
    if (key.path == "capture") text += PrintCapture(config);
    if (key.print == nullptr) continue;
    const size_t dot = key.path.find('.');
    if (dot == std::string_view::npos) {
      text += std::string(key.path) + ": " + key.print(config) + "\n";
      continue;
    }
    if (key.path.substr(0, dot) != section) {
      section = key.path.substr(0, dot);
      text += std::string(section) + ":\n";
    }
    text += "  " + std::string(key.path.substr(dot + 1)) + ": " + key.print(config) + "\n";
  }
  return text;
}

std::string PrintSpec(const Spec& spec) {
  const std::string text = spec.ToString();
  return text.find(',') == std::string::npos ? text : "'" + text + "'";
}

std::string PrintTexts(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) out += (out.empty() ? "" : ", ") + YamlScalar(text);
  return "[" + out + "]";
}

}  // namespace tdump::filters
