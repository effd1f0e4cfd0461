#include "launch/tdump_run/options.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "settings/mistakes.h"

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

// What the command line says that takes a second look before it is an option or a setting.
struct Words {
  std::string directory, steps, ranks, level;
  std::vector<std::string> sets;  // KEY=VALUE
  bool alone = false;
};

void AddSettings(CLI::App* app, Options* options, Words* words) {
  app->add_option("-c,--config", options->config, "YAML file (TDUMP_CONFIG)")->type_name("FILE");
  app->add_option("--recipe", options->recipe, "a shipped YAML file; --recipes lists them")
      ->type_name("NAME");
  app->add_flag("--dump", options->dump,
                "the defaults, no YAML: leaf outputs in full, steps 0-9, all ranks");
  app->add_option("-o,--output", words->directory, "run directory (TDUMP_DIR)")->type_name("DIR");
  app->add_option("--steps,--step", words->steps, "steps to write: 0-9  3,7  100-200:50  all  none")
      ->type_name("SPEC");
  app->add_option("--ranks,--rank", words->ranks,
                  "ranks that write; with --check the number of ranks")
      ->type_name("SPEC");
  app->add_option("--level", words->level,
                  "what is kept: off, meta, hash, stats, sample[:N], slice[0:8, :], full or a list "
                  "of them")
      ->type_name("LEVEL");
  app->add_option("--filter", options->name_patterns,
                  "leaf modules whose path matches, and no others; may be repeated")
      ->type_name("RE")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
  app->add_option("--set", words->sets, "any YAML key, such as memory.host=1GiB; may be repeated")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
  app->add_flag("--no-children", words->alone,
                "only COMMAND itself: no tdump is loaded into processes that it starts");
}

void AddQuestions(CLI::App* app, Options* options) {
  app->add_flag("--check", options->check, "validate only: file:line:column, what was expected");
  app->add_option("--explain", options->explain,
                  "the rule and the reason for an operator, per role")
      ->type_name("NAME");
  app->add_flag("--estimate", options->estimate,
                "bytes, files, memory and slowdown: from one run of COMMAND that writes hashes of "
                "its first two selected steps, and of three more to time them, into a temporary "
                "directory");
  app->add_option("--from", options->from,
                  "with --estimate: from this run, no job is started; with --explain: NAME and its "
                  "class are looked up in it")
      ->type_name("RUN");
  app->add_option("--rates", options->rates,
                  "with --estimate: the rates of copies, hashes and files of an earlier estimate, "
                  "which wrote them here; FILE is made where it is not there")
      ->type_name("FILE");
  app->add_flag("--print", options->print, "the effective config and the environment of COMMAND");
  app->add_flag("--recipes", options->recipes, "list the recipes");
}

std::string NoSuchOption(const CLI::App& app, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& known : option->get_lnames()) names.push_back("--" + known);
  }
  const std::string near = settings::Nearest(name, names);
  return fmt::format("{}: no such option; {}tdump-run --help lists them", name,
                     near.empty() ? "" : fmt::format("did you mean {}? ", near));
}

// What options say against each other, or "".
std::string Contradiction(const CLI::App& app, const Options& options) {
  if (!options.command.empty() && options.command.front().starts_with('-'))
    return NoSuchOption(app, options.command.front());
  const int sources = !options.config.empty() + !options.recipe.empty() + (options.dump ? 1 : 0);
  if (sources > 1) return "-c, --recipe and --dump: expected one of them";
  const int questions = options.check + options.estimate + options.print + options.recipes +
                        (options.explain.empty() ? 0 : 1);
  if (questions > 1)
    return "--check, --explain, --estimate, --print and --recipes: expected one of them";
  if (!options.from.empty() && !options.estimate && options.explain.empty())
    return "--from RUN: expected --estimate with it";
  if (!options.rates.empty() && !options.estimate)
    return "--rates FILE: expected --estimate with it";
  return "";
}

// Adds a setting; the error, or "".
std::string Split(const std::string& text, Options* options) {
  const size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos) {
    return fmt::format("--set {}: expected KEY=VALUE, such as --set memory.host=1GiB", text);
  }
  options->settings.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  return "";
}

std::string TakeRanks(const std::string& ranks, Options* options) {
  if (!options->check) {
    options->settings.emplace_back("ranks", ranks);
    return "";
  }
  int count = 0;
  if (!CLI::detail::lexical_cast(ranks, count) || count <= 0)
    return fmt::format("--check --ranks {}: expected the number of ranks", ranks);
  options->check_ranks = count;
  return "";
}

// In the order in which later ones win.
std::string TakeSettings(const Words& words, Options* options) {
  const auto take = [&](const char* key, const std::string& value) {
    if (!value.empty()) options->settings.emplace_back(key, value);
  };
  take("output.dir", words.directory);
  take("steps.select", words.steps);
  if (!words.ranks.empty()) {
    if (std::string error = TakeRanks(words.ranks, options); !error.empty()) return error;
  }
  take("level", words.level);
  for (const std::string& set : words.sets) {
    if (std::string error = Split(set, options); !error.empty()) return error;
  }
  return "";
}

// --help, --version, or what CLI11 could not read.
void End(const CLI::App& app, const CLI::ParseError& error, ParsedOptions* parsed) {
  std::ostringstream out, err;
  parsed->ends = true;
  parsed->status = app.exit(error, out, err) == 0 ? 0 : 125;
  parsed->output = out.str();
  if (parsed->status != 0)
    parsed->error = fmt::format("{}; tdump-run --help lists the options", error.what());
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
  Words words;
  AddSettings(&app, &options, &words);
  AddQuestions(&app, &options);

  const int command = CommandStart(argc, argv);
  try {
    app.parse(command, argv);
  } catch (const CLI::ParseError& error) {
    End(app, error, &parsed);
    return parsed;
  }
  options.children = !words.alone;
  options.command = app.remaining();
  parsed.error = Contradiction(app, options);
  for (int i = command + 1; i < argc; ++i) options.command.emplace_back(argv[i]);
  if (parsed.error.empty()) parsed.error = TakeSettings(words, &options);
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
