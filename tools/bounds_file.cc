#include "tools/bounds_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/env.h"
#include "core/utf8.h"
#include "filters/reader.h"
#include "tools/names.h"

namespace tdump::tools {
namespace {

using filters::Describe;
using filters::Mistakes;
using filters::Position;
using filters::Reader;
using filters::Setting;
using filters::YamlEntry;
using filters::YamlNode;

const std::vector<std::string> kRuleKeys = {"name", "role", "expect", "compute", "allow"};
constexpr const char* kRuleKeysText = "one of name, role, expect, compute, allow";

class BoundsReader {
 public:
  BoundsReader(std::string_view yaml, const std::string& source, Mistakes* mistakes)
      : yaml_(yaml), source_(source), reader_(mistakes) {}

  compare::BoundRules Read(const YamlNode& root) {
    const YamlNode* list = &root;
    if (root.is_map()) {
      list = nullptr;
      for (const YamlEntry& entry : root.entries) {
        if (entry.key == "bounds")
          list = entry.value.get();
        else
          mistakes().Add(entry.at, fmt::format("unknown key '{}'", filters::Printable(entry.key)),
                         "bounds", filters::Nearest(entry.key, {"bounds"}));
      }
      if (list == nullptr) return NoRules(root);
    }
    if (!list->is_sequence() || list->items.empty()) return NoRules(*list);
    for (const filters::YamlPtr& item : list->items) ReadRule(*item);
    return std::move(rules_);
  }

 private:
  Mistakes& mistakes() { return reader_.mistakes(); }

  compare::BoundRules NoRules(const YamlNode& at) {
    if (mistakes().empty())
      mistakes().Add(at.at, Describe(at),
                     "a list of rules, such as 'bounds: [{name: mlp, expect: sqnr_db >= 30}]'");
    return {};
  }

  void ReadRule(const YamlNode& node) {
    if (!node.is_map())
      return mistakes().Add(node.at, Describe(node),
                            "a rule, such as {name: mlp, expect: sqnr_db >= 30}");
    compare::BoundRule rule;
    rule.where =
        fmt::format("{}:{}", std::filesystem::path(source_).filename().string(), node.at.line);
    bool has_effect = false;
    for (const YamlEntry& entry : node.entries) {
      const Setting setting{entry.key, *entry.value};
      if (entry.key == "name")
        ReadName(setting, &rule);
      else if (entry.key == "role")
        ReadRoles(setting, &rule);
      else if (entry.key == "expect")
        ReadExpect(setting, &rule), has_effect = true;
      else if (entry.key == "compute")
        ReadCompute(setting, &rule), has_effect = true;
      else if (entry.key == "allow")
        ReadAllow(setting, &rule), has_effect = true;
      else
        mistakes().Add(entry.at, fmt::format("unknown key '{}'", filters::Printable(entry.key)),
                       kRuleKeysText, filters::Nearest(entry.key, kRuleKeys));
    }
    if (!has_effect && mistakes().empty())
      mistakes().Add(node.at, "a rule that asks for nothing", "expect, compute or allow");
    rules_.Add(std::move(rule));
  }

  void ReadName(const Setting& setting, compare::BoundRule* rule) {
    std::vector<std::string> patterns;
    reader_.Regexes(setting, &patterns);
    if (setting.node.is_sequence() && setting.node.items.empty())
      reader_.Bad(setting, "an empty list selects nothing", "at least one regex, or no 'name' key");
    const auto matches = MatchAny(patterns);
    if (matches.ok()) rule->matches = *matches;
  }

  void ReadRoles(const Setting& setting, compare::BoundRule* rule) {
    std::vector<std::string> names, known;
    std::string all;
    for (int i = 0; i < kRoleCount; ++i) {
      known.emplace_back(ToString(static_cast<Role>(i)));
      all += (i == 0 ? "" : ", ") + known.back();
    }
    reader_.Texts(setting, &names);
    for (size_t i = 0; i < names.size(); ++i) {
      const YamlNode& at = setting.node.is_sequence() ? *setting.node.items[i] : setting.node;
      Role role;
      if (ParseRole(names[i], &role))
        rule->roles.push_back(role);
      else
        reader_.Bad({setting.key, at}, Describe(at), all, filters::Nearest(names[i], known));
    }
    if (setting.node.is_sequence() && setting.node.items.empty())
      reader_.Bad(setting, "an empty list selects nothing", "at least one role, or no 'role' key");
  }

  void ReadExpect(const Setting& setting, compare::BoundRule* rule) {
    std::string text;
    if (!reader_.Text(setting, &text)) return;
    compare::PredicateMistake mistake;
    rule->expect = compare::Predicate::Parse(text, &mistake);
    if (rule->expect) return;
    const std::vector<std::string>& metrics = compare::Predicate::MetricNames();
    std::string expected = mistake.expected;
    if (!mistake.unknown_metric.empty()) {
      for (const std::string& name : metrics) expected += (expected.empty() ? "" : ", ") + name;
    }
    mistakes().Add(PlaceIn(setting.node, text, mistake.offset), "expect: " + mistake.what, expected,
                   filters::Nearest(mistake.unknown_metric, metrics));
  }

  // Where in the file byte `offset` of a text of one line stands: after its quote, if it has one.
  Position PlaceIn(const YamlNode& node, std::string_view text, size_t offset) const {
    Position at = node.at;
    size_t line_start = 0;
    for (int line = 1; line < at.line && line_start != std::string_view::npos; ++line) {
      line_start = yaml_.find('\n', line_start);
      if (line_start != std::string_view::npos) ++line_start;
    }
    if (line_start == std::string_view::npos) return at;
    std::string_view line = yaml_.substr(line_start);
    line = line.substr(0, line.find('\n'));
    for (int skipped = 1; skipped < at.column && !line.empty(); ++skipped)
      line.remove_prefix(std::max<size_t>(1, Utf8Length(line)));
    const int quote = line.starts_with('\'') || line.starts_with('"') ? 1 : 0;
    if (!line.substr(static_cast<size_t>(quote)).starts_with(text)) return at;  // folded, escaped
    at.column += quote + static_cast<int>(CharactersIn(text.substr(0, offset)));
    return at;
  }

  void ReadCompute(const Setting& setting, compare::BoundRule* rule) {
    std::string text;
    if (!reader_.Text(setting, &text)) return;
    auto precision = compare::ParsePrecision(text);
    if (precision.ok())
      rule->compute = std::move(*precision);
    else
      reader_.Bad(setting, precision.status().message());
  }

  void ReadAllow(const Setting& setting, compare::BoundRule* rule) {
    std::vector<std::string> words;
    reader_.Texts(setting, &words);
    for (size_t i = 0; i < words.size(); ++i) {
      const YamlNode& at = setting.node.is_sequence() ? *setting.node.items[i] : setting.node;
      switch (reader_.Word({setting.key, at}, {"shape", "dtype", "nan", "inf"})) {
        case 0:
          rule->allow_shape = true;
          break;
        case 1:
          rule->allow_dtype = true;
          break;
        case 2:
          rule->allow_nan = true;
          break;
        case 3:
          rule->allow_inf = true;
          break;
        default:
          break;
      }
    }
  }

  std::string_view yaml_;
  const std::string& source_;
  Reader reader_;
  compare::BoundRules rules_;
};

}  // namespace

Result<compare::BoundRules> ParseBounds(std::string_view yaml, const std::string& source) {
  Mistakes mistakes(source);
  const filters::YamlPtr root = filters::ParseYaml(yaml, &mistakes);
  compare::BoundRules rules;
  if (root != nullptr) rules = BoundsReader(yaml, source, &mistakes).Read(*root);
  TDUMP_RETURN_IF_ERROR(mistakes.ToStatus());
  return rules;
}

Result<compare::BoundRules> ReadBoundsFile(const std::string& path) {
  TDUMP_ASSIGN_OR_RETURN(const std::string yaml, ReadFile(Env::Posix(), path, kMaxBoundsBytes));
  return ParseBounds(yaml, path);
}

}  // namespace tdump::tools
