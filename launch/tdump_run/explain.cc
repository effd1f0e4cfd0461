#include "launch/tdump_run/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "coordinator/coverage_names.h"
#include "coordinator/merge.h"
#include "core/text.h"
#include "filters/explain.h"
#include "filters/schema.h"
#include "filters/settings.h"
#include "io/address.h"
#include "io/node_env.h"
#include "io/pass_store.h"

namespace tdump::launch {
namespace {

using filters::Config;

OperatorInfo OperatorNamed(const std::string& name) {
  OperatorInfo info;
  const size_t slash = name.find('/');
  info.path = name.substr(0, slash);
  if (slash == std::string::npos) return info;
  info.op = name.substr(slash + 1);
  info.kind = info.op.find("::") != std::string::npos ? OperatorKind::kAten : OperatorKind::kTap;
  return info;
}

// "mlp" of "mlp@output#0"; "": there is no role in the name.
std::string OperatorOfRecord(const std::string& name) {
  const size_t at = name.rfind('@');
  Role role;
  if (at == std::string::npos || at == 0) return "";
  const std::string word = name.substr(at + 1, name.find('#', at) - at - 1);
  return ParseRole(word, &role) ? name.substr(0, at) : "";
}

std::string RuleName(const Config& config, uint32_t set, uint32_t number) {
  const std::string& name = config.capture[set].name;
  return name.empty() ? fmt::format("rule {}", number) : fmt::format("{} rule {}", name, number);
}

std::string Rules(const Config& config, const filters::Explanation& explanation) {
  std::string text;
  for (const filters::RuleVerdict& rule : explanation.rules) {
    text += fmt::format("  {:<8} {}{}\n", RuleName(config, rule.filter_set, rule.number), rule.text,
                        rule.against.empty() ? "   applies" : "   does not apply: " + rule.against);
  }
  return text.empty() ? "  no rules\n" : text;
}

// Parameters and state belong to the step, not to a call.
std::string_view PhaseText(const filters::RoleVerdict& role) {
  const bool of_step = role.role == Role::kParam || role.role == Role::kState;
  return of_step ? "step" : ToString(role.phase);
}

// When in the step a role is seen that belongs to no call.
std::string_view WhenText(Role role) {
  if (role == Role::kParam) return "   before its first forward";
  if (role == Role::kState)
    return "   buffers before its first forward, what an optimizer keeps after its update";
  return "";
}

std::string Roles(const Config& config, const filters::Explanation& explanation) {
  std::string text;
  for (const filters::RoleVerdict& role : explanation.roles) {
    text +=
        fmt::format("  {:<12} {:<9} {:<5} {}{}{}\n", ToString(role.role), PhaseText(role),
                    filters::PrintLevel(role.level), RuleName(config, role.filter_set, role.number),
                    role.condition.empty() ? "" : ", if " + role.condition, WhenText(role.role));
  }
  return text.empty() ? "  nothing: no rule decides for it\n" : text;
}

std::string Signature(const Config& config, const OperatorInfo& info) {
  if (!config.signature || info.kind != OperatorKind::kModule) return "";
  std::string text =
      "  param        step      hash  signature, in the first recorded step\n"
      "  state        step      hash  signature, in the first recorded step: buffers\n";
  if (info.path == ".")
    text += "  input        forward   hash  signature, in every recorded step\n";
  return text;
}

// What is known of the operator that is asked about.
struct Asked {
  OperatorInfo info;
  bool class_known = false;       // else an empty class of `info` says nothing
  std::optional<bool> is_parent;  // whether a module has child modules
};

Result<std::string> Section(const Config& config, const Asked& asked) {
  const OperatorInfo& info = asked.info;
  TDUMP_ASSIGN_OR_RETURN(const filters::Explanation explanation,
                         filters::Explain(config, info, asked.class_known));
  const std::string ranks =
      config.ranks.is_all() ? "all ranks" : "ranks " + config.ranks.ToString();
  return fmt::format("{}kept in steps {} on {}:\n{}{}", Rules(config, explanation),
                     config.steps.ToString(), ranks, Roles(config, explanation),
                     Signature(config, info));
}

constexpr size_t kMostNear = 3;

// '.' of a child module, '/' of what ran in it; 0: the name is elsewhere.
char Below(std::string_view name, std::string_view path) {
  return name.size() > path.size() && name.starts_with(path) ? name[path.size()] : 0;
}

// The operator itself, or one in or below it.
bool IsOrHas(std::string_view name, std::string_view part) {
  const char below = Below(name, part);
  return name == part || below == '.' || below == '/';
}

// The part of `name` that is printed as `shown`; empty: none is.
std::string_view PrintedAs(std::string_view name, const std::string& shown) {
  const std::string printed = Printable(name);
  if (printed == name || !IsOrHas(printed, shown)) return {};
  size_t end = shown.size() / 4;  // a byte becomes four characters at most
  while (end < name.size() && Printable(name.substr(0, end)).size() < shown.size()) ++end;
  return Printable(name.substr(0, end)) == shown ? name.substr(0, end) : std::string_view{};
}

// What a run knows of the operators that its rules took.
class KnownOperators {
 public:
  static Result<KnownOperators> Of(const std::string& text) {
    TDUMP_ASSIGN_OR_RETURN(const io::RunRef ref, io::ResolveRun(io::RunEnv(), text));
    TDUMP_ASSIGN_OR_RETURN(auto store, io::PassStore::Open(io::RunEnv(), ref.path));
    KnownOperators known;
    known.run_ = text;
    known.operators_ = coordinator::BuildRunIndex(*store, io::GenerationOf(ref, *store)).operators;
    known.store_ = std::move(store);
    return known;
  }

  // The name as the run has it, of a name as people see it: control characters are printed as
  // \xNN.
  std::string NameOf(const std::string& asked) const {
    const auto has = [&](const io::OperatorCoverage& op) { return IsOrHas(op.name, asked); };
    if (std::any_of(operators_.begin(), operators_.end(), has)) return asked;
    for (const io::OperatorCoverage& op : operators_) {
      if (const std::string_view name = PrintedAs(op.name, asked); !name.empty())
        return std::string(name);
    }
    return asked;
  }

  // Takes the class; an operator above others need not be known itself. Error (kNotFound): the run
  // has no such operator.
  Status Describe(const std::string& name, Asked* asked) {
    OperatorInfo* info = &asked->info;
    for (const io::OperatorCoverage& op : operators_) {
      const char below = Below(op.name, info->path);
      has_children_ = has_children_ || below == '.';
      found_ = found_ || (info->op.empty() && (below == '.' || below == '/'));
      if (op.name != name) continue;
      found_ = true;
      info->cls = op.cls;
      info->kind = op.kind;
      asked->class_known = op.ranks_expected > 0;  // else its class was not written there
    }
    if (found_) return {};
    std::vector<std::string> names;
    for (const io::OperatorCoverage& op : operators_) names.push_back(op.name);
    std::string near;
    for (const std::string& other : coordinator::NearNames(name, names, kMostNear))
      near += (near.empty() ? ". Near: '" : ", '") + Printable(other) + "'";
    return NotFound(fmt::format("'{}' is none of the {} that the rules of {} took{}",
                                filters::Printable(name), Plural(operators_.size(), "operator"),
                                Printable(run_), near));
  }

  // Whether the module has child modules, as its records say, else its names; none: nobody knows.
  std::optional<bool> IsParent(const OperatorInfo& info) const {
    if (has_children_) return true;
    size_t looked_at = 0;
    for (const io::ProcessEntry& process : store_->processes()) {
      for (const io::PassEntry& pass : process.passes) {
        if (pass.file.empty()) continue;
        if (looked_at++ == kMostPasses) return std::nullopt;
        if (const auto is_leaf = LeafIn(process, pass, info)) return !*is_leaf;
      }
    }
    return std::nullopt;
  }

 private:
  static constexpr size_t kMostPasses = 4;  // one shows what its steps recorded

  std::optional<bool> LeafIn(const io::ProcessEntry& process, const io::PassEntry& pass,
                             const OperatorInfo& info) const {
    std::optional<bool> is_leaf;
    const auto reader = store_->OpenPass(process, pass);
    if (!reader.ok()) return is_leaf;
    (void)(*reader)->ForEachRecordMeta([&](const io::Record& record) {
      if (record.key.op.empty() && record.key.path == info.path &&
          record.kind == OperatorKind::kModule)
        is_leaf = record.leaf;
      return !is_leaf;
    });
    return is_leaf;
  }

  std::string run_;
  std::unique_ptr<io::PassStore> store_;
  std::vector<io::OperatorCoverage> operators_;
  bool found_ = false, has_children_ = false;
};

// A module may or may not have child modules; rules with `leaf` tell the two apart.
Result<std::string> ModuleSections(const Config& config, Asked asked) {
  bool& is_leaf = asked.info.leaf;
  if (asked.is_parent) {
    is_leaf = !*asked.is_parent;
    TDUMP_ASSIGN_OR_RETURN(const std::string section, Section(config, asked));
    return fmt::format(": a module {} child modules\n{}", is_leaf ? "without" : "with", section);
  }
  is_leaf = true;
  TDUMP_ASSIGN_OR_RETURN(const std::string leaf, Section(config, asked));
  is_leaf = false;
  TDUMP_ASSIGN_OR_RETURN(const std::string parent, Section(config, asked));
  if (leaf == parent) return ": a module\n" + leaf;
  return ": a module without child modules\n" + leaf + "\n" + Printable(asked.info.path) +
         ": a module with child modules\n" + parent;
}

}  // namespace

Result<std::string> ExplainOperator(const EffectiveConfig& settings, const Options& options) {
  std::string name = options.explain;
  if (const std::string op = OperatorOfRecord(name); !op.empty() && options.from.empty())
    return InvalidArgument(
        fmt::format("'{}' names records; --explain takes the operator and tells every role of it: "
                    "--explain {}",
                    Printable(name), ShellWord(Printable(op))));
  Asked asked{.info = OperatorNamed(name)};
  OperatorInfo& info = asked.info;
  std::string unknown = fmt::format(
      "not looked at: whether the model has '{}'; --from RUN takes that, and its class, from a "
      "run\n",
      Printable(name));
  if (!options.from.empty()) {
    TDUMP_ASSIGN_OR_RETURN(KnownOperators known, KnownOperators::Of(options.from));
    name = known.NameOf(name);
    info = OperatorNamed(name);
    TDUMP_RETURN_IF_ERROR(known.Describe(name, &asked));
    if (info.kind == OperatorKind::kModule) asked.is_parent = known.IsParent(info);
    unknown = info.cls.empty() ? "" : fmt::format("class {}\n", Printable(info.cls));
  }
  if (info.kind == OperatorKind::kModule) {
    TDUMP_ASSIGN_OR_RETURN(const std::string sections, ModuleSections(settings.config, asked));
    return Printable(info.path) + sections + unknown;
  }
  info.leaf = true;
  TDUMP_ASSIGN_OR_RETURN(const std::string section, Section(settings.config, asked));
  const char* kind = info.kind == OperatorKind::kAten ? "an ATen operator" : "a tap";
  return fmt::format("{}/{}: {}\n{}{}", Printable(info.path), Printable(info.op), kind, section,
                     unknown);
}

}  // namespace tdump::launch
