#include "filters/rule_settings.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "filters/level.h"
#include "filters/predicate.h"
#include "settings/dims.h"

namespace tdump::filters {
namespace {

bool AddWord(Reader& r, const Setting& s, Level* level) {
  const Status added =
      s.node.is_text() ? AddLevelWord(s.node.text, level) : Status(StatusCode::kNotFound, "");
  if (added.ok()) return true;
  const std::string near =
      Nearest(s.node.text, {"off", "meta", "hash", "stats", "sample", "slice", "full"});
  if (added.code() == StatusCode::kNotFound)
    r.Bad(s, Describe(s.node), kLevelWords, near);
  else
    r.Bad(s, added.message());
  return false;
}

}  // namespace

void ReadRoles(Reader& r, const Setting& s, Rule* rule) {
  std::vector<std::string> names, known;
  std::string roles_text;
  for (int i = 0; i < kRoleCount; ++i) {
    known.emplace_back(ToString(static_cast<Role>(i)));
    roles_text += (i == 0 ? "" : " ") + known.back();
  }
  r.Texts(s, &names);
  std::vector<Role> roles;
  for (size_t i = 0; i < names.size(); ++i) {
    Role role;
    const YamlNode& at = s.node.is_sequence() ? *s.node.items[i] : s.node;
    if (!ParseRole(names[i], &role)) {
      r.Bad({s.key, at}, Describe(at), roles_text, Nearest(names[i], known));
      return;
    }
    if (std::find(roles.begin(), roles.end(), role) == roles.end()) roles.push_back(role);
  }
  if (!roles.empty())
    rule->role = std::move(roles);
  else if (s.node.is_sequence())
    r.Bad(s, "an empty list selects nothing", "at least one role, or no `role` key");
}

void ReadPhases(Reader& r, const Setting& s, Rule* rule) {
  std::vector<std::string> names;
  r.Texts(s, &names);
  std::vector<Phase> phases;
  for (size_t i = 0; i < names.size(); ++i) {
    const YamlNode& at = s.node.is_sequence() ? *s.node.items[i] : s.node;
    const int word = r.Word({s.key, at}, {"forward", "backward"});
    if (word < 0) return;
    const auto phase = static_cast<Phase>(word);
    if (std::find(phases.begin(), phases.end(), phase) == phases.end()) phases.push_back(phase);
  }
  if (!phases.empty())
    rule->phase = std::move(phases);
  else if (s.node.is_sequence())
    r.Bad(s, "an empty list selects nothing", "forward, backward or both");
}

void ReadDtypes(Reader& r, const Setting& s, Rule* rule) {
  static constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
      {"fp32", "float32"}, {"float", "float32"},     {"f32", "float32"},   {"fp16", "float16"},
      {"half", "float16"}, {"f16", "float16"},       {"bf16", "bfloat16"}, {"double", "float64"},
      {"fp64", "float64"}, {"long", "int64"},        {"int", "int32"},     {"short", "int16"},
      {"byte", "uint8"},   {"fp8", "float8_e4m3fn"}, {"boolean", "bool"}};
  std::vector<std::string> names;
  r.Texts(s, &names);
  for (size_t i = 0; i < names.size(); ++i) {
    const YamlNode& at = s.node.is_sequence() ? *s.node.items[i] : s.node;
    std::string near = names[i].starts_with("torch.") ? names[i].substr(6) : "";
    for (const auto& [other, name] : kOtherNames) {
      if (names[i] == other) near = name;
    }
    if (!near.empty()) {
      r.Bad({s.key, at}, Describe(at), "torch's name without 'torch.'", near);
      return;
    }
  }
  rule->dtype = std::move(names);
}

void ReadMax(Reader& r, const Setting& s, Rule* rule) {
  uint64_t max = 0;
  if (s.node.text != "all") {
    if (!r.Count(s, &max)) return;
    if (max == 0) {
      r.Bad(s, Describe(s.node), "all, or a number above 0");
      return;
    }
  }
  rule->max = max;
}

void ReadWhere(Reader& r, const Setting& s, Rule* rule) {
  std::string text;
  if (!r.Text(s, &text)) return;
  if (text == "none") {
    rule->where.clear();
    return;
  }
  const Result<PredicateSpec> predicate = ParsePredicate(text);
  if (predicate.ok())
    rule->where = text;
  else
    r.Bad(s, predicate.status().message());
}

void ReadLevel(Reader& r, const Setting& s, Rule* rule) {
  Level level;
  bool good = true;
  if (s.node.is_sequence()) {
    for (const YamlPtr& item : s.node.items) {
      if (s.node.items.size() > 1 && item->is_text() && item->text == "off") {
        r.Bad({s.key, *item}, "'off' beside other levels; expected it alone, or left out");
        good = false;
      } else {
        good &= AddWord(r, {s.key, *item}, &level);
      }
    }
    if (s.node.items.empty())
      r.Bad(s, "an empty list", std::string(kLevelWords) + ", or a list of them");
  } else {
    good = AddWord(r, s, &level);
  }
  if (!good) return;
  rule->level = level.parts;
  rule->sample = level.sample;
  rule->slice = std::move(level.slice);
}

void ReadRuleCompress(Reader& r, const Setting& s, Rule* rule) {
  const int word = r.Word(s, {"none", "zstd", "auto"});
  if (word < 0) return;
  rule->compress.reset();
  if (word < 2) rule->compress = static_cast<Compression>(word);
}

std::string PrintRuleCompress(const Rule& rule) {
  if (!rule.compress) return "auto";
  return *rule.compress == Compression::kZstd ? "zstd" : "none";
}

void ReadDims(Reader& r, const Setting& s, Rule* rule) {
  std::string text;
  if (!r.Text(s, &text)) return;
  constexpr const char* kExpected = "dims such as 'b s h[tp]'";
  if (text.size() > 200) return r.Bad(s, "longer than 200 bytes", kExpected);
  if (const auto dims = Dims::Parse(text); !dims.ok())
    return r.Bad(s, dims.status().message(), kExpected);
  rule->dims = text == "none" ? "" : text;
}

std::string PrintRoles(const Rule& rule) {
  std::string out;
  for (Role role : rule.role) out += (out.empty() ? "" : ", ") + std::string(ToString(role));
  return "[" + out + "]";
}

std::string PrintPhases(const Rule& rule) {
  std::string out;
  for (Phase phase : rule.phase) out += (out.empty() ? "" : ", ") + std::string(ToString(phase));
  return "[" + out + "]";
}

void ReadUse(Reader& r, const Setting& s, Rule* rule) { r.Text(s, &rule->use); }
std::string PrintUse(const Rule& rule) { return YamlScalar(rule.use); }

void ReadLeaf(Reader& r, const Setting& s, Rule* rule) {
  rule->has_leaf = true;
  r.Bool(s, &rule->leaf);
}

std::string PrintLeaf(const Rule& rule) {
  return !rule.has_leaf ? "any" : rule.leaf ? "true" : "false";
}

std::string PrintMax(const Rule& rule) { return rule.max == 0 ? "all" : std::to_string(rule.max); }

void ReadRuleRanks(Reader& r, const Setting& s, Rule* rule) {
  if (s.node.is_map() || s.node.text == "one-per-node")
    r.Later(s, "rank numbers");
  else
    r.Specification(s, true, &rule->ranks);
}

std::string PrintLevelOf(const Rule& rule) {
  return PrintLevel(Level{rule.level, rule.sample, rule.slice});
}

}  // namespace tdump::filters
