// Whole diffs of runs made by hand (tests/compare/fake_run.h).
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "compare/diff.h"
#include "compare/report.h"
#include "settings/dims.h"
#include "tests/compare/fake_run.h"

namespace tdump::compare {

inline DiffReport DiffOk(const FakeRun& a, const FakeRun& b, const DiffOptions& options = {}) {
  Result<DiffReport> report = Diff(a.side(), b.side(), options);
  EXPECT_TRUE(report.ok()) << report.status().message();
  return report.ok() ? *std::move(report) : DiffReport{};
}

// The report as text.
inline std::string Text(const DiffReport& report, int32_t world_a = 1, int32_t world_b = 1) {
  return RenderText(report, {.label = "a@0", .run = "a", .world = world_a},
                    {.label = "b@0", .run = "b", .world = world_b}, false, Style(false));
}

// Without the breaks of lines.
inline std::string Joined(const std::string& text) {
  std::string joined;
  for (const char c : text) {
    const bool blank = c == ' ' || c == '\n';
    if (!blank || (!joined.empty() && joined.back() != ' ')) joined += blank ? ' ' : c;
  }
  return joined;
}

// Names that hold `part`.
inline NameFilter Named(std::string part) {
  return [part = std::move(part)](const std::string& name) {
    return name.find(part) != std::string::npos;
  };
}

// Of the names that hold `name`; of one side, or of both.
inline DiffOptions WithDims(const std::string& name, const std::string& dims, char side = 0) {
  DiffOptions options;
  options.job = JobOptions{};
  options.job->dims.push_back({side, Named(name), *Dims::Parse(dims)});
  return options;
}

}  // namespace tdump::compare
