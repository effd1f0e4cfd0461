// The command line of tdump-run as a value.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tdump::launch {

struct Options {
  std::string config;  // -c
  std::string recipe;  // --recipe
  bool dump = false;   // --dump
  // Key, YAML value; -o, --steps, ... in their long form.
  std::vector<std::pair<std::string, std::string>> settings;
  std::vector<std::string> name_patterns;  // --filter
  bool children = true;                    // --no-children
  bool check = false;
  std::optional<int> check_ranks;
  std::string explain, from, rates;
  bool estimate = false;
  bool print = false;
  bool recipes = false;
  std::vector<std::string> command;

  bool runs() const {
    return !check && !print && !recipes && explain.empty() && !(estimate && !from.empty());
  }
};

// What main() does next: run with `options`, or end at once with `status` after printing `output`
// (help, version) or failing with `error`.
struct ParsedOptions {
  Options options;
  bool ends = false;
  int status = 0;
  std::string output, error;
};
ParsedOptions ParseOptions(int argc, const char* const* argv);

}  // namespace tdump::launch
