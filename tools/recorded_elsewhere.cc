#include "tools/recorded_elsewhere.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/text.h"

namespace tdump::tools {
namespace {

constexpr size_t kMostPasses = 64;  // that are looked at, of each kind

struct Places {
  std::vector<uint64_t> ranks, steps;

  void Add(const LoadedRun& run, const io::IndexedPass& place) {
    ranks.push_back(static_cast<uint64_t>(run.store->processes()[place.process].identity.rank));
    steps.push_back(place.global_step);
  }
};

std::string Numbered(std::string_view what, const std::vector<uint64_t>& numbers) {
  const std::string text = RangesText(numbers);
  const bool is_one = text.find_first_of("-,") == std::string::npos;
  return fmt::format("{}{} {}", what, is_one ? "" : "s", text);
}

bool HasRecord(const LoadedRun& run, const io::IndexedPass& place, const RecordFilter& filter) {
  const auto pass = Open(run, place);
  bool any = false;
  if (!pass.ok()) return false;
  (void)pass->reader->ForEachRecord([&](const io::Record& record) {
    any = filter.Takes(record);
    return !any;
  });
  return any;
}

// Those of the first that `filter` means.
Places PlacesWithRecord(const LoadedRun& run, const RecordFilter& filter) {
  Places places;
  size_t looked_at = 0;
  for (const io::IndexedPass* place : SelectPasses(run, filter)) {
    if (++looked_at > kMostPasses) break;
    if (HasRecord(run, *place, filter)) places.Add(run, *place);
  }
  return places;
}

}  // namespace

std::string ElsewhereText(const LoadedRun& run, const RecordFilter& filter) {
  Places asked;
  for (const io::IndexedPass* place : SelectPasses(run, filter)) asked.Add(run, *place);
  if (filter.name.empty() || asked.steps.empty()) return "";
  const auto text = [&](const std::string& where) {
    return fmt::format("'{}' was not recorded on {} in {}, but {}", Printable(filter.name),
                       Numbered("rank", asked.ranks), Numbered("step", asked.steps), where);
  };
  RecordFilter other = filter;
  other.ranks.reset();
  Places found = PlacesWithRecord(run, other);
  if (!found.ranks.empty()) return text("on " + Numbered("rank", found.ranks));
  other.ranks = filter.ranks;
  other.steps.reset();
  found = PlacesWithRecord(run, other);
  if (!found.steps.empty()) return text("in " + Numbered("step", found.steps));
  other.ranks.reset();
  found = PlacesWithRecord(run, other);
  if (found.steps.empty()) return "";
  return text("in " + Numbered("step", found.steps) + " on " + Numbered("rank", found.ranks));
}

}  // namespace tdump::tools
