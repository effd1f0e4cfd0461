// What the rules mean: which observations are kept, with what.
#include "filters/compiled_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "filters/schema.h"
#include "filters/settings.h"
#include "parse.h"

namespace tdump::filters {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

OperatorInfo Module(const std::string& path, const std::string& cls = "torch.nn.Linear",
                    bool leaf = true) {
  return {.path = path, .cls = cls, .leaf = leaf};
}
OperatorInfo Aten(const std::string& path, const std::string& op) {
  return {.kind = OperatorKind::kAten, .path = path, .op = op, .cls = "Owner"};
}
OperatorInfo Kernel(const std::string& path, const std::string& name) {
  return {.kind = OperatorKind::kKernel, .path = path, .op = name, .leaf = true};
}
OperatorInfo Tap(const std::string& path, const std::string& name) {
  return {.kind = OperatorKind::kTap, .path = path, .op = name};
}

// A plan without the signature, asked about one operator after the other.
class Asked {
 public:
  explicit Asked(const std::string& yaml, CompiledPlan::Options options = {},
                 bool signature = false) {
    Config config = Parsed(yaml);
    config.signature = signature;
    if (!options.note) options.note = [this](const std::string& text) { notes.push_back(text); };
    auto plan = CompiledPlan::Compile(config, std::move(options));
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    plan_ = std::move(plan).value();
  }
  RuleId Op(const OperatorInfo& info) { return plan_->op(next_++, info, nullptr); }
  Decision Observe(const OperatorInfo& info, const ObservationKey& key = {}) {
    return plan_->observe(Op(info), key);
  }
  std::string Level(const OperatorInfo& info, const ObservationKey& key = {}) {
    return PrintLevel(Observe(info, key).parts);
  }
  CompiledPlan& plan() { return *plan_; }
  std::vector<std::string> notes;

 private:
  std::unique_ptr<CompiledPlan> plan_;
  OperatorId next_ = 0;
};

TEST(CompiledPlan, TheDefaultIsOutputsOfLeafModulesInFull) {
  Asked asked("");
  EXPECT_EQ(asked.Level(Module("a")), "full");
  EXPECT_EQ(asked.Level(Module("a", "Block", false)), "off");
  EXPECT_EQ(asked.Level(Module("a"), {.role = Role::kInput}), "off");
  EXPECT_EQ(asked.Level(Module("a"), {.phase = Phase::kBackward}), "off");
  EXPECT_EQ(asked.Level(Tap("a", "hidden")), "full");
  EXPECT_EQ(asked.Level(Aten("a", "aten::mm")), "off");  // collect.aten is off
}

TEST(CompiledPlan, TheFirstRuleThatMatchesDecides) {
  Asked asked(
      "capture: [{name: dropout, level: off}, {name: layer.0, level: hash}, {leaf: true}]\n");
  EXPECT_EQ(asked.Level(Module("layer.0.dropout")), "off");
  EXPECT_EQ(asked.Level(Module("layer.0.fc")), "hash");
  EXPECT_EQ(asked.Level(Module("layer.1.fc")), "full");
}

TEST(CompiledPlan, ARuleThatDoesNotWantTheRoleLeavesItToTheNext) {
  Asked asked(
      "capture: [{name: a, role: [input], level: hash}, {name: a, role: [input, output], level: "
      "meta}]\n");
  EXPECT_EQ(asked.Level(Module("a"), {.role = Role::kInput}), "hash");
  EXPECT_EQ(asked.Level(Module("a"), {.role = Role::kOutput}), "meta");
}

TEST(CompiledPlan, SetsAreUnited) {
  Asked asked(
      "capture: {x: [{name: a, level: hash}], y: [{name: a, level: meta, dims: 'b s'}, {level: "
      "full}], "
      "z: [{level: off}]}\n");
  const Decision a = asked.Observe(Module("a"));
  EXPECT_EQ(a.parts, kPartMeta | kPartHash);
  EXPECT_EQ(a.filter_sets, 0b011u);  // z decided to keep nothing: it did not ask
  EXPECT_EQ(a.dims, "b s");
  const Decision b = asked.Observe(Module("b"));
  EXPECT_EQ(b.parts, kLevelFull);
  EXPECT_EQ(b.filter_sets, 0b010u);
}

TEST(CompiledPlan, ArgumentsOfLevelsAreUnited) {
  Asked plan(R"(
output: {compress: zstd}
capture:
  a: [{level: 'sample:8', compress: none}]
  b: [{level: [stats, 'sample:100'], compress: none}]
  c: [{name: c, level: 'slice[0:2]', compress: none}]
  d: [{name: cd, level: 'slice[0:3]'}]
)");
  const Decision ab = plan.Observe(Module("x"));
  EXPECT_EQ(ab.parts, kPartMeta | kPartSample | kPartStats);
  EXPECT_EQ(ab.sample, 100u);
  EXPECT_EQ(ab.compress, Compression::kNone);
  const Decision abc = plan.Observe(Module("c"));
  EXPECT_THAT(abc.slice, ElementsAre(SliceRange{0, 2, 1}));
  EXPECT_EQ(abc.parts & kPartPayload, kPartNone);
  const Decision abcd = plan.Observe(Module("cd"));  // two slices: both are in the whole
  EXPECT_EQ(abcd.parts & (kPartSlice | kPartPayload), kPartSlice | kPartPayload);
  EXPECT_EQ(abcd.compress, Compression::kZstd);
}

TEST(CompiledPlan, OffInOneSetDoesNotTouchAnother) {
  Asked asked("capture: {x: [{level: off}], y: [{leaf: true}]}\n");
  EXPECT_EQ(asked.Level(Module("a")), "full");
}

TEST(CompiledPlan, NamesAreSearchedInAllPathsOfASharedModule) {
  Asked asked("capture: [{name: '^decoder\\.embed$'}]\n");
  OperatorInfo shared = Module("encoder.embed");
  EXPECT_EQ(asked.Level(shared), "off");
  shared.aliases = {"x", "decoder.embed"};
  EXPECT_EQ(asked.Level(shared), "full");
}

TEST(CompiledPlan, NamesOfFurtherRootsHaveTheirPrefix) {
  Asked asked("capture: [{name: '^Critic#1\\.fc$'}]\n");
  OperatorInfo info = Module("fc");
  EXPECT_EQ(asked.Level(info), "off");
  info.root = "Critic#1";
  EXPECT_EQ(asked.Level(info), "full");
}

TEST(CompiledPlan, AnyRegexOfAListMatches) {
  Asked asked("capture: [{name: ['^a$', '^b$']}]\n");
  EXPECT_EQ(asked.Level(Module("a")), "full");
  EXPECT_EQ(asked.Level(Module("b")), "full");
  EXPECT_EQ(asked.Level(Module("ab")), "off");
}

TEST(CompiledPlan, ClassAndLeaf) {
  Asked asked("capture: [{class: 'Linear$', leaf: true}, {leaf: false, level: hash}]\n");
  EXPECT_EQ(asked.Level(Module("a")), "full");
  EXPECT_EQ(asked.Level(Module("a", "torch.nn.ReLU")), "off");
  EXPECT_EQ(asked.Level(Module("a", "Block", false)), "hash");
  EXPECT_EQ(asked.Level(Tap("a", "t")), "off");  // a tap is a leaf, and has no class
}

TEST(CompiledPlan, OperatorsByName) {
  Asked asked(
      "collect: {aten: on}\ncapture: [{op: '^aten::mm$', name: mlp, level: hash}, {op: '.', level: "
      "meta}]\n");
  EXPECT_EQ(asked.Level(Aten("mlp", "aten::mm")), "hash");
  EXPECT_EQ(asked.Level(Aten("attn", "aten::mm")), "meta");
  EXPECT_EQ(asked.Level(Module("mlp")), "off");  // a rule with `op` is for operators only
  EXPECT_EQ(asked.Level(Tap("mlp", "aten::mm")), "off");
}

TEST(CompiledPlan, OperatorsCountAsLeavesOnceCollected) {
  EXPECT_EQ(Asked("collect: {aten: on}\n").Level(Aten("a", "aten::mm")), "full");
  EXPECT_EQ(Asked("collect: {aten: on}\ncapture: [{name: a}]\n").Level(Aten("a", "aten::mm")),
            "off");
}

TEST(CompiledPlan, KernelsAreOfTheRulesThatNameOne) {
  Asked asked(
      "collect: {kernels: save}\n"
      "capture: [{kernel: relu, level: off}, {kernel: [fused, _mm_], level: hash}, {leaf: "
      "true}]\n");
  const ObservationKey before{.role = Role::kBefore}, after{.role = Role::kAfter};
  const ObservationKey backward{.role = Role::kAfter, .phase = Phase::kBackward};
  EXPECT_EQ(asked.Level(Kernel("a", "cpp_fused_mul_0"), before), "hash");
  EXPECT_EQ(asked.Level(Kernel("a", "cpp_fused_mul_0"), after), "hash");
  EXPECT_EQ(asked.Level(Kernel("a", "cpp_fused_mul_0"), backward), "hash");
  EXPECT_EQ(asked.Level(Kernel("a", "cpp_fused_relu_0"), after), "off");
  EXPECT_EQ(asked.Level(Kernel("", "aoti_torch_cpu_mm_out"), after), "hash");
  EXPECT_EQ(asked.Level(Kernel("", "aoti_torch_cpu_bmm_out"), after), "off");
  EXPECT_EQ(asked.Level(Module("fused_relu")), "full");  // of its own rule
  EXPECT_TRUE(asked.plan().wants_kind(OperatorKind::kKernel));
}

TEST(CompiledPlan, WithoutARuleForThemAllKernelsAreWanted) {
  Asked all("collect: {kernels: print}\ncapture: [{name: '^x', level: hash}]\n");
  EXPECT_EQ(all.Level(Kernel("", "k"), {.role = Role::kBefore}), "full");
  EXPECT_EQ(all.Level(Module("a")), "off");
  Asked only("collect: {kernels: save}\n");
  EXPECT_EQ(only.Level(Kernel("", "k"), {.role = Role::kBefore}), "full");
  EXPECT_EQ(only.Level(Module("a")), "off");
  Asked leaves(
      "collect: {kernels: save}\ncapture: [{leaf: true}]\n");  // no less for being the default
  EXPECT_EQ(leaves.Level(Kernel("", "k"), {.role = Role::kBefore}), "full");
  EXPECT_EQ(leaves.Level(Module("a")), "full");
  Asked none("collect: {kernels: print}\ncapture: {}\n");
  EXPECT_EQ(none.Level(Kernel("", "k"), {.role = Role::kAfter}), "full");
  Asked unused(
      "collect: {kernels: save}\nfilters: {mine: [{kernel: x}]}\ncapture: [{name: '^y'}]\n");
  EXPECT_EQ(unused.Level(Kernel("", "k"), {.role = Role::kAfter}), "full");
  Asked used("collect: {kernels: save}\nfilters: {mine: [{kernel: x}]}\ncapture: [{use: mine}]\n");
  EXPECT_EQ(used.Level(Kernel("", "k"), {.role = Role::kAfter}), "off");
  Asked off("");
  EXPECT_EQ(off.Level(Kernel("", "k"), {.role = Role::kAfter}), "off");
  EXPECT_FALSE(off.plan().wants_kind(OperatorKind::kKernel));
}

TEST(CompiledPlan, KernelPatternsThatMatchNothingAreCounted) {
  Asked asked("collect: {kernels: save}\ncapture: [{kernel: [relu, gelu]}]\n");
  asked.Op(Kernel("", "cpp_fused_relu_0"));
  const auto counts = asked.plan().Counts();
  ASSERT_EQ(counts.size(), 2u);
  EXPECT_EQ(counts[0].matched, 1u);
  EXPECT_EQ(counts[1].selector, "gelu");
}

TEST(CompiledPlan, KindsThatAreNotCollected) {
  Asked asked("collect: {modules: off, taps: off}\ncapture: [{}]\n");
  EXPECT_EQ(asked.Level(Module("a")), "off");
  EXPECT_EQ(asked.Level(Tap("a", "t")), "off");
  EXPECT_FALSE(asked.plan().wants_kind(OperatorKind::kModule));
  EXPECT_FALSE(asked.plan().wants_kind(OperatorKind::kTap));
  EXPECT_TRUE(Asked("").plan().wants_kind(OperatorKind::kModule));
  EXPECT_FALSE(Asked("capture: [{level: off}]\n").plan().wants_kind(OperatorKind::kModule));
  EXPECT_FALSE(Asked("").plan().wants_kind(OperatorKind::kAten));
}

TEST(CompiledPlan, RolesAndPhases) {
  Asked asked(
      "capture: [{role: [input], phase: [backward]}, {role: [before, after], phase: "
      "[forward, backward], "
      "level: meta}]\n");
  const RuleId rule = asked.Op(Module("a"));
  EXPECT_TRUE(asked.plan().wants(rule, Role::kInput, Phase::kBackward));
  EXPECT_FALSE(asked.plan().wants(rule, Role::kInput, Phase::kForward));
  EXPECT_TRUE(asked.plan().wants(rule, Role::kBefore, Phase::kForward));
  EXPECT_FALSE(asked.plan().wants(rule, Role::kOutput, Phase::kForward));
  EXPECT_EQ(asked.Level(Module("b"), {.role = Role::kInput, .phase = Phase::kBackward}), "full");
  EXPECT_EQ(asked.Level(Module("b"), {.role = Role::kAfter, .phase = Phase::kBackward}), "meta");
}

TEST(CompiledPlan, GradientsAreOfTheBackwardPhaseWhateverThePhaseOfTheRule) {
  for (const char* phase : {"", ", phase: backward", ", phase: [forward, backward]"}) {
    Asked asked("collect: {aten: on}\ncapture: [{leaf: true, role: [grad_output, param_grad]" +
                std::string(phase) + ", level: hash}]\n");
    const RuleId rule = asked.Op(Module("a"));
    EXPECT_TRUE(asked.plan().wants(rule, Role::kGradOutput, Phase::kBackward));
    EXPECT_TRUE(asked.plan().wants(rule, Role::kParamGrad, Phase::kBackward));
    EXPECT_FALSE(asked.plan().wants(rule, Role::kGradOutput, Phase::kForward));
    EXPECT_FALSE(asked.plan().wants(rule, Role::kGradInput, Phase::kBackward));
    EXPECT_TRUE(asked.plan().wants_calls(rule));
    EXPECT_EQ(asked.Level(Module("a"), {.role = Role::kGradOutput, .phase = Phase::kBackward}),
              "hash");
    EXPECT_EQ(asked.Op(Aten("a", "aten::mm")), kNoRule);  // leaves, but without gradients
  }
  Asked only("capture: [{leaf: true, role: [param_grad, state]}]\n");
  EXPECT_FALSE(only.plan().wants_calls(only.Op(Module("a"))));
}

TEST(CompiledPlan, ArgDtypeNumelCallAndStep) {
  Asked arg("capture: [{arg: 'mask$', role: [input]}]\n");
  EXPECT_EQ(arg.Level(Module("a"), {.role = Role::kInput, .arg = "kwargs.mask"}), "full");
  EXPECT_EQ(arg.Level(Module("a"), {.role = Role::kInput, .arg = "0"}), "off");
  Asked dtype("capture: [{dtype: [bfloat16, float16]}]\n");
  EXPECT_EQ(dtype.Level(Module("a"), {.dtype = "float16"}), "full");
  EXPECT_EQ(dtype.Level(Module("a"), {.dtype = "float"}), "off");
  Asked numel("capture: [{numel: 0-15, level: off}, {}]\n");
  EXPECT_EQ(numel.Level(Module("a"), {.numel = 15}), "off");
  EXPECT_EQ(numel.Level(Module("a"), {.numel = 16}), "full");
  Asked call("capture: [{call: [0, 2]}]\n");
  EXPECT_EQ(call.Level(Module("a"), {.call = 2}), "full");
  EXPECT_EQ(call.Level(Module("a"), {.call = 1}), "off");
  Asked step("capture: [{steps: 0, level: full}, {level: hash}]\n");
  EXPECT_EQ(step.Level(Module("a"), {.step = 0}), "full");
  EXPECT_EQ(step.Level(Module("a"), {.step = 1}), "hash");
}

TEST(CompiledPlan, RanksOfARule) {
  const std::string yaml = "capture: [{ranks: [0, -1], level: full}, {level: hash}]\n";
  const auto level = [&](int rank) {
    return Asked(yaml, {.rank = rank, .world = 4}).Level(Module("a"));
  };
  EXPECT_EQ(level(0), "full");
  EXPECT_EQ(level(1), "hash");
  EXPECT_EQ(level(3), "full");
}

TEST(CompiledPlan, MaxIsTheLargestOfTheSetsThatAskAndNoneWins) {
  EXPECT_EQ(Asked("capture: [{max: 3}]\n").Observe(Module("a")).max_records, 3u);
  EXPECT_EQ(Asked("capture: {x: [{max: 3}], y: [{max: 5}]}\n").Observe(Module("a")).max_records,
            5u);
  EXPECT_EQ(Asked("capture: {x: [{max: 3}], y: [{}]}\n").Observe(Module("a")).max_records, 0u);
  EXPECT_EQ(Asked("capture: {x: [{}], y: [{max: 3}]}\n").Observe(Module("a")).max_records, 0u);
}

TEST(CompiledPlan, UsedListsDecideInPlace) {
  Asked asked(
      "filters: {small: [{numel: 0-15, level: off}]}\ncapture: [{use: small}, {leaf: true}]\n");
  EXPECT_EQ(asked.Level(Module("a"), {.numel = 3}), "off");
  EXPECT_EQ(asked.Level(Module("a"), {.numel = 30}), "full");
}

TEST(CompiledPlan, SignatureIsASetOfItsOwn) {
  Asked asked("capture: [{name: nothing}]\n", {}, /*signature=*/true);
  const Decision param =
      asked.Observe(Module("a"), {.role = Role::kParam, .step = 3, .first_state = true});
  EXPECT_EQ(param.parts, kPartMeta | kPartHash);
  EXPECT_EQ(param.filter_sets, kSignatureSet);
  EXPECT_EQ(asked.Level(Module("a"), {.role = Role::kState, .first_state = true}), "hash");
  EXPECT_EQ(asked.Level(Module("a"), {.role = Role::kParam, .step = 0}), "off");
  EXPECT_EQ(asked.Level(Module("."), {.role = Role::kInput, .step = 7}), "hash");
  EXPECT_EQ(asked.Level(Module("a"), {.role = Role::kInput}), "off");
  const RuleId rule = asked.Op(Module("a"));
  EXPECT_FALSE(asked.plan().wants_calls(rule));
  EXPECT_FALSE(asked.plan().expects_calls(rule));
  EXPECT_TRUE(asked.plan().wants_calls(asked.Op(Module("."))));
  EXPECT_FALSE(asked.plan().expects_calls(asked.Op(Module("."))));
}

TEST(CompiledPlan, ANameIsMatchedOnce) {
  Asked asked("capture: [{name: ['a', 'b'], class: Linear}, {name: c}]\n");
  const OperatorInfo info = Module("layer.b");
  const uint64_t before = Regex::SearchesOfThread();
  const RuleId rule = asked.plan().op(7, info, nullptr);
  EXPECT_EQ(Regex::SearchesOfThread() - before, 4u);  // a, b, Linear, c
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(asked.plan().op(7, info, nullptr), rule);
    EXPECT_EQ(asked.plan().observe(rule, {.call = static_cast<uint64_t>(i)}).parts, kLevelFull);
  }
  EXPECT_EQ(Regex::SearchesOfThread() - before, 4u);
}

TEST(CompiledPlan, OperatorsWithTheSameCandidatesShareARule) {
  Asked asked("capture: [{name: a}, {name: b, level: hash}]\n");
  EXPECT_EQ(asked.Op(Module("a.0")), asked.Op(Module("a.1")));
  EXPECT_NE(asked.Op(Module("a.0")), asked.Op(Module("b.0")));
  EXPECT_EQ(asked.Op(Module("c")), kNoRule);
}

TEST(CompiledPlan, IsPureAndAgreesFromManyThreads) {
  Asked asked("capture: [{name: '[02468]$', numel: 10-20}, {leaf: true, level: hash}]\n");
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (OperatorId op = 0; op < 2000; ++op) {
        const RuleId rule = asked.plan().op(op, Module("m" + std::to_string(op)), nullptr);
        const Parts expected = op % 2 == 0 ? kLevelFull : kPartMeta | kPartHash;
        if (asked.plan().observe(rule, {.numel = 15}).parts != expected) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

class CountingPredicate final : public PredicateHost {
 public:
  Result<bool> Evaluate(const std::string& spec, const OperatorInfo& info, const void*) override {
    ++calls;
    if (info.path == "throws") throw std::runtime_error("boom");
    if (info.path == "fails") return Internal("ValueError: no");
    return info.path == "wanted";
  }
  int calls = 0;
};

TEST(CompiledPlan, PredicatesAreAskedOnceAndLast) {
  Asked asked("capture: [{where: 'm:f', name: '^(wanted|other)$'}]\n");
  CountingPredicate predicate;
  asked.plan().SetPredicateHost(&predicate);
  const RuleId rule = asked.plan().op(1, Module("wanted"), nullptr);
  EXPECT_EQ(asked.plan().observe(rule, {}).parts, kLevelFull);
  asked.plan().op(1, Module("wanted"), nullptr);
  EXPECT_EQ(asked.plan().op(2, Module("other"), nullptr), kNoRule);
  asked.plan().op(3, Module("elsewhere"), nullptr);  // its name does not match: not asked
  EXPECT_EQ(predicate.calls, 2);
}

TEST(CompiledPlan, AFailingPredicateMatchesNothingAndIsToldOnce) {
  Asked asked("capture: [{where: 'm:f'}, {level: hash}]\n");
  EXPECT_EQ(asked.Level(Module("early")), "hash");
  EXPECT_THAT(asked.notes, ElementsAre(HasSubstr("no Python in this process")));
  asked.notes.clear();
  CountingPredicate predicate;
  asked.plan().SetPredicateHost(&predicate);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(asked.Level(Module("throws")), "hash");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(asked.Level(Module("fails")), "hash");
  EXPECT_THAT(asked.notes, ElementsAre("predicate m:f failed, its rule does not match: boom"));
}

TEST(CompiledPlan, ARegexThatGivesUpIsToldOnceAndMatchesNothing) {
  Asked asked("capture: [{name: '(a+)+$'}]\n");
  const std::string hostile = std::string(60, 'a') + "!";
  EXPECT_EQ(asked.Level(Module(hostile)), "off");
  EXPECT_EQ(asked.Level(Module(hostile)), "off");
  ASSERT_EQ(asked.notes.size(), 1u);
  EXPECT_THAT(asked.notes[0], HasSubstr("regex '(a+)+$' gave up"));
}

TEST(CompiledPlan, OfWhatIsComputedAnewGradientsStay) {
  const char* rules = "capture: [{role: [output, grad_output], phase: [forward, backward]}]\n";
  const ObservationKey output{.recompute = true};
  const ObservationKey gradient{
      .role = Role::kGradOutput, .phase = Phase::kBackward, .recompute = true};
  Asked marks(rules), drops(std::string("recompute: drop\n") + rules);
  EXPECT_EQ(marks.Level(Module("a"), output), "full");
  EXPECT_EQ(drops.Level(Module("a"), output), "off");
  EXPECT_EQ(drops.Level(Module("a"), {}), "full");
  EXPECT_EQ(drops.Level(Module("a"), gradient), "full");
}

TEST(CompiledPlan, CountsOfRulesAndOfRegexesThatMatchedNothing) {
  Asked asked(
      "capture: [{name: [a, nope]}, {name: never}, {use: f}]\nfilters: {f: [{leaf: true}]}\n");
  asked.Op(Module("a.0"));
  asked.Op(Module("a.1"));
  std::vector<std::string> lines;
  for (const RuleCount& count : asked.plan().Counts())
    lines.push_back(std::to_string(count.rule) + " " + count.selector + " " +
                    std::to_string(count.matched));
  EXPECT_THAT(lines, ElementsAre("1  2", "1 nope 0", "2 never 0", "3  2"));
}

TEST(CompiledPlan, ABadRegexIsAnError) {
  Config config = DefaultConfig();
  config.capture[0].rules[0].name = {"a(b"};
  EXPECT_THAT(CompiledPlan::Compile(config, {}).status().message(), HasSubstr("a(b"));
}

}  // namespace
}  // namespace tdump::filters
