#include "launch/tdump_run/commands.h"

#include <algorithm>
#include <fstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "filters/settings.h"
#include "launch/tdump_run/world.h"

namespace tdump::launch {
namespace {

// The YAML file that `options` and the environment name, and what the user calls it.
struct Source {
  std::string path, shown = "defaults";
};

Result<Source> FindSource(const Options& options, const Installation& installation,
                          const Environment& present) {
  if (!options.recipe.empty()) {
    const std::vector<std::string> names = RecipeNames(installation.recipes);
    if (std::find(names.begin(), names.end(), options.recipe) != names.end())
      return Source{RecipePath(installation.recipes, options.recipe), "recipe " + options.recipe};
    const std::string near = filters::Nearest(options.recipe, names);
    return InvalidArgument(fmt::format("no recipe '{}'; expected one of {}{}",
                                       filters::Printable(options.recipe), fmt::join(names, ", "),
                                       near.empty() ? "" : "; did you mean '" + near + "'?"));
  }
  if (!options.config.empty()) return Source{options.config, options.config};
  const auto variable = present.find("TDUMP_CONFIG");
  if (options.dump || variable == present.end() || variable->second.empty()) return Source{};
  return Source{variable->second, variable->second};
}

Overlay OverlayOfCommandLine(const Options& options) {
  static const std::string kSource = "command line";
  Overlay overlay;
  for (const auto& [key, value] : options.settings) {
    if (key == "level")
      overlay.level.push_back({kSource, value});
    else
      overlay.settings.push_back({kSource, {key, value, key != "output.dir"}});
  }
  for (const std::string& pattern : options.name_patterns)
    overlay.names.push_back({kSource, pattern});
  return overlay;
}

std::string FirstComment(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line.starts_with("# ") ? line.substr(2) : "";
}

}  // namespace

Result<EffectiveConfig> SettingsFor(const Options& options, const Installation& installation,
                                    const Environment& present) {
  TDUMP_ASSIGN_OR_RETURN(const Source source, FindSource(options, installation, present));
  const int world = options.check_ranks.value_or(KnownWorld(options.command, present));
  return MakeEffectiveConfig(source.path, source.shown,
                             {OverlayOfEnvironment(present), OverlayOfCommandLine(options)}, world);
}

Result<PreparedJob> PrepareJob(const Options& options, const Installation& installation,
                               const Environment& present) {
  PreparedJob job;
  TDUMP_ASSIGN_OR_RETURN(job.settings, SettingsFor(options, installation, present));
  TDUMP_ASSIGN_OR_RETURN(EnvironmentChanges config, HandOver(job.settings, present));
  if (job.settings.config.compiled == filters::Tri::kOn && job.settings.config.private_cache)
    AddPrivateCache(present, &config);
  job.environment = JobEnvironment(installation, std::move(config), options.children, present);
  return job;
}

std::string DescribeJob(const PreparedJob& job) {
  std::string text = job.settings.yaml;
  text += "# from " + filters::Printable(job.settings.config.source) + "; the job also gets:\n";
  for (const auto& [name, value] : job.environment) {
    if (name.starts_with("TDUMP_EFFECTIVE") && name != "TDUMP_EFFECTIVE_FROM") continue;
    std::string line;
    for (char c : value) line += c == '\n' ? std::string("\\n") : std::string(1, c);
    text += fmt::format("# {}={}\n", name, line);
  }
  return text;
}

std::string ListRecipes(const Installation& installation) {
  const std::vector<std::string> names = RecipeNames(installation.recipes);
  std::string text;
  for (const std::string& name : names) {
    text += fmt::format("{:<10} {}\n", name, FirstComment(RecipePath(installation.recipes, name)));
  }
  if (names.empty()) return text;
  return text + fmt::format("files, as -c takes them: {}\n",
                            filters::Printable(RecipePath(installation.recipes, "NAME")));
}

}  // namespace tdump::launch
