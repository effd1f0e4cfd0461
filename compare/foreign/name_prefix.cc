#include "compare/foreign/name_prefix.h"

#include <algorithm>
#include <set>
#include <unordered_set>

namespace tdump::compare::foreign {
namespace {

constexpr size_t kMostComponents = 3;  // of a prefix
constexpr size_t kMostPrefixes = 64;   // that are tried

using NameSet = std::unordered_set<std::string>;

// "a.", "a.b.", ... of the names.
std::set<std::string> PrefixesOf(const std::vector<std::string>& names) {
  std::set<std::string> prefixes;
  for (const std::string& name : names) {
    size_t dot = name.find('.');
    for (size_t i = 0; i < kMostComponents && dot != std::string::npos; ++i) {
      if (prefixes.size() == kMostPrefixes) return prefixes;
      prefixes.insert(name.substr(0, dot + 1));
      dot = name.find('.', dot + 1);
    }
  }
  return prefixes;
}

size_t CountMet(const std::vector<std::string>& names, const NameSet& others,
                const NamePrefix& prefix) {
  return static_cast<size_t>(std::count_if(names.begin(), names.end(), [&](const auto& name) {
    return name.starts_with(prefix.dropped) && others.contains(prefix.Applied(name));
  }));
}

}  // namespace

std::string NamePrefix::Applied(const std::string& name) const {
  return name.starts_with(dropped) ? added + name.substr(dropped.size()) : name;
}

NamePrefix FindPrefix(const std::vector<std::string>& names,
                      const std::vector<std::string>& others) {
  const NameSet there(others.begin(), others.end());
  NamePrefix best;
  size_t most = CountMet(names, there, best);
  bool ambiguous = false;  // another prefix leads to as many other names
  const auto offer = [&](NamePrefix prefix) {
    const size_t met = CountMet(names, there, prefix);
    const auto here =
        static_cast<size_t>(std::count_if(names.begin(), names.end(), [&](const std::string& name) {
          return name.starts_with(prefix.dropped);
        }));
    if (2 * met <= here) return;
    if (met == most && met > 0) ambiguous = true;
    if (met <= most) return;
    most = met;
    best = std::move(prefix);
    ambiguous = false;
  };
  for (const std::string& prefix : PrefixesOf(names)) offer({.dropped = prefix, .added = ""});
  for (const std::string& prefix : PrefixesOf(others)) offer({.dropped = "", .added = prefix});
  return ambiguous ? NamePrefix{} : best;
}

}  // namespace tdump::compare::foreign
