#include "tools/near_names.h"

#include <algorithm>

#include "coordinator/coverage_names.h"
#include "core/text.h"

namespace tdump::tools {
namespace {

constexpr size_t kMostNear = 3;

std::string NamePart(const std::string& pattern) {
  const size_t end = std::min(pattern.find('@'), pattern.find(", "));
  return end == 0 ? "" : pattern.substr(0, end);
}

}  // namespace

std::string NearText(const LoadedRun& run, const std::string& pattern) {
  return NearText(std::vector<const LoadedRun*>{&run}, pattern);
}

std::string NearText(const std::vector<const LoadedRun*>& runs, const std::string& pattern) {
  std::vector<std::string> names;
  for (const LoadedRun* run : runs) {
    if (run == nullptr) continue;
    for (const io::OperatorCoverage& op : run->index.operators) names.push_back(op.name);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::string near;
  for (const std::string& name : coordinator::NearNames(NamePart(pattern), names, kMostNear))
    near += (near.empty() ? ". Near: '" : ", '") + Printable(name) + "'";
  return near;
}

}  // namespace tdump::tools
