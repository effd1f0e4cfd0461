// Reading a name map: YAML -> MapData, or everything that is wrong with it.
#include "compare/map_reader.h"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <utility>

#include "compare/map_items.h"
#include "core/parse_number.h"
#include "settings/dims.h"
#include "settings/yaml_tree.h"

namespace tdump::compare {
namespace {

using settings::Mistakes;
using settings::Printable;
using settings::Regex;
using settings::YamlEntry;
using settings::YamlNode;

constexpr Role kRoles[] = {Role::kInput, Role::kOutput,    Role::kBefore,
                           Role::kAfter, Role::kGradInput, Role::kGradOutput,
                           Role::kParam, Role::kParamGrad, Role::kState};

bool Has(const YamlNode& map, std::string_view key) {
  return std::any_of(map.entries.begin(), map.entries.end(),
                     [&](const YamlEntry& entry) { return entry.key == key; });
}

class MapReader : private MapItems {
 public:
  MapReader(MapData* map, Mistakes* mistakes) : MapItems(mistakes), map_(map) {}

  void Read(const YamlNode& root) {
    if (!root.is_map()) return Bad({"map", root}, Describe(root), "keys such as 'rules:'");
    // Rules name sides: they are read first, wherever they stand.
    for (const YamlEntry& entry : root.entries) {
      if (entry.key == "sides") ReadSides({"sides", *entry.value});
    }
    for (const char* name : {"first", "second"}) {
      if (map_->sides.size() == 2) break;
      map_->sides.emplace_back().name = name;
    }
    ReadKeys({"", root},
             {{"version", [&](const Item& item) { ReadVersion(item); }},
              {"about", [&](const Item& item) { ReadText(item, &map_->about); }},
              {"sides", [](const Item&) {}},
              {"heads", [&](const Item& item) { ReadHeads(item); }},
              {"layers",
               [&](const Item& item) { ReadList(item, [&](const Item& at) { ReadLayer(at); }); }},
              {"rules",
               [&](const Item& item) { ReadList(item, [&](const Item& at) { ReadRule(at); }); }}});
    if (!Has(root, "rules") && !Has(root, "layers"))
      Bad({"map", root}, "no 'rules' and no 'layers'", "one of them");
  }

 private:
  void ReadDims(const Item& item, std::vector<std::string>* out) {
    std::vector<std::string> texts;
    ReadTexts(item, &texts);
    for (std::string& text : texts) {
      const auto dims = Dims::Parse(text);
      if (dims.ok())
        out->push_back(std::move(text));
      else
        Bad(item, dims.status().message());
    }
  }

  void ReadVersion(const Item& item) {
    if (!item.node.is_text() || item.node.text != "1") Bad(item, Describe(item.node), "1");
  }

  void ReadSides(const Item& item) {
    if (!item.node.is_map() || item.node.entries.size() != 2)
      return Bad(item, Describe(item.node), "two sides: 'sides: {hf: ..., megatron: ...}'");
    for (const YamlEntry& entry : item.node.entries) {
      SideRule side;
      side.name = entry.key;
      const auto strip = [&](const Item& at) {
        std::string text;
        if (!ReadText(at, &text)) return;
        auto bare = Regex::Compile(text);
        if (!bare.ok()) return Bad(at, bare.status().message());
        auto anchored = Regex::Compile("^(?:" + text + ")");
        if (!anchored.ok()) return Bad(at, anchored.status().message());
        side.strip = std::move(*anchored);
      };
      ReadKeys({item.key + "." + entry.key, *entry.value},
               {{"looks_like", [&](const Item& at) { ReadSearches(at, &side.looks_like); }},
                {"strip", strip},
                {"activations", [&](const Item& at) { ReadDims(at, &side.activations); }}});
      map_->sides.push_back(std::move(side));
    }
  }

  void ReadHeads(const Item& item) {
    HeadRule& heads = map_->heads;
    ReadKeys(item,
             {{"num_heads", [&](const Item& at) { ReadCount(at, &heads.heads); }},
              {"num_kv_heads", [&](const Item& at) { ReadCount(at, &heads.kv_heads); }},
              {"head_dim", [&](const Item& at) { ReadCount(at, &heads.head_dim); }},
              {"head_dim_from", [&](const Item& at) { ReadSearches(at, &heads.head_dim_from); }}});
  }

  void ReadSide(const Item& item, size_t* out) {
    std::string text;
    if (!ReadText(item, &text)) return;
    std::vector<std::string> names;
    for (size_t i = 0; i < map_->sides.size(); ++i) {
      names.push_back(map_->sides[i].name);
      if (names.back() == text) *out = i;
    }
    if (std::find(names.begin(), names.end(), text) == names.end())
      Bad(item, Describe(item.node), OneOf(names), settings::Nearest(text, names));
  }

  bool ReadRole(const Item& item, std::string_view text, Role* out) {
    if (ParseRole(text, out)) return true;
    std::vector<std::string> words;
    for (const Role role : kRoles) words.emplace_back(ToString(role));
    Bad(item, "'" + Printable(text) + "'", OneOf(words), settings::Nearest(text, words));
    return false;
  }

  void ReadRoles(const Item& item, std::vector<Role>* out) {
    std::vector<std::string> texts;
    ReadTexts(item, &texts);
    for (const std::string& text : texts) {
      Role role;
      if (ReadRole(item, text, &role)) out->push_back(role);
    }
  }

  void ReadRuleDims(const Item& item, MapRule* rule) {
    if (!item.node.is_map()) {
      std::vector<std::string> texts;
      ReadDims(item, &texts);
      for (const Role role : kRoles) rule->dims[role] = texts;
      return;
    }
    for (const YamlEntry& entry : item.node.entries) {
      const Item at{item.key + "." + entry.key, *entry.value};
      Role role;
      if (ReadRole(at, entry.key, &role)) ReadDims(at, &rule->dims[role]);
    }
  }

  void ReadFusion(const Item& item, Fusion* out) {
    static const std::vector<std::string> kWords = {"equal", "qkv", "qkv_groups", "copy"};
    static constexpr Fusion kFusions[] = {Fusion::kEqual, Fusion::kQkv, Fusion::kQkvGroups,
                                          Fusion::kCopy};
    const auto word = std::find(kWords.begin(), kWords.end(), item.node.text);
    if (item.node.is_text() && word != kWords.end())
      *out = kFusions[word - kWords.begin()];
    else
      Bad(item, Describe(item.node), OneOf(kWords), settings::Nearest(item.node.text, kWords));
  }

  void ReadReplacement(const Item& item, const Regex& pattern, std::string label, MapRule* rule) {
    std::string text;
    if (!ReadText(item, &text)) return;
    auto replacement = Replacement::Parse(text, pattern);
    if (!replacement.ok()) return Bad(item, replacement.status().message());
    rule->to.push_back({std::move(label), std::move(*replacement)});
  }

  void ReadTo(const Item& item, const Regex& pattern, MapRule* rule) {
    if (item.node.is_map()) {
      for (const YamlEntry& entry : item.node.entries)
        ReadReplacement({item.key + "." + entry.key, *entry.value}, pattern, entry.key, rule);
    } else if (item.node.is_sequence()) {
      for (const auto& node : item.node.items)
        ReadReplacement({item.key, *node}, pattern, "", rule);
    } else {
      ReadReplacement(item, pattern, "", rule);
    }
  }

  void ReadRule(const Item& item) {
    MapRule rule;
    rule.at = item.node.at;
    const YamlNode* to = nullptr;
    const YamlNode* q_like = nullptr;
    std::string to_arg, to_role;
    ReadKeys(item, {{"of", [&](const Item& at) { ReadSide(at, &rule.side); }},
                    {"name", [&](const Item& at) { ReadComponents(at, &rule.name); }},
                    {"to", [&](const Item& at) { to = &at.node; }},
                    {"split", [&](const Item& at) { ReadFusion(at, &rule.fusion); }},
                    {"axis",
                     [&](const Item& at) {
                       if (int64_t axis = 0; ReadNumber(at, -8, &axis)) rule.axis = axis;
                     }},
                    {"q_like", [&](const Item& at) { q_like = &at.node; }},
                    {"role", [&](const Item& at) { ReadRoles(at, &rule.roles); }},
                    {"arg", [&](const Item& at) { ReadSearch(at, &rule.arg); }},
                    {"class", [&](const Item& at) { ReadSearch(at, &rule.cls); }},
                    {"when", [&](const Item& at) { ReadSearch(at, &rule.when); }},
                    {"to_arg",
                     [&](const Item& at) {
                       if (ReadText(at, &to_arg)) rule.to_arg = to_arg;
                     }},
                    {"to_role",
                     [&](const Item& at) {
                       Role role;
                       if (ReadText(at, &to_role) && ReadRole(at, to_role, &role))
                         rule.to_role = role;
                     }},
                    {"dims", [&](const Item& at) { ReadRuleDims(at, &rule); }},
                    {"padded", [&](const Item& at) { ReadFlag(at, &rule.padded); }},
                    {"skip", [&](const Item& at) { ReadFlag(at, &rule.skip); }}});
    if (!item.node.is_map()) return;
    if (!rule.name) {
      if (!Has(item.node, "name"))  // else it has been told what is wrong with it
        Bad(item, "no 'name'", "a regular expression, e.g. 'decoder\\.layers\\.(\\d+)\\.mlp'");
      return;
    }
    if (to != nullptr) ReadTo({item.key + ".to", *to}, *rule.name, &rule);
    if (q_like != nullptr) ReadQLike({item.key + ".q_like", *q_like}, &rule);
    CheckRule(item, to != nullptr, rule);
    map_->rules.push_back(std::move(rule));
  }

  void ReadQLike(const Item& item, MapRule* rule) {
    std::string text;
    if (!ReadText(item, &text)) return;
    auto replacement = Replacement::Parse(text, *rule->name);
    if (!replacement.ok()) return Bad(item, replacement.status().message());
    rule->q_like = std::move(*replacement);
  }

  void CheckRule(const Item& item, bool has_to, const MapRule& rule) {
    const bool qkv = rule.fusion == Fusion::kQkv || rule.fusion == Fusion::kQkvGroups;
    if (rule.skip && has_to) Bad(item, "'to' and 'skip'", "one of them");
    if (!rule.skip && !has_to && !rule.to_arg && !rule.to_role && rule.dims.empty() && !rule.padded)
      Bad(item, "a rule that changes nothing", "'to', 'skip: true', 'dims' or 'to_arg'");
    if (rule.to.size() > 1 && !Has(item.node, "split"))
      Bad(item, std::to_string(rule.to.size()) + " names without 'split'",
          "split: equal | qkv | qkv_groups | copy");
    if (rule.to.size() < 2 && rule.fusion != Fusion::kNone && has_to)
      Bad(item, "'split' into " + std::to_string(rule.to.size()) + " name",
          "several names in 'to'");
    if (!has_to && rule.fusion != Fusion::kNone) Bad(item, "'split' without 'to'", "the names");
    if (qkv && has_to && rule.to.size() >= 2 && rule.to.size() != 3)
      Bad(item, std::to_string(rule.to.size()) + " names", "three names: those of q, k and v");
    if (rule.name->groups() >= Regex::kMaxGroups)
      Bad(item, "more groups than can be told apart", "(?:...) where a group is not used");
  }

  void ReadStages(const Item& item, LayerRule* rule) {
    if (item.node.is_text() && item.node.text == "auto") {
      rule->from_names = true;
    } else if (item.node.is_sequence()) {
      for (const auto& node : item.node.items) {
        if (int64_t offset = 0; ReadNumber({item.key, *node}, 0, &offset))
          rule->stages.push_back(offset);
      }
    } else {
      Bad(item, Describe(item.node), "auto, or the first layer of each stage such as [0, 12, 24]");
    }
  }

  // "4" or "4-7".
  static bool ParseRange(std::string_view text, int64_t* first, int64_t* last) {
    const auto number = [](std::string_view part, int64_t* out) {
      const auto value = ParseNumber<int64_t>(part);
      *out = value.value_or(-1);
      return *out >= 0 && *out <= 1'000'000;
    };
    const size_t dash = text.find('-');
    if (dash == std::string_view::npos) {
      if (!number(text, first)) return false;
      *last = *first;
      return true;
    }
    return number(text.substr(0, dash), first) && number(text.substr(dash + 1), last) &&
           *first <= *last;
  }

  void ReadRanges(const Item& item, LayerRule* rule) {
    if (!item.node.is_map()) return Bad(item, Describe(item.node), "a map such as {0-3: 8-11}");
    for (const YamlEntry& entry : item.node.entries) {
      const Item at{item.key + "." + Printable(entry.key), *entry.value};
      LayerRule::Range range{};
      int64_t to_last = 0;
      if (!entry.value->is_text() || !ParseRange(entry.key, &range.first, &range.last) ||
          !ParseRange(entry.value->text, &range.to, &to_last)) {
        Bad(at, Describe(*entry.value), "numbers of layers on both sides, e.g. 0-3: 8-11");
      } else if (to_last - range.to != range.last - range.first) {
        Bad(at, Printable(entry.key) + " to " + Printable(entry.value->text),
            "as many layers on both sides");
      } else {
        rule->ranges.push_back(range);
      }
    }
  }

  void ReadInterleave(const Item& item, LayerRule* rule) {
    LayerRule::Interleave of;
    ReadKeys(item, {{"layers", [&](const Item& at) { ReadCount(at, &of.layers); }},
                    {"chunks", [&](const Item& at) { ReadCount(at, &of.chunks); }},
                    {"stages", [&](const Item& at) { ReadCount(at, &of.stages); }}});
    if (of.layers == 0 || of.stages == 0) {
      Bad(item, "'layers' or 'stages' is missing",
          "layers of a chunk and stages of the pipeline: {layers: 2, stages: 4}");
    }
    rule->interleave = of;
  }

  void ReadLayer(const Item& item) {
    LayerRule rule;
    rule.at = item.node.at;
    ReadKeys(item, {{"of", [&](const Item& at) { ReadSide(at, &rule.side); }},
                    {"name", [&](const Item& at) { ReadComponents(at, &rule.name); }},
                    {"offset", [&](const Item& at) { ReadNumber(at, -1'000'000, &rule.offset); }},
                    {"stages", [&](const Item& at) { ReadStages(at, &rule); }},
                    {"interleave", [&](const Item& at) { ReadInterleave(at, &rule); }},
                    {"ranges", [&](const Item& at) { ReadRanges(at, &rule); }}});
    if (!rule.name) return Bad(item, "no 'name'", "where the number stands: 'layers\\.(\\d+)'");
    if (rule.name->groups() == 0)
      return Bad(item, "a 'name' without a group", "the number in parentheses: 'layers\\.(\\d+)'");
    map_->layers.push_back(std::move(rule));
  }

  MapData* map_;
};

}  // namespace

Result<MapData> ReadMapData(std::string_view yaml, std::string_view source_name) {
  Mistakes mistakes{std::string(source_name)};
  MapData map;
  map.source = source_name;
  try {
    const settings::YamlPtr root = settings::ParseYaml(yaml, &mistakes);
    if (root != nullptr) MapReader(&map, &mistakes).Read(*root);
  } catch (const std::exception& error) {
    mistakes.Add({}, error.what());
  }
  TDUMP_RETURN_IF_ERROR(mistakes.ToStatus());
  return map;
}

}  // namespace tdump::compare
