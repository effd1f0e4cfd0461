// Mistakes: everything that is wrong with one source of settings, collected so that a user sees all
// of it at once.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"

namespace tdump::settings {

// A place in a text, counted from 1; columns count characters. {0, 0}: the source as a whole.
struct Position {
  int line = 0;
  int column = 0;
};

// Not thread-safe. One line a mistake: "file:line:column: what; expected ...; did you mean 'x'?".
class Mistakes {
 public:
  // `positions` false: the source is one value (a variable, an option), lines and columns in it
  // help nobody.
  explicit Mistakes(std::string source, bool positions = true)
      : source_(std::move(source)), positions_(positions) {}

  void Add(Position at, std::string_view what, std::string_view expected = "",
           std::string_view near = "");
  bool empty() const { return entries_.empty(); }
  // Ok when empty; else kInvalidArgument with the lines in order of position, the first 50 of them.
  Status ToStatus() const;

 private:
  struct Entry {
    Position at;
    std::string text;
  };
  std::string source_;
  bool positions_;
  std::vector<Entry> entries_;
};

// The candidate closest to `word` by edit distance (insert, delete, replace, swap of neighbours),
// "" when none is near.
std::string Nearest(std::string_view word, const std::vector<std::string>& candidates);

// tdump::Printable (core/text.h), cut after `longest` bytes.
std::string Printable(std::string_view text, size_t longest = 80);

}  // namespace tdump::settings
