#include "tools/watched_patterns.h"

#include <fmt/format.h>

#include <utility>

#include "tools/names.h"

namespace tdump::tools {

Result<WatchedPatterns::NameTest> WatchedPatterns::MatchAny(
    const std::string& option, const std::vector<std::string>& patterns, bool otherwise) {
  std::vector<NameTest> tests;
  for (const std::string& pattern : patterns) {
    TDUMP_ASSIGN_OR_RETURN(NameTest test, tools::MatchAny({pattern}, otherwise));
    tests.push_back(Watch(fmt::format("{} '{}'", option, pattern), pattern, std::move(test)));
  }
  if (tests.empty()) return NameTest{};
  return NameTest([tests = std::move(tests)](const std::string& name) {
    bool found = false;
    for (const NameTest& test : tests) found = test(name) || found;  // each is to be seen
    return found;
  });
}

WatchedPatterns::NameTest WatchedPatterns::Watch(std::string text, std::string pattern,
                                                 NameTest test) {
  auto used = std::make_shared<std::atomic<bool>>(false);
  watched_.push_back({std::move(text), std::move(pattern), used});
  return [used = std::move(used), test = std::move(test)](const std::string& name) {
    const bool found = test(name);
    if (found && !used->load(std::memory_order_relaxed)) used->store(true);
    return found;
  };
}

Status WatchedPatterns::Share(compare::Team* team) {
  for (const Watched& watched : watched_) {
    TDUMP_ASSIGN_OR_RETURN(const int used, team->Largest(watched.used->load() ? 1 : 0));
    watched.used->store(used != 0);
  }
  return {};
}

std::vector<WatchedPatterns::Unused> WatchedPatterns::AllUnused() const {
  std::vector<Unused> unused;
  for (const Watched& watched : watched_) {
    if (!watched.used->load()) unused.push_back({watched.text, watched.pattern});
  }
  return unused;
}

}  // namespace tdump::tools
