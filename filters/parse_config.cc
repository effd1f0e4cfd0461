#include "filters/parse_config.h"

#include <algorithm>
#include <fstream>
#include <iterator>

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

Result<Config> ParseConfigOver(Config base, std::string_view yaml, std::string_view source_name) {
  Mistakes mistakes{std::string(source_name)};
  try {
    const YamlPtr root = ParseYaml(yaml, &mistakes);
    if (root == nullptr) return mistakes.ToStatus();
    Reader reader(&mistakes);
    if (root->is_map())
      ReadMap<Config>(reader, {"", *root}, ConfigKeys(), &base);
    else
      mistakes.Add(root->at, Describe(*root), "keys such as 'steps: 0-9' and 'capture:'");
    if (mistakes.empty()) CheckUses(base, &mistakes);
  } catch (const std::exception& error) {
    mistakes.Add({}, error.what());
  }
  if (!mistakes.empty()) return mistakes.ToStatus();
  base.source = source_name;
  return base;
}

Result<Config> ParseConfig(std::string_view yaml, std::string_view source_name) {
  return ParseConfigOver(DefaultConfig(), yaml, source_name);
}

Result<Config> LoadConfig(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text;
  text.resize(kMaxYamlBytes + 1);
  if (file) file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad() || (file.gcount() == 0 && !file.eof())) {
    return ErrnoStatus(errno != 0 ? errno : EIO, "cannot read configuration", path);
  }
  text.resize(static_cast<size_t>(file.gcount()));
  return ParseConfig(text, path);
}

}  // namespace tdump::filters
