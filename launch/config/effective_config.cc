#include "launch/config/effective_config.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "filters/compiled_plan.h"
#include "filters/predicate.h"
#include "filters/print_config.h"
#include "filters/settings.h"

extern char** environ;

namespace tdump::launch {
namespace {

constexpr size_t kPartBytes = 64 * 1024;
constexpr size_t kMaxParts = 8;

Environment Variables() {
  Environment variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (text.starts_with("TDUMP_") && equals != std::string_view::npos)
      variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

std::string PartName(size_t part) {
  return part == 0 ? "TDUMP_EFFECTIVE" : "TDUMP_EFFECTIVE_" + std::to_string(part);
}

// The job may change its directory before a predicate is loaded.
void MakePredicatesAbsolute(std::vector<filters::Rule>* rules) {
  for (filters::Rule& rule : *rules) {
    const auto predicate = filters::ParsePredicate(rule.where);
    if (!predicate.ok() || predicate->kind == filters::PredicateSpec::Kind::kPythonModule) continue;
    std::error_code failed;
    const std::filesystem::path path = std::filesystem::absolute(predicate->where, failed);
    if (!failed) rule.where = path.lexically_normal().string() + ":" + predicate->function;
  }
}

void MakePredicatesAbsolute(filters::Config* config) {
  for (filters::FilterSet& set : config->capture) MakePredicatesAbsolute(&set.rules);
  for (auto& [name, rules] : config->filters) MakePredicatesAbsolute(&rules);
}

bool SetsCapture(const Overlay& overlay) {
  return std::any_of(overlay.settings.begin(), overlay.settings.end(), [](const auto& named) {
    return std::string_view(named.setting.key).starts_with("capture");
  });
}

}  // namespace

Result<EffectiveConfig> MakeEffectiveConfig(const std::string& file, const std::string& shown,
                                            const std::vector<Overlay>& overlays, int world) {
  EffectiveConfig effective;
  effective.config = filters::DefaultConfig();
  effective.config.source = shown;
  std::string mistakes;
  if (!file.empty()) {
    auto loaded = filters::LoadConfig(file, shown);
    if (loaded.ok())
      effective.config = std::move(loaded).value();
    else
      mistakes = loaded.status().message();
  }
  const Status overlaid = ApplyOverlays(overlays, &effective.config);
  if (!overlaid.ok()) mistakes += (mistakes.empty() ? "" : "\n") + overlaid.message();
  if (!mistakes.empty()) return InvalidArgument(std::move(mistakes));
  TDUMP_RETURN_IF_ERROR(filters::ValidateForWorld(effective.config, world));
  MakePredicatesAbsolute(&effective.config);
  // Written out, the default rule would be one that somebody asked for.
  if (std::none_of(overlays.begin(), overlays.end(), SetsCapture))
    filters::LeaveOutDefaultRule(&effective.config);
  effective.yaml = filters::PrintConfig(effective.config);
  return effective;
}

Result<std::vector<std::pair<std::string, std::string>>> HandOver(const EffectiveConfig& settings,
                                                                  const Environment& present) {
  if (settings.yaml.size() > kPartBytes * kMaxParts) {
    return InvalidArgument(settings.config.source + ": " + std::to_string(settings.yaml.size()) +
                           " bytes when written out; expected at most " +
                           std::to_string(kPartBytes * kMaxParts) +
                           ", which is what a job's environment holds; regexes are shorter than "
                           "lists of names");
  }
  std::vector<std::pair<std::string, std::string>> changes;
  changes.emplace_back("TDUMP_EFFECTIVE_FROM", settings.config.source);
  size_t part = 0;
  for (; part * kPartBytes < settings.yaml.size(); ++part)
    changes.emplace_back(PartName(part), settings.yaml.substr(part * kPartBytes, kPartBytes));
  if (!ValueOf(present, PartName(part)).empty()) changes.emplace_back(PartName(part), "");
  return changes;
}

Result<EffectiveConfig> EffectiveConfigOfProcess() {
  const auto variables = Variables();
  EffectiveConfig effective;
  for (size_t part = 0; part < kMaxParts; ++part) {
    const std::string text = ValueOf(variables, PartName(part));
    if (text.empty()) break;
    effective.yaml += text;
  }
  if (effective.yaml.empty()) {
    const std::string file = ValueOf(variables, "TDUMP_CONFIG");
    const std::string shown = file.empty() ? "defaults" : file;
    return MakeEffectiveConfig(file, shown, {OverlayOfEnvironment(variables)}, 0);
  }
  std::string source = filters::Printable(ValueOf(variables, "TDUMP_EFFECTIVE_FROM"), 300);
  if (source.empty()) source = "TDUMP_EFFECTIVE";
  TDUMP_ASSIGN_OR_RETURN(effective.config, filters::ParseConfig(effective.yaml, source));
  return effective;
}

}  // namespace tdump::launch
