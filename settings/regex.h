// Regular expressions with search semantics: PCRE2 syntax, look-around allowed, bounded work.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"

namespace tdump::settings {

// Immutable and thread-safe once compiled. Subjects may be any bytes; where they are UTF-8, `.` is
// a character.
class Regex {
 public:
  enum class Match : unsigned char {
    kNo,
    kYes,
    // The work limit was reached (catastrophic backtracking): not known, in practice no match.
    kGaveUp,
  };
  static constexpr uint32_t kMaxGroups = 64;

  // Error: "regex 'a(b': missing closing parenthesis at position 3".
  static Result<Regex> Compile(std::string_view pattern);
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  // Anywhere in `subject`. Allocates nothing after the first call of a thread.
  Match Search(std::string_view subject) const noexcept;
  // The same; on kYes `*groups` are the leftmost match and its groups, 1 + groups() of them, each a
  // piece of `subject`, empty and without data where a group took no part.
  Match Find(std::string_view subject, std::vector<std::string_view>* groups) const;
  size_t groups() const;  // of the pattern, at most kMaxGroups: the others are not told
  // Number of the group "(?<name>...)"; 0: there is none.
  size_t GroupNamed(const std::string& name) const;
  const std::string& pattern() const { return pattern_; }
  // Searches of all patterns by this thread so far: a name is to be searched once, not once a call.
  static uint64_t SearchesOfThread() noexcept;

 private:
  struct Code;
  Regex(std::string pattern, std::unique_ptr<Code> code);
  std::string pattern_;
  std::unique_ptr<Code> code_;
};

}  // namespace tdump::settings
