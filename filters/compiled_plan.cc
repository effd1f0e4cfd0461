#include "filters/compiled_plan.h"

#include <algorithm>

#include "core/key.h"
#include "core/text.h"
#include "filters/use.h"

namespace tdump::filters {
namespace {

constexpr Parts kSignatureParts = kPartMeta | kPartHash;

bool IsCollected(const Config& config, OperatorKind kind) {
  switch (kind) {
    case OperatorKind::kModule:
      return config.modules != Tri::kOff;
    case OperatorKind::kTap:
      return config.taps != Tri::kOff;
    case OperatorKind::kAten:
      return config.aten;
    case OperatorKind::kKernel:
      return config.kernels != KernelMode::kOff;
    default:
      return false;
  }
}

// Bits of all (role, phase) that the rule may match.
uint32_t WantedBy(const RuleMatcher& rule) {
  uint32_t bits = 0;
  for (int role = 0; role < kRoleCount; ++role) {
    for (Phase phase : {Phase::kForward, Phase::kBackward}) {
      if (rule.Wants(static_cast<Role>(role), phase))
        bits |= CompiledPlan::WantedBit(static_cast<Role>(role), phase);
    }
  }
  return bits;
}

// The rule decides whatever else the observation is: nothing behind it in
// its set sees these roles and phases.
bool IsFinal(const Rule& rule) {
  return rule.arg.empty() && rule.dtype.empty() && rule.numel.is_all() && rule.call.is_all() &&
         rule.steps.is_all();
}

constexpr uint32_t BothPhases(Role role) {
  return CompiledPlan::WantedBit(role, Phase::kForward) |
         CompiledPlan::WantedBit(role, Phase::kBackward);
}
// What belongs to no call.
constexpr uint32_t kNoCall =
    BothPhases(Role::kParam) | BothPhases(Role::kParamGrad) | BothPhases(Role::kState);

// Of modules and taps; the gradients of ATen operators are what their backward operators give.
constexpr uint32_t kGradients =
    BothPhases(Role::kGradInput) | BothPhases(Role::kGradOutput) | BothPhases(Role::kParamGrad);

// Two slices that differ are both in the whole payload.
void UniteSlices(const Rule& rule, Decision* decision) {
  if ((rule.level & kPartSlice) == 0) return;
  const std::span<const SliceRange> slice(rule.slice);
  if ((decision->parts & kPartSlice) == 0)
    decision->slice = slice;
  else if (!std::equal(slice.begin(), slice.end(), decision->slice.begin(), decision->slice.end()))
    decision->parts |= kPartPayload;
}

// A list that nothing uses names none.
bool NamesKernels(const Config& config) {
  const auto names = [&config](const FilterSet& set) {
    const std::vector<ExpandedRule> rules = ExpandUses(config, set);
    return std::any_of(rules.begin(), rules.end(),
                       [](const ExpandedRule& rule) { return !rule.rule->kernel.empty(); });
  };
  return std::any_of(config.capture.begin(), config.capture.end(), names);
}

Rule EveryKernel() {
  Rule rule;
  rule.text = "{kernel: .} (collect.kernels)";
  rule.kernel = {"."};
  rule.role = {Role::kBefore, Role::kAfter};
  rule.phase = {Phase::kForward, Phase::kBackward};
  return rule;
}

// Where kernels are collected and no rule is for them, there is one for all.
void AddKernels(Config* config) {
  LeaveOutDefaultRule(config);
  if (config->kernels == KernelMode::kOff || NamesKernels(*config)) return;
  if (config->capture.empty()) config->capture.emplace_back();
  config->capture.front().rules.push_back(EveryKernel());
}

// Rules with what they inherit filled in.
Config Complete(Config config) {
  AddKernels(&config);
  const auto complete = [&config](std::vector<Rule>* rules) {
    for (Rule& rule : *rules) rule.compress = rule.compress.value_or(config.compress);
  };
  for (FilterSet& set : config.capture) complete(&set.rules);
  for (auto& [name, rules] : config.filters) complete(&rules);
  return config;
}

void Unite(const Rule& rule, uint32_t filter_set, Decision* decision) {
  const bool first = decision->parts == kPartNone;
  UniteSlices(rule, decision);
  decision->parts |= rule.level;
  decision->sample = std::max(decision->sample, rule.sample);
  decision->compress = std::max(decision->compress, *rule.compress);
  decision->filter_sets |= uint64_t{1} << filter_set;
  if (decision->dims.empty()) decision->dims = rule.dims;
  const bool limited = rule.max != 0 && (first || decision->max_records != 0);
  decision->max_records = limited ? std::max(decision->max_records, rule.max) : 0;
}

}  // namespace

void LeaveOutDefaultRule(Config* config) {
  if (config->kernels == KernelMode::kOff || config->capture != DefaultConfig().capture) return;
  if (config->capture.front().rules.front().line == 0) config->capture.clear();
}

CompiledPlan::CompiledPlan(const Config& config, Options options)
    : config_(Complete(config)), options_(std::move(options)) {}

CompiledPlan::~CompiledPlan() = default;

Result<std::unique_ptr<CompiledPlan>> CompiledPlan::Compile(const Config& config, Options options) {
  std::unique_ptr<CompiledPlan> plan(new CompiledPlan(config, std::move(options)));
  TDUMP_RETURN_IF_ERROR(plan->Build());
  return plan;
}

Status CompiledPlan::Build() {
  const auto rank = static_cast<uint64_t>(options_.rank);
  const auto world = static_cast<uint64_t>(options_.world);
  for (size_t set = 0; set < config_.capture.size() && set < 63; ++set) {
    for (const ExpandedRule& expanded : ExpandUses(config_, config_.capture[set])) {
      if (!expanded.rule->ranks.Contains(rank, world)) continue;
      TDUMP_ASSIGN_OR_RETURN(
          auto matcher,
          RuleMatcher::Compile(*expanded.rule, static_cast<uint32_t>(set), expanded.number));
      matchers_.push_back(std::move(matcher));
    }
  }
  tallies_.resize(matchers_.size());
  owned_.push_back(std::make_unique<Candidates>());  // kNoRule
  candidates_.Set(kNoRule, owned_.back().get());
  return Status::Ok();
}

void CompiledPlan::NoteOnce(const std::string& topic, const std::string& text) const {
  {
    std::lock_guard lock(note_mutex_);
    if (!noted_.insert(topic).second) return;
  }
  if (options_.note) options_.note(tdump::Printable(text));
}

bool CompiledPlan::Satisfies(const Rule& rule, const OperatorInfo& info,
                             const void* subject) const {
  if (rule.where.empty()) return true;
  const bool is_object =
      rule.where.find(".so") != std::string::npos &&
      ParsePredicate(rule.where).value().kind == PredicateSpec::Kind::kSharedObject;
  PredicateHost* host =
      is_object ? SharedObjectPredicates() : python_.load(std::memory_order_acquire);
  std::string why = "no Python in this process";
  try {
    if (host != nullptr) {
      const Result<bool> answer = host->Evaluate(rule.where, info, subject);
      if (answer.ok()) return *answer;
      why = answer.status().message();
    }
  } catch (const std::exception& error) {
    why = error.what();
  } catch (...) {
    why = "an exception of unknown type";
  }
  const std::string predicate = "predicate " + rule.where;
  NoteOnce(predicate, predicate + " failed, its rule does not match: " + why);
  return false;
}

// Tries every rule; each pattern of a list is tried, so that one that never matches can be told.
std::vector<CompiledPlan::Hit> CompiledPlan::Try(const OperatorInfo& info,
                                                 const void* subject) const {
  std::vector<Hit> hits;
  if (!IsCollected(config_, info.kind)) return hits;
  const std::vector<std::string> names = SearchedNames(info);
  const auto gave_up = [&](const Regex& regex, const std::string& text) {
    NoteOnce("regex " + regex.pattern(), "regex '" + regex.pattern() + "' gave up on '" + text +
                                             "' and others: too much backtracking; no match");
  };
  for (size_t i = 0; i < matchers_.size(); ++i) {
    const RuleMatcher& matcher = *matchers_[i];
    Hit hit{.matcher = i};
    if (!matcher.AppliesTo(info.kind, info.leaf)) continue;
    if (!matcher.name.Matches(names, &hit.name, gave_up)) continue;
    if (!matcher.cls.Matches({info.cls}, &hit.cls, gave_up)) continue;
    if (!matcher.op.Matches({info.op}, &hit.op, gave_up)) continue;
    if (!matcher.kernel.Matches({info.op}, &hit.kernel, gave_up)) continue;
    if (Satisfies(*matcher.rule, info, subject)) hits.push_back(hit);
  }
  return hits;
}

// Leaves out what an earlier rule of the same set decides in every case.
CompiledPlan::Candidates CompiledPlan::Select(const std::vector<Hit>& hits,
                                              const OperatorInfo& info) const {
  Candidates candidates;
  uint32_t set = 0, closed = 0;
  for (const Hit& hit : hits) {
    const RuleMatcher& matcher = *matchers_[hit.matcher];
    if (matcher.filter_set != set) closed = 0;
    set = matcher.filter_set;
    uint32_t open = WantedBy(matcher) & ~closed;
    if (info.kind == OperatorKind::kAten) open &= ~kGradients;
    if (open == 0) continue;
    if (IsFinal(*matcher.rule)) closed |= open;
    if (matcher.rule->level != kPartNone) candidates.wanted |= open;
    candidates.rules.push_back(&matcher);
  }
  if (candidates.wanted == 0) candidates.rules.clear();
  candidates.asked = candidates.wanted;
  if (!config_.signature || info.kind != OperatorKind::kModule || !IsCollected(config_, info.kind))
    return candidates;
  candidates.signature_params = true;
  candidates.wanted |= WantedBit(Role::kParam, Phase::kForward);
  candidates.wanted |= WantedBit(Role::kState, Phase::kForward);
  if (info.path == ".") {
    candidates.signature_inputs = true;
    candidates.wanted |= WantedBit(Role::kInput, Phase::kForward);
  }
  return candidates;
}

CompiledPlan::Candidates CompiledPlan::Explain(const OperatorInfo& info,
                                               const void* subject) const {
  return Select(Try(info, subject), info);
}

RuleId CompiledPlan::Intern(const Candidates& candidates) {
  if (candidates.wanted == 0) return kNoRule;
  for (size_t id = 1; id < owned_.size(); ++id) {
    if (*owned_[id] == candidates) return static_cast<RuleId>(id);
  }
  const auto id = static_cast<RuleId>(owned_.size());
  auto owned = std::make_unique<Candidates>(candidates);
  if (!candidates_.Set(id, owned.get())) return kNoRule;
  owned_.push_back(std::move(owned));
  return id;
}

// Predicates run without the lock: they may wait for Python's, whose holder may wait for ours. Two
// threads that meet a new operator at once may both evaluate; the first answer stays.
RuleId CompiledPlan::Decide(OperatorId op, const OperatorInfo& info, const void* subject) {
  uint64_t epoch = 0;
  {
    std::lock_guard lock(mutex_);
    epoch = epoch_;
  }
  const std::vector<Hit> hits = Try(info, subject);
  const Candidates candidates = Select(hits, info);
  std::lock_guard lock(mutex_);
  if (const RuleId known = decided_.Get(op); known != 0) return known - 1;
  const RuleId rule = Intern(candidates);
  if (epoch != epoch_) return rule;
  decided_.Set(op, rule + 1);
  for (const Hit& hit : hits) {
    Tally& tally = tallies_[hit.matcher];
    ++tally.matched;
    tally.name |= hit.name;
    tally.cls |= hit.cls;
    tally.op |= hit.op;
    tally.kernel |= hit.kernel;
  }
  return rule;
}

RuleId CompiledPlan::op(OperatorId op, const OperatorInfo& info, const void* subject) noexcept {
  if (const RuleId known = decided_.Get(op); known != 0) return known - 1;
  try {
    return Decide(op, info, subject);
  } catch (...) {  // out of memory
    return kNoRule;
  }
}

Decision CompiledPlan::observe(RuleId rule, const ObservationKey& key) const noexcept {
  Decision decision;
  const Candidates* candidates = candidates_.Get(rule);
  if (candidates == nullptr || (candidates->wanted & WantedBit(key.role, key.phase)) == 0)
    return decision;
  // Gradients stay: of what a checkpoint computes anew there are no others.
  if (config_.drop_recomputed && key.recompute && key.phase == Phase::kForward) return decision;
  uint32_t decided_set = ~0u;
  for (const RuleMatcher* matcher : candidates->rules) {
    if (matcher->filter_set == decided_set || !matcher->Matches(key)) continue;
    decided_set = matcher->filter_set;
    if (matcher->rule->level != kPartNone) Unite(*matcher->rule, matcher->filter_set, &decision);
  }
  const bool is_state = key.role == Role::kParam || key.role == Role::kState;
  const bool signed_param = candidates->signature_params && is_state && key.first_state;
  const bool signed_input = candidates->signature_inputs && key.role == Role::kInput;
  if (key.phase == Phase::kForward && (signed_param || signed_input)) {
    decision.parts |= kSignatureParts;
    decision.filter_sets |= kSignatureSet;
    decision.max_records = 0;
  }
  return decision;
}

bool CompiledPlan::wants(RuleId rule, Role role, Phase phase) const noexcept {
  const Candidates* candidates = candidates_.Get(rule);
  return candidates != nullptr && (candidates->wanted & WantedBit(role, phase)) != 0;
}

bool CompiledPlan::wants_calls(RuleId rule) const noexcept {
  const Candidates* candidates = candidates_.Get(rule);
  return candidates != nullptr && (candidates->wanted & ~kNoCall) != 0;
}

bool CompiledPlan::expects_calls(RuleId rule) const noexcept {
  const Candidates* candidates = candidates_.Get(rule);
  return candidates != nullptr && (candidates->asked & ~kNoCall) != 0;
}

bool CompiledPlan::wants_kind(OperatorKind kind) const noexcept {
  if (!IsCollected(config_, kind)) return false;
  if (kind == OperatorKind::kModule && config_.signature) return true;
  return std::any_of(matchers_.begin(), matchers_.end(), [&](const auto& matcher) {
    return matcher->AppliesTo(kind) && matcher->rule->level != kPartNone;
  });
}

void CompiledPlan::SetPredicateHost(PredicateHost* host) noexcept {
  {
    std::lock_guard lock(note_mutex_);
    noted_.clear();
  }
  std::lock_guard lock(mutex_);
  python_.store(host, std::memory_order_release);
  ++epoch_;
  decided_.Clear();
  for (Tally& tally : tallies_) tally = {};
}

std::vector<const RuleMatcher*> CompiledPlan::Unmatched() const {
  std::lock_guard lock(mutex_);
  std::vector<const RuleMatcher*> rules;
  for (size_t i = 0; i < matchers_.size(); ++i) {
    if (tallies_[i].matched == 0) rules.push_back(matchers_[i].get());
  }
  return rules;
}

std::vector<RuleCount> CompiledPlan::Counts() const {
  std::lock_guard lock(mutex_);
  std::vector<RuleCount> counts;
  for (size_t i = 0; i < matchers_.size(); ++i) {
    const RuleMatcher& matcher = *matchers_[i];
    const Tally& tally = tallies_[i];
    const bool off = matcher.rule->level == kPartNone;
    RuleCount count{matcher.filter_set, matcher.number, matcher.rule->text, "", tally.matched, off};
    const auto& names = matcher.name.regexes();
    if (tally.matched == 0 && names.size() == 1) count.selector = names[0].pattern();
    counts.push_back(count);
    const auto add = [&](const PatternList& list, uint64_t hits) {
      const auto& regexes = list.regexes();
      for (size_t k = 0; regexes.size() > 1 && k < std::min<size_t>(regexes.size(), 63); ++k) {
        if ((hits >> k & 1) != 0) continue;
        counts.push_back(
            {matcher.filter_set, matcher.number, matcher.rule->text, regexes[k].pattern(), 0, off});
      }
    };
    add(matcher.name, tally.name);
    add(matcher.cls, tally.cls);
    add(matcher.op, tally.op);
    add(matcher.kernel, tally.kernel);
  }
  return counts;
}

}  // namespace tdump::filters
