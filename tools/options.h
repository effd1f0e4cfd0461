// Options: a tool's command line. The one place that knows the option parser,
// so that tools start and build fast.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tdump::tools {

inline constexpr int kExitOk = 0;
inline constexpr int kExitDiffers = 1;  // or: holes, damage, refused; see each tool's --help
inline constexpr int kExitTrouble = 2;

// Flags every tool has.
struct CommonOptions {
  bool json = false;
  bool quiet = false;
  bool no_color = false;
};

class Options {
 public:
  // `about`: what the tool is for, a paragraph. `teach`: examples, exit status and where to go on;
  // printed after the list of options.
  Options(const std::string& tool, const std::string& about, const std::string& teach);
  ~Options();

  CommonOptions common;

  // `name`: "--jsonl", or "-j,--jobs". `target` keeps its value when the option is not given.
  void Flag(const std::string& name, bool* target, const std::string& help);
  void Text(const std::string& name, std::string* target, const std::string& value,
            const std::string& help);
  void Number(const std::string& name, unsigned* target, const std::string& value,
              const std::string& help);
  void Integer(const std::string& name, int* target, const std::string& value,
               const std::string& help);
  // An option whose value may be left out. `given` tells whether it was there.
  void OptionalText(const std::string& name, bool* given, std::string* target,
                    const std::string& value, const std::string& help);
  void List(const std::string& name, std::vector<std::string>* target, const std::string& value,
            const std::string& help);
  // One of `choices`.
  void Choice(const std::string& name, std::string* target, const std::vector<std::string>& choices,
              const std::string& help);
  // An option of a later version, with or without a value: refused with "not in this version" and
  // `instead`, not listed by --help.
  void Later(const std::string& name, bool takes_value, const std::string& instead);
  // What to say of an option that is none and that users try: what does it here.
  void Unknown(const std::string& name, const std::string& instead);
  // One word that must be there; or `least` to `most` words.
  void Positional(const std::string& name, std::string* target, const std::string& help);
  void Positional(const std::string& name, std::vector<std::string>* target, size_t least,
                  size_t most, const std::string& help);

  // The exit status when there is nothing left to do (--help, --version, a
  // mistake, which is told); else nothing.
  std::optional<int> Parse(int argc, char** argv);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// "tool: message" on stderr. Returns kExitTrouble.
int Fail(const std::string& tool, const std::string& message);

// Colour when stdout is a terminal, NO_COLOR is not set and the user did not say otherwise.
bool WantsColour(const CommonOptions& common);

// How wide a report may be: as COLUMNS says where that is set, else as wide as the terminal that
// stdout is, and at least `usual` columns.
size_t ReportColumns(size_t usual);

// Writes to stdout. A reader that went away (head, less) ends the process quietly with `status`.
void Print(std::string_view text, int status = kExitOk);

}  // namespace tdump::tools
