#include "filters/parse_config.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "core/utf8.h"
#include "filters/parse_map.h"
#include "filters/use.h"

namespace tdump::filters {

YamlPtr WrapKey(std::string key, YamlPtr value) {
  auto map = std::make_shared<YamlNode>();
  map->kind = YamlNode::Kind::kMap;
  map->at = value->at;
  map->entries.push_back({std::move(key), value->at, std::move(value)});
  return map;
}

std::string KeyList(const std::vector<std::string>& known) {
  std::string text;
  for (const std::string& key : known) text += (text.empty() ? "one of " : ", ") + key;
  return text;
}

std::string KeyMeantBy(std::string_view path) {
  static constexpr std::pair<std::string_view, std::string_view> kMeant[] = {
      {"output.directory", "output.dir"}, {"output.path", "output.dir"},
      {"compress", "output.compress"},    {"topology.dp", "topology.size"},
      {"topology.tp", "topology.size"},   {"topology.pp", "topology.size"},
      {"topology.cp", "topology.size"},   {"topology.ep", "topology.size"}};
  for (const auto& [written, meant] : kMeant) {
    if (path == written) return std::string(meant);
  }
  return "";
}

std::string PlaceOf(std::string_view path) {
  for (const KeySpec<Rule>& key : RuleKeys()) {
    if (path == key.path && KeyMeantBy(path).empty()) return ", a key of the rules in 'capture'";
  }
  return "";
}

namespace {

void ReadDocument(std::string_view yaml, Mistakes* mistakes, Config* config) {
  const YamlPtr root = ParseYaml(yaml, mistakes);
  if (root == nullptr) return;
  Reader reader(mistakes);
  if (root->is_map())
    ReadMap<Config>(reader, {"", *root}, ConfigKeys(), config);
  else
    mistakes->Add(root->at, Describe(*root), "keys such as 'steps: 0-9' and 'capture:'");
  if (mistakes->empty()) CheckUses(*config, mistakes);
}

YamlPtr Scalar(std::string_view text) {
  auto node = std::make_shared<YamlNode>();
  node->kind = YamlNode::Kind::kScalar;
  node->text = text;
  return node;
}

// nullptr with a mistake when the value is no text, or no YAML.
YamlPtr ValueOf(const OneSetting& setting, Mistakes* mistakes) {
  if (setting.value.empty()) return std::make_shared<YamlNode>();
  if (setting.yaml) return ParseYaml(setting.value, mistakes);
  if (setting.value.size() > kMaxYamlBytes)
    mistakes->Add({}, setting.key + ": " + std::to_string(setting.value.size()) + " bytes", "less");
  else if (FirstInvalidUtf8(setting.value) != std::string_view::npos)
    mistakes->Add({}, setting.key + ": bytes that are not UTF-8", "UTF-8 text");
  else
    return Scalar(setting.value);
  return nullptr;
}

// Rules from outside the file have no place in it.
void ForgetPositions(std::vector<Rule>* rules) {
  for (Rule& rule : *rules) rule.line = rule.column = 0;
}

void ReadOne(const OneSetting& setting, Mistakes* mistakes, Config* config) {
  YamlPtr tree = ValueOf(setting, mistakes);
  if (tree == nullptr) return;
  std::string_view path = setting.key;
  while (true) {
    const size_t dot = path.rfind('.');
    tree = WrapKey(std::string(path.substr(dot + 1)), std::move(tree));
    if (dot == std::string_view::npos) break;
    path = path.substr(0, dot);
  }
  Reader reader(mistakes);
  ReadMap<Config>(reader, {"", *tree}, ConfigKeys(), config);
  const std::string_view section = std::string_view(setting.key).substr(0, setting.key.find('.'));
  if (section == "ranks") config->ranks_line = config->ranks_column = 0;
  for (FilterSet& set : config->capture) {
    if (section == "capture") ForgetPositions(&set.rules);
  }
  for (auto& [name, rules] : config->filters) {
    if (section == "filters") ForgetPositions(&rules);
  }
}

}  // namespace

Result<Config> ParseConfig(std::string_view yaml, std::string_view source_name) {
  Mistakes mistakes{std::string(source_name)};
  Config config = DefaultConfig();
  try {
    ReadDocument(yaml, &mistakes, &config);
  } catch (const std::exception& error) {
    mistakes.Add({}, error.what());
  }
  if (!mistakes.empty()) return mistakes.ToStatus();
  config.source = source_name;
  return config;
}

Status ApplySetting(const OneSetting& setting, std::string_view source, Config* config) {
  Mistakes mistakes(std::string(source), /*positions=*/false);
  try {
    Config changed = *config;
    ReadOne(setting, &mistakes, &changed);
    if (mistakes.empty()) *config = std::move(changed);
  } catch (const std::exception& error) {
    mistakes.Add({}, error.what());
  }
  return mistakes.ToStatus();
}

Status ApplyLevel(std::string_view level, std::string_view source, Config* config) {
  Mistakes mistakes(std::string(source), /*positions=*/false);
  Rule rule;
  try {
    const YamlPtr value = ValueOf({"level", std::string(level)}, &mistakes);
    if (value != nullptr) {
      Reader reader(&mistakes);
      ReadMap<Rule>(reader, {"", *WrapKey("level", value)}, RuleKeys(), &rule);
    }
  } catch (const std::exception& error) {
    mistakes.Add({}, error.what());
  }
  if (!mistakes.empty()) return mistakes.ToStatus();
  const auto apply = [&given = rule](std::vector<Rule>* list) {
    for (Rule& rule : *list) {
      if (!rule.use.empty() || rule.level == kPartNone) continue;
      rule.level = given.level;
      rule.sample = given.sample;
      rule.slice = given.slice;
    }
  };
  for (FilterSet& set : config->capture) apply(&set.rules);
  for (auto& [name, list] : config->filters) apply(&list);
  return {};
}

constexpr size_t kShownPath = 300;  // bytes of a path that a message shows

Result<Config> LoadConfig(const std::string& path, const std::string& shown) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text;
  text.resize(kMaxYamlBytes + 1);
  if (file) file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad() || (file.gcount() == 0 && !file.eof())) {
    return ErrnoStatus(errno != 0 ? errno : EIO, "cannot read configuration",
                       Printable(path, kShownPath));
  }
  text.resize(static_cast<size_t>(file.gcount()));
  return ParseConfig(text, Printable(shown, kShownPath));
}

}  // namespace tdump::filters
