// docs/config.md is what the schema says, and every default and example in it is right.
#include "filters/config_reference.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "filters/print_config.h"
#include "filters/schema.h"
#include "parse.h"

namespace tdump::filters {
namespace {

// TDUMP_UPDATE=1 writes the page.
TEST(ConfigReference, ThePageIsUpToDate) {
  const std::string path = TDUMP_SOURCE_DIR "/docs/config.md";
  if (std::getenv("TDUMP_UPDATE") != nullptr) std::ofstream(path) << ConfigReference();
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), ConfigReference()) << path << " is stale: TDUMP_UPDATE=1 filters_test "
                                           << "--gtest_filter=ConfigReference.* writes it";
}

template <class T>
void CheckKeys(std::span<const KeySpec<T>> keys, const std::string& before,
               const std::string& after) {
  for (const KeySpec<T>& key : keys) {
    const std::string path(key.path);
    EXPECT_FALSE(key.doc.empty()) << path;
    EXPECT_TRUE(key.doc.ends_with('.') || key.doc.ends_with('`')) << path;
    std::string open, close;
    const size_t dot = path.find('.');
    if (dot != std::string::npos) {
      open = path.substr(0, dot) + ": {";
      close = "}";
    }
    const std::string name = path.substr(dot == std::string::npos ? 0 : dot + 1);
    for (std::string_view value : {key.value, key.example}) {
      if (value.empty() || value == "any") continue;
      std::string text = std::string(value);
      if (path == "output.dir") text = "'" + text + "'";  // flow style: a brace would open a map
      const std::string yaml = before + open + name + ": " + text + close + after + "\n";
      if (path == "use" && value == key.value) continue;  // no list of that name
      EXPECT_EQ(Mistaken(yaml), "") << yaml;
    }
    if (key.read != nullptr) {
      EXPECT_TRUE(!key.example.empty() || key.type == key.value) << path << " has no example";
      EXPECT_NE(key.example, key.value == "1" ? "" : key.value) << path;
    }
  }
}

TEST(ConfigReference, DefaultsAndExamplesOfKeys) { CheckKeys(ConfigKeys(), "", ""); }

TEST(ConfigReference, DefaultsAndExamplesOfRules) {
  CheckKeys(RuleKeys(), "filters: {small: []}\ncapture: [{", "}]");
}

// The default that the page names is the one that is in force.
TEST(ConfigReference, DefaultsAreThoseInForce) {
  const Config config = DefaultConfig();
  for (const KeySpec<Config>& key : ConfigKeys()) {
    if (key.print == nullptr || key.path == "steps.skip") continue;
    std::string printed = key.print(config);
    if (printed.starts_with("'") && key.path == "output.dir")
      printed = printed.substr(1, printed.size() - 2);
    EXPECT_EQ(printed, key.value) << key.path;
  }
}

}  // namespace
}  // namespace tdump::filters
