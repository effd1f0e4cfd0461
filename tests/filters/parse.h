// Short forms for the tests of filters.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "filters/parse_config.h"

namespace tdump::filters {

inline Config Parsed(const std::string& yaml) {
  auto config = ParseConfig(yaml, "c.yaml");
  EXPECT_TRUE(config.ok()) << yaml << "\n" << config.status().message();
  return config.ok() ? *config : Config();
}

// The mistakes of `yaml`, "" for none.
inline std::string Mistaken(const std::string& yaml) {
  const auto config = ParseConfig(yaml, "c.yaml");
  return config.ok() ? "" : config.status().message();
}

inline const Rule& OnlyRule(const Config& config) { return config.capture.at(0).rules.at(0); }

}  // namespace tdump::filters
