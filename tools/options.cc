#include "tools/options.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "core/parse_number.h"
#include "core/text.h"
#include "settings/mistakes.h"

namespace tdump::tools {

namespace {

// Names of arguments: in the usage line "A", "[RUN]", "RUN..."; of an option without the names of
// its checks, "{a,b}" for "TEXT:{a,b}" and "N" for "N:NONNEGATIVE".
class Usage : public CLI::Formatter {
  std::string make_option_usage(const CLI::Option* option) const override {
    const std::string name = option->get_name(true) + (option->get_expected_max() > 1 ? "..." : "");
    return option->get_required() ? name : "[" + name + "]";
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    std::string type = option->get_type_name();
    const size_t choices = type.find('{');
    type = choices != std::string::npos ? type.substr(choices) : type.substr(0, type.find(':'));
    return type.empty() ? "" : " " + type;
  }
};

// What CLI11 itself says of "-1" names a range up to 1.8e308.
template <class Number>
CLI::Validator WholeNumber() {
  return CLI::Validator(
      [](const std::string& text) -> std::string {
        Number value = 0;
        if (CLI::detail::lexical_cast(text, value) && value >= 0) return "";
        return "expected a whole number, 0 or more; found '" + text + "'";
      },
      "");
}

}  // namespace

struct Options::Impl {
  std::string tool;
  CLI::App app;
  std::map<std::string, std::string> unknown;  // what does instead
  size_t most_words = 0;                       // that are no options
};

Options::Options(const std::string& tool, const std::string& about, const std::string& teach)
    : impl_(new Impl) {
  impl_->tool = tool;
  CLI::App& app = impl_->app;
  app.name(tool);
  app.description(about);
  app.footer(teach);
  app.formatter(std::make_shared<Usage>());
  app.get_formatter()->column_width(34);
  app.set_version_flag("--version", tool + " " TDUMP_VERSION);
  app.add_flag("--json", common.json, "print one JSON document instead of text");
  app.add_flag("--quiet", common.quiet, "print nothing but errors; the exit status tells");
  app.add_flag("--no-color", common.no_color, "no colours, even on a terminal");
}

Options::~Options() = default;

void Options::Flag(const std::string& name, bool* target, const std::string& help) {
  impl_->app.add_flag(name, *target, help);
}

void Options::Text(const std::string& name, std::string* target, const std::string& value,
                   const std::string& help) {
  impl_->app.add_option(name, *target, help)->type_name(value);
}

void Options::Number(const std::string& name, unsigned* target, const std::string& value,
                     const std::string& help) {
  impl_->app.add_option(name, *target, help)->type_name(value)->check(WholeNumber<unsigned>());
}

void Options::Integer(const std::string& name, int* target, const std::string& value,
                      const std::string& help) {
  impl_->app.add_option(name, *target, help)->type_name(value)->check(WholeNumber<int>());
}

void Options::OptionalText(const std::string& name, bool* given, std::string* target,
                           const std::string& value, const std::string& help) {
  impl_->app
      .add_option_function<std::vector<std::string>>(
          name,
          [given, target](const std::vector<std::string>& words) {
            *given = true;
            if (!words.empty()) *target = words.front();
          },
          help)
      ->type_name(value)
      ->expected(0, 1);
}

void Options::List(const std::string& name, std::vector<std::string>* target,
                   const std::string& value, const std::string& help) {
  impl_->app.add_option(name, *target, help)->type_name(value)->expected(1)->take_all();
}

void Options::Choice(const std::string& name, std::string* target,
                     const std::vector<std::string>& choices, const std::string& help) {
  impl_->app.add_option(name, *target, help)->type_name("")->check(CLI::IsMember(choices));
}

void Options::Later(const std::string& name, bool takes_value, const std::string& instead) {
  const auto refuse = [text = name + ": not in this version; " + instead] {
    throw CLI::ParseError(text, kExitTrouble);
  };
  CLI::Option* option = takes_value ? impl_->app.add_option_function<std::string>(
                                          name, [refuse](const std::string&) { refuse(); })
                                    : impl_->app.add_flag_callback(name, refuse);
  option->group("");
}

void Options::Unknown(const std::string& name, const std::string& instead) {
  impl_->unknown[name] = instead;
}

void Options::Positional(const std::string& name, std::string* target, const std::string& help) {
  ++impl_->most_words;
  impl_->app.add_option(name, *target, help)->required()->type_name("");
}

void Options::Positional(const std::string& name, std::vector<std::string>* target, size_t least,
                         size_t most, const std::string& help) {
  impl_->most_words += most;
  CLI::Option* option = impl_->app.add_option(name, *target, help);
  option->expected(static_cast<int>(least), static_cast<int>(most));
  if (least > 0) option->required();
  option->type_name("");
}

namespace {

std::vector<std::string> LongNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // of a later version
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// Of a command line that was refused the first word that looks like an option and is none; "" for
// none. The parser names what it could not place, which may be the word behind it.
std::string UnknownOption(const CLI::App& app, int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--") break;
    if (!word.starts_with("--")) continue;
    const size_t equals = word.find('=');
    const std::string name(word.substr(0, equals));
    const CLI::Option* option = app.get_option_no_throw(name);
    if (option == nullptr) return name;
    if (equals == std::string_view::npos && option->get_expected_min() > 0) ++i;  // its value
  }
  return "";
}

// Of a command line the first word beyond `most` that is neither an option nor a value; "" for
// none.
std::string WordTooMany(const CLI::App& app, int argc, char** argv, size_t most) {
  size_t words = 0;
  bool all_are = false;  // behind "--"
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (!all_are && word.starts_with('-') && word.size() > 1) {
      all_are = word == "--";
      const CLI::Option* option = app.get_option_no_throw(word);
      if (option == nullptr || option->get_expected_max() == 0) continue;
      const bool is_value = option->get_expected_min() > 0 ||
                            (i + 1 < argc && !std::string_view(argv[i + 1]).starts_with('-'));
      i += is_value;
    } else if (++words > most) {
      return word;
    }
  }
  return "";
}

}  // namespace

std::optional<int> Options::Parse(int argc, char** argv) {
  try {
    impl_->app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    Print(impl_->app.help());
    return kExitOk;
  } catch (const CLI::CallForVersion& version) {
    Print(std::string(version.what()) + "\n");
    return kExitOk;
  } catch (const CLI::Error& error) {
    if (const std::string unknown = UnknownOption(impl_->app, argc, argv); !unknown.empty()) {
      if (const auto other = impl_->unknown.find(unknown); other != impl_->unknown.end())
        return Fail(impl_->tool, "no option " + unknown + ": " + other->second);
      const std::string near = settings::Nearest(unknown, LongNames(impl_->app));
      return Fail(impl_->tool, "no option " + unknown +
                                   (near.empty() ? "; see " : "; did you mean " + near + "? See ") +
                                   impl_->tool + " --help");
    }
    std::string what = error.what();
    const std::string extra = WordTooMany(impl_->app, argc, argv, impl_->most_words);
    if (!extra.empty()) what = "'" + extra + "' is one name too many";
    return Fail(impl_->tool, what + "; see " + impl_->tool + " --help");
  }
  return std::nullopt;
}

int Fail(const std::string& tool, const std::string& message) {
  std::string text;
  for (size_t at = 0; at <= message.size();) {
    const size_t end = std::min(message.find('\n', at), message.size());
    text += (at == 0 ? "" : "\n") + Printable(message.substr(at, end - at));
    at = end + 1;
  }
  std::fprintf(stderr, "%s: %s\n", tool.c_str(), text.c_str());
  return kExitTrouble;
}

namespace {

// Of the user: mpirun gives its processes terminals of its own, wherever it writes what they print.
bool IsTerminal() {
  return std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr && ::isatty(STDOUT_FILENO) == 1;
}

}  // namespace

bool WantsColour(const CommonOptions& common) {
  const char* no_color = std::getenv("NO_COLOR");
  if (common.no_color || common.json || (no_color != nullptr && *no_color != '\0')) return false;
  return IsTerminal();
}

size_t ReportColumns(size_t usual) {
  constexpr size_t kLeast = 60, kMost = 1000;  // of what is legible, of what a terminal has
  const char* const asked = std::getenv("COLUMNS");
  const std::optional<size_t> columns = ParseNumber<size_t>(asked == nullptr ? "" : asked);
  if (columns && *columns > 0) return std::clamp(*columns, kLeast, kMost);
  struct winsize size {};
  if (!IsTerminal() || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return usual;
  return std::clamp<size_t>(size.ws_col, usual, kMost);
}

void Print(std::string_view text, int status) {
  std::signal(SIGPIPE, SIG_IGN);
  const size_t written = std::fwrite(text.data(), 1, text.size(), stdout);
  if (written != text.size() || std::fflush(stdout) != 0) {
    if (errno == EPIPE) std::_Exit(status);
    std::perror("writing to standard output");
    std::_Exit(kExitTrouble);
  }
}

}  // namespace tdump::tools
