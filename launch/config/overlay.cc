#include "launch/config/overlay.h"

#include "filters/predicate.h"
#include "filters/schema.h"
#include "filters/settings.h"

namespace tdump::launch {
namespace {

using filters::Config;

// Collects the messages of several failures.
class Failures {
 public:
  void Add(const Status& status) {
    if (!status.ok()) text_ += (text_.empty() ? "" : "\n") + status.message();
  }
  Status ToStatus() const { return text_.empty() ? Status::Ok() : InvalidArgument(text_); }

 private:
  std::string text_;
};

void AddMistake(const Named& at, const Status& status, Failures* failures) {
  failures->Add(InvalidArgument(at.source + ": " + status.message()));
}

// The rule that a bare filter stands for.
filters::Rule FilterRule(const Overlay& overlay, Failures* failures) {
  filters::Rule rule = filters::DefaultRule();
  for (const Named& name : overlay.names) {
    const auto regex = filters::Regex::Compile(name.value);
    if (!regex.ok()) AddMistake(name, regex.status(), failures);
    rule.name.push_back(name.value);
  }
  for (const Named& where : overlay.where) {
    const auto predicate = filters::ParsePredicate(where.value);
    if (!predicate.ok()) AddMistake(where, predicate.status(), failures);
    rule.where = where.value;
  }
  rule.text = filters::PrintRule(rule);
  return rule;
}

}  // namespace

Overlay OverlayOfEnvironment(const Environment& environment) {
  Overlay overlay;
  const auto each = [&](const char* variable, auto&& take) {
    const auto found = environment.find(variable);
    if (found != environment.end() && !found->second.empty()) take(variable, found->second);
  };
  const auto add_to = [](std::vector<Named>* list) {
    return [list](const char* variable, const std::string& value) {
      list->push_back({variable, value});
    };
  };
  const auto set = [&](const char* key, bool yaml) {
    return [&overlay, key, yaml](const char* variable, const std::string& value) {
      overlay.settings.push_back({variable, {key, value, yaml}});
    };
  };
  each("TDUMP_DIR", set("output.dir", false));
  each("TDUMP_STEPS", set("steps.select", true));
  each("TDUMP_RANKS", set("ranks", true));
  each("TDUMP_LOG", set("log", false));
  each("TDUMP_FILTER", add_to(&overlay.names));
  each("TDUMP_FILTER_FN", add_to(&overlay.where));
  each("TDUMP_LEVEL", add_to(&overlay.level));
  return overlay;
}

Status ApplyOverlays(const std::vector<Overlay>& overlays, Config* config) {
  Failures failures;
  const Named* level = nullptr;  // of the layers so far: it also holds for a later layer's filter
  for (const Overlay& overlay : overlays) {
    for (const NamedSetting& named : overlay.settings)
      failures.Add(filters::ApplySetting(named.setting, named.source, config));
    const bool replaced = !overlay.names.empty() || !overlay.where.empty();
    if (replaced) config->capture = {{"", {FilterRule(overlay, &failures)}}};
    if (!overlay.level.empty()) level = &overlay.level.back();
    if (level != nullptr && (replaced || !overlay.level.empty()))
      failures.Add(filters::ApplyLevel(level->value, level->source, config));
  }
  return failures.ToStatus();
}

}  // namespace tdump::launch
