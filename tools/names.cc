#include "tools/names.h"

#include <atomic>
#include <cstdio>
#include <memory>

#include "core/text.h"
#include "core/utf8.h"
#include "settings/regex.h"

namespace tdump::tools {
namespace {

void Tell(const std::string& pattern, const std::string& name, bool otherwise) {
  std::fprintf(
      stderr, "the regex '%s' takes too long on '%s'; it is taken as %s: write it in another way\n",
      Printable(pattern).c_str(), Printable(CutUtf8(name, 200)).c_str(),
      otherwise ? "found" : "not found");
}

}  // namespace

Result<std::function<bool(const std::string&)>> MatchAny(const std::vector<std::string>& patterns,
                                                         bool otherwise) {
  using NameTest = std::function<bool(const std::string&)>;
  if (patterns.empty()) return NameTest{};
  auto regexes = std::make_shared<std::vector<settings::Regex>>();
  auto told = std::make_shared<std::vector<std::atomic<bool>>>(patterns.size());
  for (const std::string& pattern : patterns) {
    TDUMP_ASSIGN_OR_RETURN(settings::Regex regex, settings::Regex::Compile(pattern));
    regexes->push_back(std::move(regex));
  }
  return NameTest([regexes, told, otherwise](const std::string& name) {
    for (size_t i = 0; i < regexes->size(); ++i) {
      const settings::Regex& regex = (*regexes)[i];
      const settings::Regex::Match match = regex.Search(name);
      if (match == settings::Regex::Match::kGaveUp && !(*told)[i].exchange(true))
        Tell(regex.pattern(), name, otherwise);
      if (match == settings::Regex::Match::kYes ||
          (match == settings::Regex::Match::kGaveUp && otherwise))
        return true;
    }
    return false;
  });
}

}  // namespace tdump::tools
