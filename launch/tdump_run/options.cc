#include "launch/tdump_run/options.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

namespace tdump::launch {
namespace {

constexpr const char* kDescription =
    R"(Starts COMMAND with tdump watching: same process, same signals, same exit status.

  tdump-run --dump -- python app.py                    outputs of all leaf modules, steps 0-9
  mpirun -n 4 tdump-run -c cfg.yaml -- python app.py   on four ranks, what cfg.yaml selects
  tdump-run --level hash --filter 'mlp' -- ./train     hashes only, of modules whose path contains mlp
  tdump-run -c cfg.yaml --check --ranks 4              is the file right? nothing is started

A run is written to outputs/tdump_JOB; outputs/latest points to the newest. Look at it with tdump-view, compare two
with tdump-diff. Every YAML key is explained in docs/config.md.)";

constexpr const char* kFooter =
    R"(Exit status: COMMAND's own; 125 tdump failed before the start; 126 COMMAND is not executable; 127 not found.
--check: 0 right, 2 wrong.
Environment: TDUMP_CONFIG TDUMP_DIR TDUMP_JOB TDUMP_FILTER TDUMP_FILTER_FN TDUMP_STEPS TDUMP_RANKS TDUMP_LEVEL
TDUMP_DISABLE=1 TDUMP_LOG=debug; the command line wins over them, they over the file.
)";

// KEY=VALUE, split at the first `=`.
std::string SplitSetting(const std::string& text, Options* options) {
  const size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos) {
    return fmt::format("--set {}: expected KEY=VALUE, such as --set memory.host=1GiB", text);
  }
  options->settings.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  return "";
}

class Help : public CLI::Formatter {
  std::string make_usage(const CLI::App*, std::string) const override {
    return "\nUsage: tdump-run [OPTIONS] -- COMMAND...\n";
  }
};

// Everything after `--`, or from the first word that is no option of ours
// on (CLI11 leaves it as remaining).
int CommandStart(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--") return i;
  }
  return argc;
}

}  // namespace

ParsedOptions ParseOptions(int argc, const char* const* argv) {
  ParsedOptions parsed;
  Options& options = parsed.options;
  CLI::App app(kDescription, "tdump-run");
  app.formatter(std::make_shared<Help>());
  app.footer(kFooter);
  app.set_version_flag("--version", std::string("tdump-run ") + TDUMP_VERSION);
  app.prefix_command();

  std::string directory, steps, ranks, level;
  std::vector<std::string> sets;
  int check_ranks = 0;
  bool alone = false;
  app.add_option("-c,--config", options.config, "YAML file (TDUMP_CONFIG)")->type_name("FILE");
  app.add_option("--recipe", options.recipe, "a shipped YAML file; --recipes lists them")
      ->type_name("NAME");
  app.add_flag("--dump", options.dump,
               "the defaults, no YAML: leaf outputs in full, steps 0-9, all ranks");
  app.add_option("-o,--output", directory, "run directory (TDUMP_DIR)")->type_name("DIR");
  app.add_option("--steps", steps, "steps to write: 0-9  3,7  100-200:50  all  none")
      ->type_name("SPEC");
  auto* ranks_option =
      app.add_option("--ranks", ranks, "ranks that write; with --check the number of ranks")
          ->type_name("SPEC");
  app.add_option(
         "--level", level,
         "what is kept: off, meta, hash, stats, sample[:N], slice[0:8, :], full or a list of them")
      ->type_name("LEVEL");
  app.add_option("--filter", options.name_patterns,
                 "leaf modules whose path matches, and no others; may be repeated")
      ->type_name("RE")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
  app.add_option("--set", sets, "any YAML key, such as memory.host=1GiB; may be repeated")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
  app.add_flag("--no-children", alone,
               "only COMMAND itself: processes it starts get the environment as it was");
  app.add_flag("--check", options.check, "validate only: file:line:column, what was expected");
  app.add_option("--explain", options.explain, "the rule and the reason for an operator, per role")
      ->type_name("NAME");
  app.add_flag(
      "--estimate", options.estimate,
      "bytes, files, memory and slowdown: from one run of COMMAND that writes hashes of two "
      "steps into a temporary directory");
  app.add_option("--from", options.from, "with --estimate: from this run, no job is started")
      ->type_name("RUN");
  app.add_flag("--print", options.print, "the effective config and the environment of COMMAND");
  app.add_flag("--recipes", options.recipes, "list the recipes");

  const int command = CommandStart(argc, argv);
  try {
    app.parse(command, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, err;
    parsed.ends = true;
    parsed.status = app.exit(error, out, err) == 0 ? 0 : 125;
    parsed.output = out.str();
    if (parsed.status != 0)
      parsed.error = fmt::format("{}; tdump-run --help lists the options", error.what());
    return parsed;
  }
  options.children = !alone;
  options.command = app.remaining();
  const int sources = !options.config.empty() + !options.recipe.empty() + (options.dump ? 1 : 0);
  if (sources > 1) parsed.error = "-c, --recipe and --dump: expected one of them";
  if (!options.from.empty() && !options.estimate && options.explain.empty())
    parsed.error = "--from RUN: expected --estimate with it";
  if (!options.command.empty() && options.command.front().starts_with('-')) {
    parsed.error =
        fmt::format("{}: no such option; tdump-run --help lists them", options.command.front());
  }
  for (int i = command + 1; i < argc; ++i) options.command.emplace_back(argv[i]);

  if (!directory.empty()) options.settings.emplace_back("output.dir", directory);
  if (!steps.empty()) options.settings.emplace_back("steps.select", steps);
  if (options.check && ranks_option->count() > 0) {
    if (CLI::detail::lexical_cast(ranks, check_ranks) && check_ranks > 0) {
      options.check_ranks = check_ranks;
    } else {
      parsed.error = fmt::format("--check --ranks {}: expected the number of ranks", ranks);
    }
  } else if (!ranks.empty()) {
    options.settings.emplace_back("ranks", ranks);
  }
  if (!level.empty()) options.settings.emplace_back("level", level);
  for (const std::string& set : sets) {
    if (std::string error = SplitSetting(set, &options); !error.empty()) parsed.error = error;
  }
  if (parsed.error.empty() && options.runs() && options.command.empty()) {
    parsed.error =
        "no COMMAND; usage: tdump-run [OPTIONS] -- COMMAND..., for example\n"
        "  mpirun -n 4 tdump-run --dump -- python app.py";
  }
  if (!parsed.error.empty()) {
    parsed.ends = true;
    parsed.status = options.runs() ? 125 : 2;
  }
  return parsed;
}

}  // namespace tdump::launch
