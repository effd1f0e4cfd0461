// The keys of a rule, and lists of rules.
#include <algorithm>

#include "filters/level.h"
#include "filters/member_settings.h"
#include "filters/parse_map.h"
#include "filters/rule_settings.h"
#include "filters/schema.h"

namespace tdump::filters {
namespace {

constexpr size_t kMaxSets = 63;  // one bit of filter_sets each; the last bit is the signature's

constexpr KeySpec<Rule> kKeys[] = {
    {
        .path = "use",
        .type = "name",
        .value = "none",
        .doc = "The rules of this list of `filters` in place of this one; no other key beside it.",
        .example = "small",
        .read = ReadUse,
        .print = PrintUse,
    },
    {
        .path = "leaf",
        .type = "true | false",
        .value = "any",
        .doc = "true: modules without child modules, taps and, with `collect: {aten: on}`, ATen "
               "operators. false: modules with children.",
        .example = "true",
        .read = ReadLeaf,
        .print = PrintLeaf,
    },
    {
        .path = "name",
        .type = "regexes",
        .value = "[]",
        .doc = "Searched in the path (of a tap: path/name; also in the other paths of a shared "
               "module).",
        .example = "['attention\\.self', 'LayerNorm$']",
        .read = ReadRegexes<&Rule::name>,
        .print = PrintList<&Rule::name>,
    },
    {
        .path = "arg",
        .type = "regexes",
        .value = "[]",
        .doc = "Searched in the argument's name: `0`, `1.hidden_states`, `kwargs.mask`.",
        .example = "'hidden_states$'",
        .read = ReadRegexes<&Rule::arg>,
        .print = PrintList<&Rule::arg>,
    },
    {
        .path = "layers",
        .type = "SPEC",
        .value = "all",
        .doc = "Layer number.",
    },
    {
        .path = "class",
        .type = "regexes",
        .value = "[]",
        .doc =
            "Searched in the class of the module (of an ATen operator: of the module around it).",
        .example = "'Linear$'",
        .read = ReadRegexes<&Rule::cls>,
        .print = PrintList<&Rule::cls>,
    },
    {
        .path = "op",
        .type = "regexes",
        .value = "[]",
        .doc = "Searched in the name of an ATen operator, such as `aten::mm`; the rule then "
               "applies to no modules and taps. Needs `collect: {aten: on}`.",
        .example = "'aten::(add)?mm$'",
        .read = ReadRegexes<&Rule::op>,
        .print = PrintList<&Rule::op>,
    },
    {
        .path = "kernel",
        .type = "regexes",
        .value = "[]",
        .doc = "Searched in the name of a kernel that Inductor made or calls, such as "
               "`cpp_fused_relu_0` or `aoti_torch_cpu_addmm_out`; the rule then applies to kernels "
               "only, and no other rule does. Needs `collect: {kernels: save}` or another of its "
               "modes, where it holds as well. `role` is then `before`, `after` or both, which is "
               "the default, and `phase` both.",
        .example = "'^triton_poi_fused'",
        .read = ReadRegexes<&Rule::kernel>,
        .print = PrintList<&Rule::kernel>,
    },
    {
        .path = "comm",
        .type = "regexes",
        .value = "[]",
        .doc = "Name of a communicator.",
    },
    {
        .path = "role",
        .type = "list",
        .value = "[output]",
        .doc =
            "`input`, `output`: what is passed and returned. `before`, `after`: an argument that "
            "an ATen operator writes, or that a compiled kernel is given. `grad_input`, "
            "`grad_output`: the gradients of a module's "
            "inputs and outputs. `param`: parameters. `param_grad`: the gradient of a parameter "
            "each time it was accumulated. `state`: buffers, and what the optimizer keeps of a "
            "parameter. Left out with `level: off`: all.",
        .example = "[input, output]",
        .read = ReadRoles,
        .print = PrintRoles,
    },
    {
        .path = "phase",
        .type = "list",
        .value = "[forward]",
        .doc =
            "`forward`, `backward`: of ATen operators and taps. The roles of gradients are of the "
            "backward phase and need no `phase`. Left out with `level: off`: both.",
        .example = "[forward, backward]",
        .read = ReadPhases,
        .print = PrintPhases,
    },
    {
        .path = "dtype",
        .type = "list",
        .value = "[]",
        .doc = "Exact names, torch's without `torch.`.",
        .example = "[bfloat16, float8_e4m3fn]",
        .read = ReadDtypes,
        .print = PrintList<&Rule::dtype>,
    },
    {
        .path = "numel",
        .type = "SPEC",
        .value = "all",
        .doc = "Number of elements.",
        .example = "0-4096",
        .read = ReadIndices<&Rule::numel>,
        .print = PrintIndices<&Rule::numel>,
    },
    {
        .path = "call",
        .type = "SPEC",
        .value = "all",
        .doc = "n-th call of the operator in the step, from 0.",
        .example = "0",
        .read = ReadIndices<&Rule::call>,
        .print = PrintIndices<&Rule::call>,
    },
    {
        .path = "max",
        .type = "all | number",
        .value = "all",
        .doc = "Records per operator and step.",
        .example = "4",
        .read = ReadMax,
        .print = PrintMax,
    },
    {
        .path = "where",
        .type = "predicate",
        .value = "none",
        .doc = "Your own code decides, once per operator: `pkg.mod:fn` or `/path/f.py:fn`, called "
               "as `fn(name, module)`; `/path/l.so:fn`, a C function `int fn(const char* name, "
               "const char* cls)`. One that fails matches nothing and is told once.",
        .example = "filters.py:wanted",
        .read = ReadWhere,
        .print = PrintOrNone<&Rule::where>,
    },
    {
        .path = "steps",
        .type = "SPEC",
        .value = "all",
        .doc = "Narrows `steps` for this rule; 0 is the first recorded step.",
        .example = "0",
        .read = ReadIndices<&Rule::steps>,
        .print = PrintIndices<&Rule::steps>,
    },
    {
        .path = "ranks",
        .type = "SPEC",
        .value = "all",
        .doc = "Narrows `ranks` for this rule.",
        .example = "[0, -1]",
        .read = ReadRuleRanks,
        .print = PrintIndices<&Rule::ranks>,
    },
    {
        .path = "level",
        .type = "level",
        .value = "full",
        .doc =
            "What is kept: `off` (nothing), `meta` (dtype, shape, strides, ...), `hash` (meta "
            "and hash), `stats` (meta and statistics), `sample[:N]` (meta and N elements, evenly "
            "spaced, 64 unless said), `slice[0:8, :]` (meta and those elements, bounds as in "
            "Python; an index is a slice of one, its dimension stays, and beyond the end nothing "
            "is kept; dimensions not named are whole), `full` (meta, hash and the values), or a "
            "list of these. Of different slices that several filter sets ask for, the whole "
            "tensor is kept. In `{...}` a slice needs quotes.",
        .example = "[hash, stats]",
        .read = ReadLevel,
        .print = PrintLevelOf,
    },
    {
        .path = "compress",
        .type = "auto | none | zstd",
        .value = "auto",
        .doc = "Compression of this rule's payloads; auto is as in `output`.",
        .example = "zstd",
        .read = ReadRuleCompress,
        .print = PrintRuleCompress,
    },
    {
        .path = "dims",
        .type = "text",
        .value = "none",
        .doc = "What the dimensions mean, in the language of `tdump-diff --dims`; kept with the "
               "record.",
        .example = "'b s h[tp]'",
        .read = ReadDims,
        .print = PrintOrNone<&Rule::dims>,
    },
};

bool Has(const YamlNode& node, std::string_view key) {
  return std::any_of(node.entries.begin(), node.entries.end(),
                     [&](const YamlEntry& e) { return e.key == key; });
}

// A rule that excludes leaves out everything it names, so its defaults do not restrict.
void WidenExclusion(const YamlNode& node, Rule* rule) {
  if (rule->level != kPartNone) return;
  if (!Has(node, "role")) {
    rule->role.clear();
    for (int i = 0; i < kRoleCount; ++i) rule->role.push_back(static_cast<Role>(i));
  }
  if (!Has(node, "phase")) rule->phase = {Phase::kForward, Phase::kBackward};
}

// What a rule for kernels leaves out is what kernels have.
void WidenForKernels(const YamlNode& node, Rule* rule) {
  if (rule->kernel.empty()) return;
  if (!Has(node, "role")) rule->role = {Role::kBefore, Role::kAfter};
  if (!Has(node, "phase")) rule->phase = {Phase::kForward, Phase::kBackward};
}

void CheckPhaseOfGradients(Reader& reader, const Setting& s, const Rule& rule) {
  if (std::find(rule.phase.begin(), rule.phase.end(), Phase::kBackward) != rule.phase.end()) return;
  for (Role role : rule.role) {
    if (!IsGradient(role)) continue;
    reader.Bad(s, "role " + std::string(ToString(role)) + " with 'phase: forward'",
               "'phase: [forward, backward]', or no 'phase': gradients are of the backward phase");
    return;
  }
}

void ReadRule(Reader& reader, const Setting& s, std::vector<Rule>* out) {
  if (!s.node.is_map()) {
    reader.Bad(s, Describe(s.node), "a rule such as {leaf: true, role: [output], level: full}");
    return;
  }
  Rule rule;
  rule.text = FlowText(s.node);
  rule.line = s.node.at.line;
  rule.column = s.node.at.column;
  ReadMap<Rule>(reader, s, RuleKeys(), &rule);
  if (!rule.use.empty() && s.node.entries.size() != 1) {
    reader.Bad(s, "'use' stands for whole rules", "no other key beside it");
  }
  if (Has(s.node, "phase")) CheckPhaseOfGradients(reader, s, rule);
  WidenForKernels(s.node, &rule);
  WidenExclusion(s.node, &rule);
  out->push_back(std::move(rule));
}

}  // namespace

std::span<const KeySpec<Rule>> RuleKeys() { return kKeys; }

std::string PrintLevel(Parts level) { return PrintLevel(Level{level, 0, {}}); }

std::string PrintRule(const Rule& rule) {
  Rule plain;
  plain.kernel = rule.kernel;
  WidenForKernels({}, &plain);
  plain.kernel.clear();
  if (rule.level == kPartNone) {
    plain.level = kPartNone;
    WidenExclusion({}, &plain);
    plain.level = kLevelFull;
  }
  std::string out;
  for (const KeySpec<Rule>& key : kKeys) {
    if (key.print == nullptr) continue;
    const std::string value = key.print(rule);
    if (value != key.print(plain))
      out += (out.empty() ? "" : ", ") + std::string(key.path) + ": " + value;
  }
  return "{" + out + "}";
}

void ReadRules(Reader& reader, const Setting& s, std::vector<Rule>* out) {
  if (!s.node.is_sequence()) {
    reader.Bad(s, Describe(s.node), "a list of rules, each '- {...}'");
    return;
  }
  out->clear();
  for (size_t i = 0; i < s.node.items.size(); ++i) {
    ReadRule(reader, {s.key + "[" + std::to_string(i) + "]", *s.node.items[i]}, out);
  }
}

void ReadCapture(Reader& reader, const Setting& s, std::vector<FilterSet>* out) {
  std::vector<FilterSet> sets;
  if (s.node.is_sequence()) {
    sets.emplace_back();
    ReadRules(reader, s, &sets.back().rules);
  } else if (s.node.is_map()) {
    for (const YamlEntry& entry : s.node.entries) {
      sets.push_back({entry.key, {}});
      ReadRules(reader, {s.key + "." + entry.key, *entry.value}, &sets.back().rules);
    }
  } else {
    reader.Bad(s, Describe(s.node), "a list of rules, or a map of such lists");
    return;
  }
  if (sets.size() > kMaxSets) {
    reader.Bad(s, std::to_string(sets.size()) + " filter sets",
               "at most " + std::to_string(kMaxSets));
    return;
  }
  *out = std::move(sets);
}

}  // namespace tdump::filters
