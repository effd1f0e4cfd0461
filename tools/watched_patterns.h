// WatchedPatterns: regexes of a command line that remember whether they were found in anything, so
// that one that is misspelt is told.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "compare/team.h"
#include "core/status.h"

namespace tdump::tools {

class WatchedPatterns {
 public:
  using NameTest = std::function<bool(const std::string&)>;

  // As MatchAny, each pattern watched as "OPTION 'PATTERN'". The test is thread-safe and may
  // outlive this.
  Result<NameTest> MatchAny(const std::string& option, const std::vector<std::string>& patterns,
                            bool otherwise = false);
  // `text`: how a test that was made elsewhere, of `pattern`, is told.
  NameTest Watch(std::string text, std::string pattern, NameTest test);
  // With what other processes found; all of the team must call it, with the same patterns.
  Status Share(compare::Team* team);
  // Those that were not found in any name they were asked about.
  struct Unused {
    std::string text, pattern;
  };
  std::vector<Unused> AllUnused() const;

 private:
  struct Watched {
    std::string text, pattern;
    std::shared_ptr<std::atomic<bool>> used;
  };
  std::vector<Watched> watched_;
};

}  // namespace tdump::tools
