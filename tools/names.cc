#include "tools/names.h"

#include <memory>

#include "settings/regex.h"

namespace tdump::tools {

Result<std::function<bool(const std::string&)>> MatchAny(const std::vector<std::string>& patterns) {
  using NameTest = std::function<bool(const std::string&)>;
  if (patterns.empty()) return NameTest{};
  auto regexes = std::make_shared<std::vector<settings::Regex>>();
  for (const std::string& pattern : patterns) {
    TDUMP_ASSIGN_OR_RETURN(settings::Regex regex, settings::Regex::Compile(pattern));
    regexes->push_back(std::move(regex));
  }
  return NameTest([regexes](const std::string& name) {
    for (const settings::Regex& regex : *regexes) {
      if (regex.Search(name) == settings::Regex::Match::kYes) return true;
    }
    return false;
  });
}

}  // namespace tdump::tools
