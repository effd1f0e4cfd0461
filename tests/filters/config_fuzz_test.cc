// K03, K05, K07: hostile and mutated configurations. The loader gives a configuration that prints
// and reads back as itself, or messages with file, line and column; nothing else, and not for long.
//
// TDUMP_TEST_SEED=N repeats the texts of a run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/time.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <sstream>

#include "filters/print_config.h"
#include "filters/schema.h"
#include "parse.h"
#include "settings/yaml_tree.h"

namespace tdump::filters {
namespace {

namespace fs = std::filesystem;

std::string Contents(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The blocks of YAML in a page of the documentation.
std::vector<std::string> Examples(const std::string& page) {
  constexpr std::string_view kBegin = "```yaml\n", kEnd = "```";
  std::vector<std::string> blocks;
  for (size_t at = 0; (at = page.find(kBegin, at)) != std::string::npos;) {
    at += kBegin.size();
    const size_t end = std::min(page.find(kEnd, at), page.size());
    blocks.push_back(page.substr(at, end - at));
  }
  return blocks;
}

std::vector<std::string> Seeds() {
  // The first is jbeder/yaml-cpp#1475; the others have what its scanner and parser are made of.
  std::vector<std::string> seeds{
      "!\n: |\nb\n>\n|\n  !\n>",
      "!<tag> |\n  a\n b\n",
      "- >-\n   x\n  y\n",
      "? |\n a\n: - !t\n",
      "&a *a\n",
      "\"\\x",
      "%YAML 9.9\n---\n",
      "a: |9\n b\n",
      "capture: [{use: a}]\nfilters: {a: [{use: a}]}\n",
      "capture: &c [{use: a}, *c]\n",
      "steps: {select: '0-9:3', boundary: 'op:[', first: 18446744073709551615}\n",
      "output: {limit: 99999999999EiB, layout: packed, mode: '7777'}\n",
      "capture: [{level: [full, 'slice[0:8, ::2]', 'sample:9'], numel: '-1', max: 1e9}]\n"};
  for (const char* folder : {"/configs", "/examples"}) {
    for (const auto& entry :
         fs::recursive_directory_iterator(TDUMP_SOURCE_DIR + std::string(folder)))
      if (entry.path().extension() == ".yaml") seeds.push_back(Contents(entry.path()));
  }
  std::vector<fs::path> pages{TDUMP_SOURCE_DIR "/README.md"};
  for (const auto& entry : fs::directory_iterator(TDUMP_SOURCE_DIR "/docs"))
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
  for (const fs::path& page : pages) {
    for (std::string& block : Examples(Contents(page))) seeds.push_back(std::move(block));
  }
  std::sort(seeds.begin() + 1, seeds.end());  // folders have no order
  return seeds;
}

class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed), seeds_(Seeds()) {}
  const std::vector<std::string>& seeds() const { return seeds_; }

  std::string Next() {
    std::string text = Seed();
    for (size_t changes = 1 + Below(4); changes > 0; --changes) Change(&text);
    if (Below(8) == 0) Wreck(&text);
    return text;
  }

 private:
  size_t Below(size_t count) { return count == 0 ? 0 : random_() % count; }
  const std::string& Seed() { return seeds_[Below(seeds_.size())]; }

  void Change(std::string* text) {
    static constexpr std::string_view kTokens[] = {
        "\n", "  ",  ": ",  "- ",  "[",    "]",      "{",    "}",       ",",     "|",
        ">",  "&a ", "*a",  "!!x", "'",    "\"",     "#",    "\t",      "? ",    "---",
        "~",  "no",  "1e9", "-1",  "all",  "\xff",   "\xf0", "\\",      "level", "steps",
        "0",  "%",   "*",   "(?",  "a{9}", "(a*)*b", "\r\n", "output:", ".inf"};
    const size_t at = Below(text->size() + 1);
    const size_t length = Below(std::min<size_t>(text->size() - at, 40) + 1);
    switch (Below(5)) {
      case 0:
        text->erase(at, length);
        break;
      case 1:
        text->insert(Below(text->size() + 1), text->substr(at, length));
        break;
      case 2:
        text->insert(at, kTokens[Below(std::size(kTokens))]);
        break;
      case 3: {
        const std::string& other = Seed();
        text->insert(at, other.substr(Below(other.size()), 60));
        break;
      }
      default:
        if (at < text->size()) (*text)[at] = static_cast<char>(random_());
    }
  }

  // What nobody writes by accident.
  void Wreck(std::string* text) {
    const size_t at = Below(text->size() + 1);
    switch (Below(9)) {
      case 0:
        text->insert(at, Repeated(Opening(), 1 + Below(20'000)));
        break;
      case 1:
        text->insert(at, Bomb());
        break;
      case 2:
        text->insert(at, "&s [*s, {a: &t {b: *t, c: *s}}]");
        break;
      case 3:
        text->insert(Below(2) == 0 ? 0 : at, "\xEF\xBB\xBF");
        break;
      case 4:
        text->insert(at, 1, '\0');
        break;
      case 5:
        for (size_t end = 0; (end = text->find('\n', end)) != std::string::npos; end += 2)
          text->insert(end, "\r");
        break;
      case 6: {  // as long as a text may be, and a little longer
        const size_t room =
            settings::kMaxYamlBytes - std::min(text->size(), settings::kMaxYamlBytes);
        text->insert(at,
                     std::string(room - std::min(room, Below(3)) + Below(3), "x.*( 0"[Below(6)]));
        break;
      }
      case 7: {  // a line twice: duplicate keys
        const size_t begin = at == 0 ? 0 : text->rfind('\n', at - 1) + 1;
        text->insert(begin, text->substr(begin, text->find('\n', at) + 1 - begin));
        break;
      }
      default: {  // each key of a map twice
        const std::string entries = text->substr(at, 200);
        text->insert(at, "{" + entries + ", " + entries + "}");
      }
    }
  }
  std::string_view Opening() {
    static constexpr std::string_view kOpenings[] = {"[",    "{a: ",    "- ", "? ",
                                                     "{? [", "\n- a: ", ": "};
    return kOpenings[Below(std::size(kOpenings))];
  }
  static std::string Repeated(std::string_view text, size_t times) {
    std::string all;
    while (times-- > 0) all += text;
    return all;
  }
  std::string Bomb() {
    const size_t width = 2 + Below(20), levels = 2 + Below(20);
    std::string bomb = "\nb0: &b0 [" + Repeated("x, ", width) + "]\n";
    for (size_t level = 1; level < levels; ++level) {
      const std::string number = std::to_string(level);
      bomb += "b" + number + ": &b" + number + " [" +
              Repeated("*b" + std::to_string(level - 1) + ", ", width) + "]\n";
    }
    return bomb;
  }

  std::mt19937 random_;
  std::vector<std::string> seeds_;
};

// Ends the process, with the seed and the round, when one text takes more than kMostSeconds of this
// process's CPU time: however busy the machine is, a hang is one.
class Watchdog {
 public:
  explicit Watchdog(unsigned seed) {
    seed_ = seed;
    std::signal(SIGVTALRM, [](int) {
      char text[128];
      const int length =
          std::snprintf(text, sizeof text, "seed %u round %d: more than %d s of CPU\n", seed_,
                        round_, kMostSeconds);
      (void)!::write(STDERR_FILENO, text, static_cast<size_t>(length));
      ::_exit(1);
    });
  }
  ~Watchdog() {
    Arm(0);
    std::signal(SIGVTALRM, SIG_DFL);
  }
  void Begin(int round) {
    round_ = round;
    Arm(kMostSeconds);
  }

 private:
  static constexpr int kMostSeconds = 20;
  static void Arm(int seconds) {
    const itimerval once{.it_interval = {}, .it_value = {.tv_sec = seconds, .tv_usec = 0}};
    ::setitimer(ITIMER_VIRTUAL, &once, nullptr);
  }
  static inline volatile unsigned seed_ = 0;
  static inline volatile int round_ = 0;
};

// True: `text` is a configuration.
bool Check(const std::string& text) {
  const auto config = ParseConfig(text, "c.yaml");
  if (!config.ok()) {
    const std::string& told = config.status().message();
    EXPECT_EQ(told.find_first_of("\x1b\r\t"), std::string::npos) << told;
    if (text.size() <= settings::kMaxYamlBytes) {
      std::istringstream lines(told);
      // Of many messages the last ones are counted.
      for (std::string line; std::getline(lines, line);)
        EXPECT_THAT(
            line, testing::ContainsRegex(
                      lines.peek() == EOF ? "^(c\\.yaml:[0-9]+:[0-9]+: |\\.\\.\\. and [0-9]+ more$)"
                                          : "^c\\.yaml:[0-9]+:[0-9]+: "))
            << told;
    } else {
      EXPECT_THAT(told, testing::HasSubstr("expected at most 1048576 bytes"));
    }
    return false;
  }
  const std::string printed = PrintConfig(*config);
  const auto again = ParseConfig(printed, "p.yaml");
  EXPECT_TRUE(again.ok()) << printed << "\n" << again.status().message();
  EXPECT_TRUE(again.ok() && *again == *config) << printed;
  return true;
}

unsigned SeedOfRun() {
  const char* given = std::getenv("TDUMP_TEST_SEED");
  const unsigned seed = given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10))
                                         : std::random_device{}();
  std::printf("seed %u (TDUMP_TEST_SEED)\n", seed);
  std::fflush(stdout);  // before anything can crash
  return seed;
}

constexpr size_t kEnough = 10;

TEST(ConfigFuzz, AConfigurationOrMessages) {
  const unsigned seed = SeedOfRun();
  Mutator mutator(seed);
  Watchdog watchdog(seed);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(3);
  size_t good = 0;
  // Some seconds, and on a slow machine until enough were good to say something.
  const auto go_on = [&] { return std::chrono::steady_clock::now() < end || good <= kEnough; };
  for (int round = 0; round < 20'000 && go_on(); ++round) {
    watchdog.Begin(round);
    const std::string text = mutator.Next();
    SCOPED_TRACE(testing::Message() << "seed " << seed << " round " << round << "\n"
                                    << text.substr(0, 20'000));
    good += Check(text);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(good, kEnough);
}

TEST(ConfigFuzz, EachSeedAsItIs) {
  const std::vector<std::string> seeds = Mutator(0).seeds();
  size_t good = 0;
  for (const std::string& seed : seeds) {
    SCOPED_TRACE(seed);
    good += Check(seed);
  }
  EXPECT_GT(seeds.size(), 30u);
  EXPECT_GT(good, 10u);
}

// Each key with values that would break a message in two or steer a terminal.
template <class T>
void CheckValues(std::span<const KeySpec<T>> keys, const std::string& before,
                 const std::string& after) {
  for (const KeySpec<T>& key : keys) {
    std::string yaml = before;
    const size_t dot = key.path.find('.');
    if (dot != std::string_view::npos) yaml += std::string(key.path.substr(0, dot)) + ": {";
    yaml += std::string(key.path.substr(dot == std::string_view::npos ? 0 : dot + 1)) + ": ";
    const std::string end = (dot != std::string_view::npos ? "}" : "") + after + "\n";
    for (std::string_view value :
         {R"("\n\e[31m")", R"("slice[\n]")", R"("sample:\r\n")", R"("[\e\x00")", R"("0\n")",
          R"("/a\n.so:f")", R"("a.b\e:f\n")", R"(["a\n", "(\e"])", R"({"a\nb": "c\n"})",
          R"(!t "a\nb")", R"(&a "\u202e")"}) {
      SCOPED_TRACE(yaml + std::string(value) + end);
      Check(yaml + std::string(value) + end);
    }
  }
}

TEST(ConfigFuzz, AMessageIsOneLineWhateverTheValue) {
  CheckValues(ConfigKeys(), "", "");
  CheckValues(RuleKeys(), "capture: [{", "}]");
}

}  // namespace
}  // namespace tdump::filters
