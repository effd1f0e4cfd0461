#include "compare/precision_hint.h"

#include <fmt/format.h>

#include <cmath>

#include "core/text.h"

namespace tdump::compare {
namespace {

constexpr std::string_view kLooks = "error looks like rounding; ";

}  // namespace

std::string_view PrecisionLike(const Outcome& outcome, const DType& a, const DType& b) {
  const Metrics& m = outcome.comparison.metrics;
  const ErrorLevel error = LevelOf(m);
  const bool product = outcome.reduction().kind == OperatorClass::kProduct ||
                       outcome.reduction().kind == OperatorClass::kUnknown;
  if (!product || m.elements < 64 || m.bits_equal > m.elements / 4 ||
      error.gain > 0.3 * std::sqrt(error.power))
    return "";
  for (const std::string_view name : kLowerPrecisions) {
    const auto precision = ParsePrecision(name);
    const LocalBound local =
        LocalBoundOf({.a = a, .b = b, .reduction = outcome.reduction(), .compute = &*precision});
    if (error.power <= local.level.power) return name;
  }
  return "";
}

std::string PrecisionNote(std::string_view precision) {
  return fmt::format("{}if B computed so, --compute {} judges by it", kLooks, precision);
}

bool IsPrecisionNote(std::string_view note) { return note.starts_with(kLooks); }

void PrecisionHints::Add(const Outcome& outcome) {
  const std::optional<Explanation>& explanation = outcome.explanation;
  if (!outcome.fails || !explanation || explanation->within || explanation->follows) return;
  ++failing_;
  for (const std::string& note : outcome.comparison.notes.Copy()) {
    if (!IsPrecisionNote(note)) continue;
    for (size_t i = 0; i < kLowerPrecisions.size(); ++i)
      alike_[i] += note == PrecisionNote(kLowerPrecisions[i]);
  }
}

std::string PrecisionHints::Note() const {
  uint64_t alike = 0;
  for (size_t i = 0; i < kLowerPrecisions.size(); ++i) {
    alike += alike_[i];
    if (2 * alike > failing_)
      return fmt::format("{} ({} of the {} that do not follow from another)",
                         PrecisionNote(kLowerPrecisions[i]), alike, Plural(failing_, "pair"));
  }
  return "";
}

}  // namespace tdump::compare
