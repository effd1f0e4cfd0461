#include "settings/mistakes.h"

#include <algorithm>

#include "core/text.h"
#include "core/utf8.h"

namespace tdump::settings {
namespace {

constexpr size_t kShown = 50;

}  // namespace

void Mistakes::Add(Position at, std::string_view what, std::string_view expected,
                   std::string_view near) {
  std::string text = source_;
  if (positions_ && at.line > 0)
    text += ":" + std::to_string(at.line) + ":" + std::to_string(at.column);
  text += ": " + std::string(what);
  if (!expected.empty()) text += "; expected " + std::string(expected);
  if (!near.empty()) text += "; did you mean '" + std::string(near) + "'?";
  entries_.push_back({at, tdump::Printable(text)});
}

Status Mistakes::ToStatus() const {
  if (entries_.empty()) return Status::Ok();
  std::vector<const Entry*> sorted;
  for (const Entry& entry : entries_) sorted.push_back(&entry);
  std::stable_sort(sorted.begin(), sorted.end(), [](const Entry* a, const Entry* b) {
    return std::pair(a->at.line, a->at.column) < std::pair(b->at.line, b->at.column);
  });
  std::string text;
  for (size_t i = 0; i < std::min(sorted.size(), kShown); ++i)
    text += (i ? "\n" : "") + sorted[i]->text;
  if (sorted.size() > kShown)
    text += "\n... and " + std::to_string(sorted.size() - kShown) + " more";
  return InvalidArgument(std::move(text));
}

std::string Nearest(std::string_view word, const std::vector<std::string>& candidates) {
  if (word.size() > 64) return "";
  std::string best;
  size_t least = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = EditDistance(word, candidate);
    const bool nothing_alike = distance >= std::max(word.size(), candidate.size());
    if (distance >= least || nothing_alike) continue;
    least = distance;
    best = candidate;
  }
  return best;
}

std::string Printable(std::string_view text, size_t longest) {
  std::string out;
  while (!text.empty()) {
    if (out.size() >= longest) return out + "...";
    const size_t length = std::max<size_t>(1, Utf8Length(text));
    out += tdump::Printable(text.substr(0, length));
    text.remove_prefix(length);
  }
  return out;
}

}  // namespace tdump::settings
