#include "filters/print_config.h"

#include <gtest/gtest.h>

#include <random>

#include "filters/schema.h"
#include "parse.h"

namespace tdump::filters {
namespace {

// Values of every kind by a fixed seed.
class Any {
 public:
  explicit Any(uint32_t seed) : random_(seed) {}
  size_t Below(size_t n) { return random_() % n; }
  bool Coin() { return Below(2) == 0; }
  std::string Text() {
    static const std::vector<std::string> kTexts = {"a",
                                                    "layers\\.\\d+",
                                                    "a: b",
                                                    "- x",
                                                    "no",
                                                    "~",
                                                    "1e3",
                                                    "'q'",
                                                    "\"d\"",
                                                    " s ",
                                                    "#c",
                                                    "\xc3\xa9",
                                                    "a\nb",
                                                    "{x}",
                                                    "[0-9]+",
                                                    "*",
                                                    "&a",
                                                    "!t",
                                                    "%",
                                                    "@",
                                                    "`",
                                                    "|",
                                                    ">",
                                                    "<<",
                                                    "\t",
                                                    "\x01",
                                                    "\xe2\x80\xa8",
                                                    "none2"};
    return kTexts[Below(kTexts.size())] + (Coin() ? kTexts[Below(kTexts.size())] : "");
  }
  std::vector<std::string> Texts() {
    std::vector<std::string> texts(Below(3));
    for (std::string& text : texts) text = Text();
    return texts;
  }
  // Valid regexes only.
  std::vector<std::string> Patterns() {
    static const std::vector<std::string> kPatterns = {"a",    "^b\\.c$", "(x|y): ", "[#\"']",
                                                       "\\\\", " ",       "no",      "\xc3\xa9+"};
    std::vector<std::string> patterns(Below(3));
    for (std::string& pattern : patterns) pattern = kPatterns[Below(kPatterns.size())];
    return patterns;
  }
  Spec Indices(bool from_end = false) {
    static const char* kSpecs[] = {"all", "none", "0", "0-9", "3,7", "0-511:8", "0-3,8,100-200:50"};
    if (from_end && Coin()) return Spec::Parse(Coin() ? "-1" : "0-3,-2").value();
    return Spec::Parse(kSpecs[Below(std::size(kSpecs))]).value();
  }
  Rule OneRule(bool may_use) {
    Rule rule;
    if (may_use && Below(8) == 0) {
      rule.use = "list a";
      return rule;
    }
    rule.has_leaf = Coin();
    rule.leaf = rule.has_leaf && Coin();
    rule.name = Patterns();
    rule.arg = Patterns();
    rule.cls = Patterns();
    rule.op = Patterns();
    rule.kernel = Patterns();
    static const Parts kLevels[] = {kPartNone, kPartMeta, kPartMeta | kPartHash, kLevelFull};
    rule.level = kLevels[Below(4)];
    rule.role = {Role::kState};
    for (Role role : {Role::kInput, Role::kOutput, Role::kBefore, Role::kAfter, Role::kParam}) {
      if (Coin()) rule.role.push_back(role);
    }
    if (rule.level == kPartNone && Coin()) {  // what leaving `role` out means
      rule.role.clear();
      for (int role = 0; role < kRoleCount; ++role) rule.role.push_back(static_cast<Role>(role));
    }
    if (Coin()) rule.role = {Role::kOutput};
    if (Coin()) rule.role = {Role::kBefore, Role::kAfter};
    if (Coin()) rule.phase = {Phase::kBackward};
    if (Coin()) rule.phase = {Phase::kForward, Phase::kBackward};
    if (Coin()) rule.dtype = {"bfloat16", "float8_e4m3fn"};
    rule.numel = Indices();
    rule.call = Indices();
    rule.max = Below(3);
    rule.where = Coin() ? "pkg.mod:fn" : "";
    rule.steps = Indices();
    rule.ranks = Indices(true);
    rule.dims = Coin() ? "b s[cp:zigzag] h[tp]" : "";
    return rule;
  }
  std::vector<Rule> Rules(bool may_use) {
    std::vector<Rule> rules(Below(4));
    for (Rule& rule : rules) rule = OneRule(may_use);
    return rules;
  }
  Config OneConfig() {
    Config c = DefaultConfig();
    c.dir = Text();
    c.error_if_exists = Coin();
    c.limit_bytes = Coin() ? 0 : random_();
    c.mode = 0700 | static_cast<int>(Below(0100));
    c.steps = Indices();
    c.boundary = Coin() ? "auto" : "forward:a: [b]";
    c.first_step = Coin() ? -1 : static_cast<int64_t>(Below(1 << 30)) << 30;
    c.skip_steps = Below(9);
    c.micro = Indices();
    c.ranks = Indices(true);
    c.modules = static_cast<Tri>(Below(3));
    c.taps = static_cast<Tri>(Below(3));
    c.aten = Coin();
    c.collectives = Coin();
    c.private_cache = Coin();
    c.drop_recomputed = Coin();
    c.kernels = static_cast<KernelMode>(Below(4));
    c.crumb_ranks = Indices(true);
    c.crumb_dir = Coin() ? "" : "/dev/" + Text();
    if (Coin()) c.roots[Text()] = Text();
    c.filters["list a"] = Rules(false);
    if (Coin()) c.filters[Text()] = Rules(true);
    c.capture = {{"", Rules(true)}};
    if (Coin()) c.capture = {{"one", Rules(true)}, {Text(), Rules(true)}};
    if (Below(8) == 0) c.capture.clear();
    c.host_bytes = Coin() ? 0 : 1 + Below(1 << 20) * 1024;
    c.full_arena = static_cast<FullArena>(Below(3));
    c.max_block_percent = Below(101);
    c.thread = Coin();
    c.signature = Coin();
    c.strict = Coin();
    c.log = Coin() ? "info" : "error";
    c.drain_seconds = Coin() ? 30 : 0.001 * static_cast<double>(Below(100000));
    return c;
  }

 private:
  std::mt19937 random_;
};

TEST(PrintConfig, ReadsBackAsAnEqualConfig) {
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    const Config config = Any(seed).OneConfig();
    const std::string text = PrintConfig(config);
    const auto again = ParseConfig(text, "again");
    ASSERT_TRUE(again.ok()) << "seed " << seed << "\n" << again.status().message() << "\n" << text;
    ASSERT_TRUE(*again == config) << "seed " << seed << "\n"
                                  << text << "\nbecame\n"
                                  << PrintConfig(*again);
    ASSERT_EQ(PrintConfig(*again), text) << "seed " << seed;
  }
}

TEST(PrintConfig, Defaults) {
  EXPECT_EQ(PrintConfig(DefaultConfig()), R"(version: 1
output:
  dir: 'outputs/tdump_{job}'
  if_exists: generation
  limit: auto
  at_limit: stop
  layout: auto
  compress: none
  durability: none
  direct: auto
  mode: '0700'
steps:
  select: 0-9
  boundary: auto
  first: auto
  skip: 0
  micro: all
ranks: all
topology:
  order: auto
  size: auto
collect:
  modules: auto
  taps: auto
  aten: off
  collectives: off
  kernels: off
names:
  roots: auto
filters: {}
capture:
  - {leaf: true}
memory:
  host: auto
  device: 256MiB
  at_limit: block
  thread: true
  max_block: 20%
signature: true
breadcrumbs:
  ranks: none
  dir: auto
compile:
  taps: auto
  cache: private
recompute: mark
exit:
  drain: 30s
strict: false
log: info
)");
}

TEST(PrintRule, KeysThatDifferFromTheirDefaults) {
  const auto print = [](const std::string& flow) {
    return PrintRule(OnlyRule(Parsed("capture: [" + flow + "]\n")));
  };
  EXPECT_EQ(print("{}"), "{}");
  EXPECT_EQ(print("{role: [output], level: full, leaf: true}"), "{leaf: true}");
  EXPECT_EQ(print("{name: norm, level: off}"), "{name: [norm], level: off}");
  EXPECT_EQ(print("{role: [input, output], numel: [1, 3]}"),
            "{role: [input, output], numel: '1,3'}");
}

}  // namespace
}  // namespace tdump::filters
