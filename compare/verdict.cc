#include "compare/verdict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "compare/nan_note.h"

namespace tdump::compare {
namespace {

Answer SameIf(bool same) { return same ? Answer::kSame : Answer::kDiffers; }

void NoteLayout(const io::Record& a, const io::Record& b, Notes* notes) {
  if (a.layout != b.layout) {
    notes->push_back(
        fmt::format("layout differs: {} and {}", ToString(a.layout), ToString(b.layout)));
    return;
  }
  bool differs = a.strides.size() != b.strides.size();
  for (size_t i = 0; !differs && i < a.strides.size() && i < a.sizes.size(); ++i) {
    differs = a.sizes[i] > 1 && a.strides[i] != b.strides[i];
  }
  if (differs) {
    notes->push_back(fmt::format("layout differs: strides [{}] and [{}]",
                                 fmt::join(a.strides, ", "), fmt::join(b.strides, ", ")));
  }
}

bool AllBitsEqual(const Metrics& m) { return m.bits_equal == m.elements; }

// Elements that did not count though they are finite (compare/huge_elements.h); 0 where special
// values differ, of which it is not known in how many pairs they are.
uint64_t HugeOf(const Metrics& m) {
  if (!m.numeric || m.nan_mismatch + m.inf_mismatch > 0) return 0;
  const uint64_t counted = m.compared + m.nan_a + m.inf_a;
  return m.elements > counted ? m.elements - counted : 0;
}

}  // namespace

std::string_view ToString(Answer answer) {
  switch (answer) {
    case Answer::kSame:
      return "same";
    case Answer::kDiffers:
      return "differs";
    case Answer::kNotJudged:
      return "not judged";
  }
  return "unknown";
}

bool Verdict::Fails(bool bits) const {
  return (shape == Answer::kDiffers && !shape_allowed) ||
         (dtype == Answer::kDiffers && !dtype_allowed) ||
         (special == Answer::kDiffers && !special_allowed) || tolerance == Answer::kDiffers ||
         (bits && bitwise == Answer::kDiffers);
}

Kept KeptOf(const io::Record& a, const io::Record& b) {
  return {.hash = a.hash && b.hash && StoredOnce(a) == StoredOnce(b),
          .payload = a.payload && b.payload};
}

Comparison JudgeMeta(const io::Record& a, const io::Record& b) {
  Comparison result;
  Verdict& v = result.verdict;
  v.shape = SameIf(ElementShape(a) == ElementShape(b));
  v.dtype = SameIf(a.dtype == b.dtype);
  if (v.shape == Answer::kDiffers) return result;
  NoteLayout(a, b, &result.notes);
  if (a.conj != b.conj || a.neg != b.neg)
    result.notes.push_back("one side was a conjugated or negated view");
  const Kept kept = KeptOf(a, b);
  if (kept.hash && v.dtype == Answer::kSame) {
    result.evidence = Evidence::kHash;
    if (*a.hash == *b.hash) {
      v.bitwise = v.tolerance = v.special = Answer::kSame;
    } else {
      v.bitwise = Answer::kDiffers;
    }
  }
  return result;
}

void JudgeMetrics(const Metrics& metrics, Comparison* comparison) {
  Verdict& v = comparison->verdict;
  comparison->evidence = Evidence::kPayload;
  comparison->metrics = metrics;
  v.bitwise = SameIf(v.dtype == Answer::kSame && AllBitsEqual(metrics));
  v.special = metrics.numeric ? SameIf(metrics.nan_mismatch + metrics.inf_mismatch == 0)
                              : Answer::kNotJudged;
  v.tolerance = SameIf(metrics.within == metrics.elements);
  if (metrics.zero_sign_mismatch > 0) {
    comparison->notes.push_back(
        fmt::format("sign of zero differs in {} elements", metrics.zero_sign_mismatch));
  }
  if (metrics.nan_a > 0 && metrics.nan_b > 0) {
    comparison->notes.push_back(
        fmt::format("{}: {} elements of A, {} of B", kNanNote, metrics.nan_a, metrics.nan_b));
  }
  if (const uint64_t huge = HugeOf(metrics); huge > 0) {
    comparison->notes.push_back(
        fmt::format("equal elements far beyond all others (a mask) do not count: {} of {}", huge,
                    metrics.elements));
  }
  if (!metrics.numeric && v.bitwise == Answer::kDiffers) {
    comparison->notes.push_back("dtype without a known number format: compared by bits");
  }
}

}  // namespace tdump::compare
