#include "compare/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tdump::compare {
namespace {

using Number = std::optional<double>;
using Count = std::optional<uint64_t>;

bool CountsDiffer(const Count& a, const Count& b, bool exact) {
  if (!a || !b) return false;
  return exact ? *a != *b : (*a == 0) != (*b == 0);
}

double Magnitude(const Summary& s) {
  return std::max(std::abs(s.min.value_or(0)), std::abs(s.max.value_or(0)));
}

// No mean of |x| is larger than the rms.
double MeanMagnitude(const Summary& s) {
  return s.mean_abs ? *s.mean_abs : s.rms ? *s.rms : Magnitude(s);
}

class Judge {
 public:
  Judge(const Summary& a, const Summary& b, const Bound& bound, double least)
      : a_(a), b_(b), relative_(bound.relative), precision_(std::max(a.precision, b.precision)) {
    absolute_ =
        least + bound.scale * std::min(a.rms.value_or(Magnitude(a)), b.rms.value_or(Magnitude(b)));
  }

  // The statistic that is farthest outside.
  std::string Outside() {
    // |a - b| <= r max(|a|, |b|) + s: so do the largest ones, at most r M + s apart.
    const double largest = std::max(Magnitude(a_), Magnitude(b_));
    const double of_extremes = relative_ * largest + absolute_ + precision_ * largest;
    Check("min", a_.min, b_.min, of_extremes);
    Check("max", a_.max, b_.max, of_extremes);
    const double of_mean = OfNorm(MeanMagnitude(a_), MeanMagnitude(b_));
    Check("mean", a_.mean, b_.mean, of_mean);
    Check("mean |x|", a_.mean_abs, b_.mean_abs, of_mean);
    Check("rms", a_.rms, b_.rms, OfNorm(a_.rms.value_or(0), b_.rms.value_or(0)));
    return outside_;
  }

  size_t in_common() const { return in_common_; }

 private:
  // Of a norm N, of which |max(|a|, |b|)| <= N(a) + N(a - b): N(a - b) <= r (N(a) + N(a - b)) + s.
  double OfNorm(double a, double b) const {
    if (relative_ >= 1) return std::numeric_limits<double>::infinity();
    const double rounded = precision_ * std::max(Magnitude(a_), Magnitude(b_));
    return (relative_ * std::min(a, b) + absolute_) / (1 - relative_) + rounded;
  }

  void Check(std::string_view what, const Number& a, const Number& b, double apart) {
    in_common_ += a && b;
    if (!a || !b || !(std::abs(*a - *b) > apart)) return;
    const double times = std::abs(*a - *b) / apart;
    if (!(times > most_)) return;
    most_ = times;
    outside_ = fmt::format("{} {:.6g} and {:.6g}; the bound allows {:.2g} between them", what, *a,
                           *b, apart);
  }

  const Summary& a_;
  const Summary& b_;
  double relative_, precision_, absolute_ = 0;
  double most_ = 0;
  size_t in_common_ = 0;
  std::string outside_;
};

}  // namespace

Summary SummaryOf(const Statistics& statistics) {
  Summary summary;
  summary.nan = statistics.nan;
  summary.positive_inf = statistics.positive_inf;
  summary.negative_inf = statistics.negative_inf;
  if (!statistics.has_range()) return summary;
  summary.min = statistics.min;
  summary.max = statistics.max;
  summary.mean = statistics.mean;
  summary.mean_abs = statistics.mean_abs;
  summary.rms = statistics.rms();
  return summary;
}

SummaryJudgement JudgeSummaries(const Summary& a, const Summary& b, const Bound& bound,
                                double least) {
  const bool exact = a.counts && b.counts;
  SummaryJudgement judgement;
  judgement.special_differs = CountsDiffer(a.nan, b.nan, exact) ||
                              CountsDiffer(a.positive_inf, b.positive_inf, exact) ||
                              CountsDiffer(a.negative_inf, b.negative_inf, exact);
  judgement.checksums_differ =
      !a.checksum.empty() && !b.checksum.empty() && a.checksum != b.checksum;
  Judge judge(a, b, bound, least);
  judgement.outside = judge.Outside();
  judgement.in_common = judge.in_common() + (a.nan && b.nan) + (a.positive_inf && b.positive_inf) +
                        (a.negative_inf && b.negative_inf) +
                        (!a.checksum.empty() && !b.checksum.empty());
  return judgement;
}

}  // namespace tdump::compare
