// K03, K05: mutated configurations. The loader gives a configuration that prints and reads back as
// itself, or messages with file, line and column; nothing else.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "filters/print_config.h"
#include "parse.h"

namespace tdump::filters {
namespace {

class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed) {
    for (const auto& entry : std::filesystem::directory_iterator(TDUMP_SOURCE_DIR "/configs")) {
      if (!entry.is_regular_file()) continue;
      std::ifstream file(entry.path());
      std::ostringstream text;
      text << file.rdbuf();
      seeds_.push_back(text.str());
    }
    for (const char* text :
         {"!<tag> |\n  a\n b\n", "- >-\n   x\n  y\n", "? |\n a\n: - !t\n", "&a *a\n", "\"\\x",
          "%YAML 9.9\n---\n", "a: |9\n b\n", "capture: [{use: a}]\nfilters: {a: [{use: a}]}\n",
          "steps: {select: '0-9:3', boundary: 'op:[', first: 18446744073709551615}\n",
          "output: {limit: 99999999999EiB, layout: packed, mode: '7777'}\n",
          "capture: [{level: [full, 'slice[0:8, ::2]', 'sample:9'], numel: '-1', max: 1e9}]\n"})
      seeds_.push_back(text);
  }

  std::string Next() {
    std::string text = Seed();
    for (size_t changes = 1 + Below(4); changes > 0; --changes) Change(&text);
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

  std::mt19937 random_;
  std::vector<std::string> seeds_;
};

constexpr size_t kEnough = 10;

TEST(ConfigFuzz, AConfigurationOrMessages) {
  const unsigned seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  Mutator mutator(seed);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(3);
  size_t good = 0;
  // Some seconds, and on a slow machine until enough were good to say something.
  const auto go_on = [&] { return std::chrono::steady_clock::now() < end || good <= kEnough; };
  for (int round = 0; round < 20'000 && go_on(); ++round) {
    const std::string text = mutator.Next();
    SCOPED_TRACE(testing::Message() << "seed " << seed << " round " << round << "\n" << text);
    const auto config = ParseConfig(text, "c.yaml");
    if (!config.ok()) {
      ASSERT_EQ(config.status().message().substr(0, 7), "c.yaml:") << config.status().message();
      continue;
    }
    ++good;
    const std::string printed = PrintConfig(*config);
    const auto again = ParseConfig(printed, "p.yaml");
    ASSERT_TRUE(again.ok()) << printed << "\n" << again.status().message();
    ASSERT_TRUE(*again == *config) << printed;
  }
  EXPECT_GT(good, kEnough);
}

}  // namespace
}  // namespace tdump::filters
