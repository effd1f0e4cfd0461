// Verdict: what was found out about one pair of records, as five answers that are never merged into
// one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compare/metrics.h"
#include "compare/notes.h"
#include "compare/packed_metrics.h"
#include "io/records.h"

namespace tdump::compare {

enum class Answer : uint8_t { kSame, kDiffers, kNotJudged };
std::string_view ToString(Answer answer);

// `tolerance` is kSame only when every element was proven within the bound. `special` is about NaN
// and infinities; the sign of zero is a note. Values of unequal shape are never compared.
// `statistics` is judged where hashes do not prove equality and a side kept no values: kSame when
// two tensors within the bound can have them, which proves nothing; kDiffers when they cannot, or
// NaN or infinities differ (then `tolerance` or `special` is kDiffers too).
struct Verdict {
  Answer shape = Answer::kNotJudged;
  Answer dtype = Answer::kNotJudged;
  Answer bitwise = Answer::kNotJudged;
  Answer tolerance = Answer::kNotJudged;
  Answer special = Answer::kNotJudged;
  Answer statistics = Answer::kNotJudged;
  // Differences that are known and count as none: the precision that was given explains the dtypes,
  // or a rule names the kind (compare/rules.h). The answers above stay what they are.
  bool shape_allowed = false, dtype_allowed = false, special_allowed = false;

  // What makes a pair fail: shape, dtype, special values or tolerance; `bits` adds bitwise.
  bool Fails(bool bits) const;
  bool Judged() const {
    return bitwise != Answer::kNotJudged || tolerance != Answer::kNotJudged ||
           statistics != Answer::kNotJudged;
  }
  // Also integers that are the same in another dtype or shape, of whose bits nothing is said.
  bool EqualInValue() const {
    return bitwise == Answer::kSame ||
           (bitwise == Answer::kNotJudged && tolerance == Answer::kSame &&
            special == Answer::kSame && dtype_allowed && shape_allowed);
  }
  bool HasValues() const { return bitwise == Answer::kSame || tolerance != Answer::kNotJudged; }
  // Known to differ, and by how much is not known at all.
  bool Unproven() const {
    return bitwise == Answer::kDiffers && tolerance == Answer::kNotJudged &&
           statistics == Answer::kNotJudged;
  }
};

// How an answer was reached.
enum class Evidence : uint8_t {
  kMeta,        // nothing but shape and dtype was kept on one side or both
  kHash,        // from the hashes alone
  kStatistics,  // from the statistics
  kPayload,     // the bytes were read
};

struct Comparison {
  PackedMetrics metrics;  // when evidence is kPayload and the shapes agree
  Notes notes;            // "layout differs: strides [8, 4, 2, 1] and [8, 1, 4, 2]"
  Verdict verdict;
  Evidence evidence = Evidence::kMeta;
};

// What the two sides kept.
struct Kept {
  bool hash = false;     // on both sides, and comparable: the same dimensions are stored once
  bool payload = false;  // on both sides
};
Kept KeptOf(const io::Record& a, const io::Record& b);

// Answers that need no payload. When `hash` is comparable and equal, everything is answered; when
// it differs and no payload is there, bitwise is answered and tolerance is not judged.
Comparison JudgeMeta(const io::Record& a, const io::Record& b);
// Adds the measured answers.
void JudgeMetrics(const Metrics& metrics, Comparison* comparison);

}  // namespace tdump::compare
