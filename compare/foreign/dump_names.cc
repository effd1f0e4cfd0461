#include "compare/foreign/dump_names.h"

#include <fmt/format.h>

#include <algorithm>

#include "compare/names.h"
#include "core/parse_number.h"

namespace tdump::compare::foreign {
namespace {

// "a.b.c" -> "a.b", "c"; without a dot "", "a".
std::pair<std::string_view, std::string_view> SplitLast(std::string_view text) {
  const size_t dot = text.rfind('.');
  if (dot == std::string_view::npos) return {"", text};
  return {text.substr(0, dot), text.substr(dot + 1)};
}

void SetParameter(std::string_view name, bool gradient, NamedKey* named) {
  const auto [path, own] = SplitLast(name);
  named->key.path = path.empty() ? "." : path;
  named->key.arg = own;
  named->key.role = gradient ? Role::kParamGrad : Role::kParam;
  if (gradient) named->key.phase = Phase::kBackward;
  named->knows_role = true;
}

// Where "inputs" or "output" stands last as a whole part of a dotted name; npos: nowhere.
size_t FindPart(std::string_view name, std::string_view part) {
  for (size_t at = name.rfind(part); at != std::string_view::npos; at = name.rfind(part, at - 1)) {
    const size_t end = at + part.size();
    const bool whole = (at == 0 || name[at - 1] == '.') && (end == name.size() || name[end] == '.');
    if (whole) return at;
    if (at == 0) break;
  }
  return std::string_view::npos;
}

// Behind "non_intrusive__": "PATH.inputs.0", "PATH.output", "PATH.output.1"; no PATH for the root.
bool SetFromHook(std::string_view name, NamedKey* named) {
  constexpr std::string_view kInputs = "inputs", kOutput = "output";
  const size_t inputs = FindPart(name, kInputs), output = FindPart(name, kOutput);
  if (inputs == std::string_view::npos && output == std::string_view::npos) return false;
  const bool is_input =
      output == std::string_view::npos || (inputs != std::string_view::npos && inputs > output);
  const size_t at = is_input ? inputs : output;
  std::string_view rest = name.substr(at + (is_input ? kInputs : kOutput).size());
  TakePrefix(&rest, ".");
  named->key.path = at == 0 ? "." : name.substr(0, at - 1);
  named->key.role = is_input ? Role::kInput : Role::kOutput;
  named->key.arg = rest;
  named->knows_role = true;
  return true;
}

void SetFromDumperName(std::string_view name, NamedKey* named) {
  const bool gradient = TakePrefix(&name, "grad__");
  if (TakePrefix(&name, "param__")) return SetParameter(name, gradient, named);
  if (!TakePrefix(&name, "non_intrusive__") || !SetFromHook(name, named)) {
    named->key.path = name;
    named->kind = OperatorKind::kTap;
  }
  if (!gradient) return;
  named->key.role = named->key.role == Role::kInput ? Role::kGradInput : Role::kGradOutput;
  named->key.phase = Phase::kBackward;
  named->knows_role = true;
}

// Tags that say where a tensor was dumped, not what it is.
bool IsPlaceTag(std::string_view tag) {
  static constexpr std::string_view kTags[] = {"pp_rank", "tp_rank", "cp_rank", "ep_rank",
                                               "etp_rank"};
  return std::find(std::begin(kTags), std::end(kTags), tag) != std::end(kTags);
}

struct Tags {
  std::vector<std::pair<std::string_view, std::string_view>> all;

  std::optional<std::string_view> Get(std::string_view wanted) const {
    for (const auto& [tag, value] : all) {
      if (tag == wanted) return value;
    }
    return std::nullopt;
  }
};

std::optional<Tags> SplitTags(std::string_view stem) {
  constexpr std::string_view kBetween = "___";
  Tags tags;
  while (true) {
    const size_t end = stem.find(kBetween);
    const std::string_view tag = stem.substr(0, end);
    const size_t equals = tag.find('=');
    if (equals == std::string_view::npos || equals == 0) return std::nullopt;
    tags.all.emplace_back(tag.substr(0, equals), tag.substr(equals + 1));
    if (end == std::string_view::npos) return tags;
    stem.remove_prefix(end + kBetween.size());
  }
}

// "Module.layer1.Linear.forward.0" -> the direction and what stands before and behind it.
struct ProbeEntry {
  std::string_view before, behind;
  bool backward = false;
};
ProbeEntry SplitDirection(std::string_view entry) {
  for (const auto& [word, backward] :
       {std::pair{std::string_view(".forward"), false}, {".backward", true}}) {
    const size_t at = entry.rfind(word);
    if (at == std::string_view::npos) continue;
    std::string_view behind = entry.substr(at + word.size());
    if (behind.empty() || TakePrefix(&behind, ".")) return {entry.substr(0, at), behind, backward};
  }
  return {entry, "", false};
}

// "Module.a.Linear.parameters_grad", with a number behind it in newer versions ->
// "Module.a.Linear";
// "" for other entries.
std::string_view ModuleOfGradients(std::string_view entry) {
  constexpr std::string_view kWord = ".parameters_grad";
  const auto [before, number] = SplitLast(entry);
  if (ParseNumber<uint64_t>(number)) entry = before;
  return entry.ends_with(kWord) ? entry.substr(0, entry.size() - kWord.size()) : "";
}

void SetProbeRole(bool backward, std::string_view category, std::string_view argument,
                  NamedKey* named) {
  Key& key = named->key;
  key.arg = argument;
  named->knows_role = true;
  if (category == "parameters" || category == "parameters_grad") {
    key.role = category == "parameters" ? Role::kParam : Role::kParamGrad;
  } else if (category == "kwargs") {
    key.role = Role::kInput;
    key.arg = "kwargs." + key.arg;
  } else if (backward) {
    // What comes into a backward is the gradient of what the forward put out.
    key.role = category == "input" ? Role::kGradOutput : Role::kGradInput;
  } else {
    key.role = category == "input" ? Role::kInput : Role::kOutput;
  }
  if (backward || key.role == Role::kParamGrad) key.phase = Phase::kBackward;
}

}  // namespace

NamedKey KeyOfName(std::string_view name) {
  NamedKey named;
  if (name.find('@') != std::string_view::npos) {
    if (auto key = ParseKey(name); key.ok()) {
      named.key = std::move(*key);
      named.knows_role = true;
      return named;
    }
  }
  constexpr std::string_view kBatch = ".forward_batch_info.";
  if (const size_t at = name.find(kBatch); at != std::string_view::npos) {
    named.key.path = name.substr(0, at);
    named.key.arg = name.substr(at + 1);
    named.key.role = Role::kInput;
    named.knows_role = true;
    return named;
  }
  constexpr std::string_view kCall = "::call";
  if (const size_t at = name.rfind(kCall); at != std::string_view::npos) {
    if (const auto call = ParseNumber<uint64_t>(name.substr(at + kCall.size()))) {
      named.key.call = *call;
      name = name.substr(0, at);
    }
  }
  const size_t slash = name.find('/');
  named.key.path = name.substr(0, slash);
  if (slash != std::string_view::npos) {
    named.key.op = name.substr(slash + 1);
    named.kind = OperatorKind::kAten;
  }
  return named;
}

NamedKey KeyOfPlace(const std::vector<std::string>& place) {
  size_t name_parts = place.size();
  while (name_parts > 1 && ParseNumber<uint64_t>(place[name_parts - 1])) --name_parts;
  std::string name, argument;
  for (size_t i = 0; i < place.size(); ++i) {
    std::string& part = i < name_parts ? name : argument;
    part += (part.empty() ? "" : ".") + place[i];
  }
  NamedKey named = KeyOfName(name);
  if (!argument.empty()) named.key.arg = argument;
  return named;
}

std::optional<TaggedName> ParseTags(std::string_view stem) {
  const std::optional<Tags> tags = SplitTags(stem);
  if (!tags) return std::nullopt;
  const auto name = tags->Get("name");
  // Before there were steps it counted forward passes.
  const auto step = tags->Get("step") ? tags->Get("step") : tags->Get("forward_pass_id");
  if (!name || !step || !ParseNumber<uint64_t>(*step)) return std::nullopt;
  TaggedName tagged{.step = *ParseNumber<uint64_t>(*step)};
  tagged.rank = static_cast<int32_t>(std::min<uint64_t>(
      ParseNumber<uint64_t>(tags->Get("rank").value_or("0")).value_or(0), 1 << 30));
  tagged.dump_index = ParseNumber<uint64_t>(tags->Get("dump_index").value_or("0")).value_or(0);
  SetFromDumperName(*name, &tagged.key);
  std::string rest;
  for (const auto& [tag, value] : tags->all) {
    if (tag == "name" || tag == "step" || tag == "forward_pass_id" || tag == "rank" ||
        tag == "dump_index")
      continue;
    if (IsPlaceTag(tag)) {
      if (ParseNumber<uint64_t>(value))
        tagged.coordinates += fmt::format("{}{}={}", tagged.coordinates.empty() ? "" : " ",
                                          tag.substr(0, tag.find('_')), value);
      continue;
    }
    if (tag == "recompute_status")
      tagged.key.key.recompute = value.starts_with("recomput");
    else if (tag != "layer_id" || FindPart(tagged.key.key.path, value) == std::string_view::npos)
      rest += fmt::format("{}{}={}", rest.empty() ? "" : ",", tag, value);
  }
  if (!rest.empty()) tagged.key.key.path += "[" + rest + "]";
  return tagged;
}

bool IsProbeGradients(std::string_view entry) { return !ModuleOfGradients(entry).empty(); }

NamedKey KeyOfProbe(std::string_view entry, std::string_view category, std::string_view argument) {
  NamedKey named;
  ProbeEntry parts;
  if (const std::string_view module = ModuleOfGradients(entry); !module.empty()) {
    category = "parameters_grad";
    parts.before = module;
  } else {
    parts = SplitDirection(entry);
  }
  SetProbeRole(parts.backward, category, argument, &named);
  std::string_view name = parts.before;
  if (TakePrefix(&name, "Module.") || TakePrefix(&name, "Cell.")) {
    const auto [path, cls] = SplitLast(name);
    named.key.path = path.empty() ? "." : path;
    named.cls = cls;
    named.key.call = ParseNumber<uint64_t>(parts.behind).value_or(0);
    return named;
  }
  // Of an interface: "Torch.matmul.3".
  named.kind = OperatorKind::kAten;
  const auto [api, number] = SplitLast(name);
  const auto call = ParseNumber<uint64_t>(number);
  named.key.path = call && !api.empty() ? api : name;
  named.key.call = call.value_or(0);
  return named;
}

NamedKey KeyOfProbeFile(std::string_view stem) {
  static constexpr std::string_view kCategories[] = {"input", "output", "kwargs", "parameters",
                                                     "parameters_grad"};
  size_t best = std::string_view::npos;
  std::string_view category;
  for (const std::string_view word : kCategories) {
    const size_t at = stem.rfind("." + std::string(word) + ".");
    if (at == std::string_view::npos || (best != std::string_view::npos && at < best)) continue;
    best = at;
    category = word;
  }
  if (best == std::string_view::npos) return KeyOfName(stem);
  std::string_view argument = stem.substr(best + category.size() + 2);
  if (category != "parameters_grad") return KeyOfProbe(stem.substr(0, best), category, argument);
  const size_t dot = argument.find('.');
  if (dot != std::string_view::npos && ParseNumber<uint64_t>(argument.substr(0, dot)))
    argument.remove_prefix(dot + 1);
  return KeyOfProbe(stem.substr(0, best + category.size() + 1), category, argument);
}

}  // namespace tdump::compare::foreign
