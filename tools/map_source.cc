#include "tools/map_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "core/env.h"
#include "settings/mistakes.h"
#include "settings/yaml_tree.h"

namespace tdump::tools {
namespace {

namespace fs = std::filesystem;

// Beside the programs: <build>/configs, <prefix>/share/tdump/configs.
std::string MapFolder() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return "";
  const fs::path root = program.parent_path().parent_path();
  for (const char* configs : {"share/tdump/configs/maps", "configs/maps"}) {
    if (fs::is_directory(root / configs, error)) return root / configs;
  }
  return "";
}

std::vector<std::string> InstalledNames() {
  std::vector<std::string> names;
  std::error_code error;
  const std::string folder = MapFolder();
  if (folder.empty()) return names;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".yaml") names.push_back(it->path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

using MapText = std::pair<std::string, std::string>;

Result<MapText> ReadMap(const std::string& path, const std::string& shown) {
  auto text = ReadFile(Env::Posix(), path, settings::kMaxYamlBytes);
  if (!text.ok()) return std::move(text).status().Annotate("the map");
  return MapText(std::move(*text), shown);
}

}  // namespace

Result<MapText> LoadMap(const std::string& text) {
  const std::vector<std::string> names = InstalledNames();
  if (std::find(names.begin(), names.end(), text) != names.end())
    return ReadMap(MapFolder() + "/" + text + ".yaml", text);
  std::error_code error;
  const bool is_name =
      text.find('/') == std::string::npos && !text.ends_with(".yaml") && !fs::exists(text, error);
  if (!is_name) return ReadMap(text, settings::Printable(text, 300));
  const std::string near = settings::Nearest(text, names);
  return NotFound(fmt::format(
      "no map '{}'; a file, or one of {}{}", settings::Printable(text),
      names.empty() ? "those installed, which are none" : fmt::format("{}", fmt::join(names, ", ")),
      near.empty() ? "" : "; did you mean '" + near + "'?"));
}

std::vector<compare::NameMap> ShippedMaps() {
  std::vector<compare::NameMap> maps;
  for (const std::string& name : InstalledNames()) {
    const auto text = ReadMap(MapFolder() + "/" + name + ".yaml", name);
    if (!text.ok()) continue;
    auto map = compare::NameMap::Parse(text->first, text->second);
    if (map.ok()) maps.push_back(std::move(*map));
  }
  return maps;
}

}  // namespace tdump::tools
