#include "compare/handed_on.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "compare/roles.h"
#include "core/key.h"

namespace tdump::compare {
namespace {

constexpr size_t kMostNearest = 32;  // ranks that are looked at for each
constexpr size_t kMostOpened = 256;  // pairs of passes, in all

// The name of the output that is `given`, where a pair of passes holds one.
std::optional<std::string> MadeIn(const RunSide& a, const RunSide& b, const PassPair& pair,
                                  const Given& given) {
  const auto views = OpenViews(a, b, pair);
  if (!views.ok()) return std::nullopt;
  std::set<std::string> made;  // keys
  (void)views->b->ForEachTensor([&](const io::Record& record) {
    if (IsOutput(record.key.role) && record.hash == given.b) made.insert(ToText(record.key));
    return true;
  });
  if (made.empty()) return std::nullopt;
  std::optional<std::string> name;
  (void)views->a->ForEachTensor([&](const io::Record& record) {
    if (record.hash == given.a && made.contains(ToText(record.key))) name = NameOf(record);
    return !name;
  });
  return name;
}

// Other ranks, the nearest first: a stage is mostly given what the one before it made. Those that
// were given the same are copies.
std::vector<size_t> Neighbours(std::span<const Parting> partings, size_t of) {
  std::vector<std::pair<int64_t, size_t>> others;
  for (size_t i = 0; i < partings.size(); ++i) {
    const int64_t ranks = int64_t{partings[of].pair.b.rank} - partings[i].pair.b.rank;
    if (ranks != 0 && partings[i].given != partings[of].given)
      others.emplace_back(ranks > 0 ? 2 * ranks : 1 - 2 * ranks, i);
  }
  std::sort(others.begin(), others.end());
  std::vector<size_t> nearest;
  for (size_t i = 0; i < std::min(others.size(), kMostNearest); ++i)
    nearest.push_back(others[i].second);
  return nearest;
}

}  // namespace

std::optional<Given> GivenIn(const PassDiff& pass, const Outcome& outcome) {
  if (outcome.is_output()) return std::nullopt;
  const auto a = pass.a->Get(outcome.ids.a), b = pass.b->Get(outcome.ids.b);
  if (!a.ok() || !b.ok() || !a->hash || !b->hash) return std::nullopt;
  return Given{*a->hash, *b->hash};
}

size_t ChooseMaker(const RunSide& a, const RunSide& b, std::span<const Candidate> candidates,
                   std::span<const Parting> partings, std::vector<std::string>* notes) {
  std::vector<Candidate> left(candidates.begin(), candidates.end());
  std::vector<size_t> indices(candidates.size());
  std::iota(indices.begin(), indices.end(), size_t{0});
  std::string note;
  size_t opened = 0;
  while (!left.empty()) {
    const size_t best = ChooseOrigin(left);
    const size_t at = indices[best];
    std::optional<std::string> made;
    const std::vector<size_t> others =
        partings[at].given ? Neighbours(partings, at) : std::vector<size_t>();
    for (size_t i = 0; i < others.size() && !made && opened < kMostOpened; ++i, ++opened) {
      const PassPair& pair = partings[others[i]].pair;
      made = MadeIn(a, b, pair, *partings[at].given);
      if (made && note.empty())
        note = fmt::format(
            "rank {} was given what {} of rank {} made; no coordinates say where ranks are: if "
            "they are stages of a pipeline, --topology pp=N",
            partings[at].pair.b.rank, *made == "." ? "the whole model" : *made, pair.b.rank);
    }
    if (!made) {
      if (!note.empty()) notes->push_back(std::move(note));
      return at;
    }
    left.erase(left.begin() + static_cast<ptrdiff_t>(best));
    indices.erase(indices.begin() + static_cast<ptrdiff_t>(best));
  }
  return ChooseOrigin(candidates);  // each has what another one made
}

}  // namespace tdump::compare
