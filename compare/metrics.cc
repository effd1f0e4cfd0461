#include "compare/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "compare/element.h"
#include "compare/huge_elements.h"
#include "compare/ordered_work.h"
#include "compare/pair_side.h"
#include "compare/pair_worker.h"

namespace tdump::compare {
namespace {

using Path = PairPlan::Path;

// Chunks with errors beyond the relative bound, kept for the second pass; more are all looked at.
constexpr size_t kMostSuspects = 1 << 16;

// Counters are large; a thread uses its own for one pair after the other.
PairCounts& CountsOfThread() {
  thread_local const auto counts = std::make_unique<PairCounts>();
  counts->Clear();
  return *counts;
}

class Measurement {
 public:
  // `huge_from`: equal elements from there on do not count.
  Measurement(const Operand& a, const Operand& b, const Bound& bound, unsigned threads,
              double huge_from = kNothingHuge)
      : bound_(bound),
        a_(a),
        b_(b),
        plan_(*a.record, *b.record, bound.relative),
        threads_(a.open && b.open ? std::max(1u, threads) : 1),
        own_(plan_, a.read, b.read, &counts_),
        channel_errors_(plan_.channels, 0.0) {
    threads_ = static_cast<unsigned>(std::min<uint64_t>(threads_, plan_.chunks()));
    plan_.huge_from = huge_from;
  }

  Result<Metrics> Run() {
    TDUMP_RETURN_IF_ERROR(OpenWorkers());
    TDUMP_RETURN_IF_ERROR(AddChunks());
    TDUMP_RETURN_IF_ERROR(FindHuge());
    if (found_huge_from_ != kNothingHuge) return Metrics();
    Finish();
    if (metrics_.numeric && !plan_.integers && sums_.max_excess > metrics_.bound_abs)
      TDUMP_RETURN_IF_ERROR(CountOutside());
    metrics_.within = Within();
    TDUMP_RETURN_IF_ERROR(DescribeWorst());
    ScaleByWeight();
    return std::move(metrics_);
  }

  // After Run, which then measured nothing: from there on they should not have counted.
  double found_huge_from() const { return found_huge_from_; }

 private:
  // Beyond the calling thread's.
  struct Worker {
    Worker(const PairPlan& plan, ReadBytes a, ReadBytes b)
        : pairs(plan, std::move(a), std::move(b), &counts) {}
    PairCounts counts;
    PairWorker pairs;
  };
  struct Chunk {
    Status status;
    PairSums sums;
    std::vector<double> channel_errors;
  };

  Status OpenWorkers() {
    for (unsigned thread = 1; thread < threads_; ++thread) {
      TDUMP_ASSIGN_OR_RETURN(ReadBytes a, a_.open());
      TDUMP_ASSIGN_OR_RETURN(ReadBytes b, b_.open());
      others_.push_back(std::make_unique<Worker>(plan_, std::move(a), std::move(b)));
    }
    return {};
  }
  PairWorker& WorkerOf(unsigned thread) { return thread == 0 ? own_ : others_[thread - 1]->pairs; }

  Status AddChunks() {
    Status status;
    RunInOrder(
        plan_.chunks(), threads_,
        [this](unsigned thread, uint64_t chunk) {
          PairWorker& worker = WorkerOf(thread);
          Chunk done{worker.Measure(chunk), worker.sums(), std::move(worker.channel_errors())};
          return done;
        },
        [&](uint64_t chunk, Chunk&& done) {
          status = std::move(done.status);
          if (status.ok()) AddChunk(chunk, done);
          return status.ok();
        });
    for (const auto& other : others_) counts_.Add(other->counts);
    return status;
  }

  void AddChunk(uint64_t chunk, const Chunk& done) {
    sums_.Append(done.sums);
    AddEach(channel_errors_.data(), done.channel_errors.data(), channel_errors_.size());
    if (done.sums.max_excess > 0 && suspects_.size() <= kMostSuspects)
      suspects_.emplace_back(chunk, done.sums.max_excess);
  }

  Status FindHuge() {
    const bool scales = FormatOf(plan_.a.dtype).specials == Specials::kScale ||
                        FormatOf(plan_.b.dtype).specials == Specials::kScale;
    if (plan_.path != Path::kReal || plan_.integers || scales || plan_.huge_from != kNothingHuge)
      return {};
    if (!MayHoldHuge(sums_.most_squares, static_cast<double>(sums_.abs_error),
                     static_cast<double>(sums_.relative)))
      return {};
    Magnitudes magnitudes;
    Status status;
    RunInOrder(
        plan_.chunks(), threads_,
        [this](unsigned thread, uint64_t chunk) { return WorkerOf(thread).CountMagnitudes(chunk); },
        [&](uint64_t, Result<Magnitudes>&& found) {
          status = found.status();
          if (found.ok()) magnitudes.Append(*found);
          return status.ok() && !magnitudes.HasNothingHuge(sums_.most_squares);
        });
    if (status.ok()) found_huge_from_ = magnitudes.HugeFrom();
    return status;
  }

  // How many finite pairs lie outside, now that the absolute bound is known.
  Status CountOutside() {
    std::vector<uint64_t> chunks;
    for (const auto& [chunk, excess] : suspects_) {
      if (excess > metrics_.bound_abs) chunks.push_back(chunk);
    }
    const bool all = suspects_.size() > kMostSuspects;
    Status status;
    RunInOrder(
        all ? plan_.chunks() : chunks.size(), threads_,
        [&](unsigned thread, size_t i) {
          return WorkerOf(thread).CountOutside(all ? i : chunks[i], metrics_.bound_abs);
        },
        [&](size_t, Result<uint64_t>&& outside) {
          status = outside.status();
          if (outside.ok()) outside_ += *outside;
          return status.ok();
        });
    return status;
  }

  static long double MeanOf(long double sum, uint64_t count) {
    return count == 0 ? 0.0L : sum / static_cast<long double>(count);
  }
  static double Mean(long double sum, uint64_t count) {
    return static_cast<double>(MeanOf(sum, count));
  }
  // 0 where the squares are beyond a double: no absolute allowance rather than one that takes
  // everything.
  static double Rms(long double squares, uint64_t count) {
    const double mean = Mean(squares, count);
    return std::isfinite(static_cast<double>(squares)) ? std::sqrt(mean) : 0;
  }

  void Finish() {
    Metrics& m = metrics_;
    m.elements = plan_.elements;
    m.bits_equal = sums_.bits_equal;
    m.numeric = plan_.path != Path::kBits;
    m.compared = sums_.compared;
    m.nan_a = sums_.nan_a;
    m.nan_b = sums_.nan_b;
    m.inf_a = sums_.inf_a;
    m.inf_b = sums_.inf_b;
    m.nan_mismatch = sums_.nan_mismatch;
    m.inf_mismatch = sums_.inf_mismatch;
    m.sign_mismatch = sums_.sign_mismatch;
    m.zero_sign_mismatch = sums_.zero_sign_mismatch;
    m.max_rel = sums_.max_rel;
    m.mean_abs = Mean(sums_.abs_error, sums_.compared);
    m.mean_rel = Mean(sums_.relative, sums_.compared);
    m.mean_error = Mean(sums_.error, sums_.compared);
    m.rmse = static_cast<double>(std::sqrt(MeanOf(sums_.square_error, sums_.compared)));
    const bool wide_integer = plan_.path == Path::kInteger;
    m.rms_a = Rms(sums_.square_a, sums_.finite_a);
    m.rms_b = Rms(sums_.square_b, sums_.finite_b);
    m.bound_abs = bound_.scale * std::min(m.rms_a, m.rms_b);
    m.max_abs =
        wide_integer ? static_cast<double>(sums_.max_abs_integer) : std::max(0.0, sums_.max_abs);
    m.max_abs_text = wide_integer     ? Int128Text(static_cast<__int128>(sums_.max_abs_integer))
                     : plan_.integers ? Int128Text(static_cast<__int128>(m.max_abs))
                                      : fmt::format("{:.4g}", m.max_abs);
    m.max_ulp = sums_.max_ulp;
    m.ulp = counts_.ulp;
    SetDirections();
    SetQuantiles();
    SetWorstChannel();
  }

  void SetDirections() {
    const long double a = sums_.compared_square_a, b = sums_.compared_square_b;
    const bool same = sums_.square_error == 0;
    if (a > 0 && b > 0) {
      const long double cosine = sums_.product / (std::sqrt(a) * std::sqrt(b));
      metrics_.cosine = same ? 1.0 : static_cast<double>(std::clamp(cosine, -1.0L, 1.0L));
    }
    if (same ? a > 0 : true)
      metrics_.sqnr_db = static_cast<double>(10 * std::log10(a / sums_.square_error));
  }

  void SetQuantiles() {
    Metrics& m = metrics_;
    const auto quantile = [&](double q) {
      return counts_.bins.Quantile(q, sums_.compared, m.ulp[0], m.max_abs);
    };
    m.p50 = quantile(0.5);
    m.p90 = quantile(0.9);
    m.p99 = quantile(0.99);
    m.p999 = quantile(0.999);
  }

  void SetWorstChannel() {
    const std::vector<double>& errors = channel_errors_;
    if (errors.empty() || sums_.square_error == 0) return;
    const auto worst = std::max_element(
        errors.begin(), errors.end(), [](double x, double y) { return std::abs(x) < std::abs(y); });
    const double rows = static_cast<double>(plan_.elements / errors.size());
    metrics_.worst_channel = {static_cast<uint64_t>(worst - errors.begin()), *worst / rows};
    double squares = 0;
    for (const double error : errors) squares += error * error;
    metrics_.channels = errors.size();
    metrics_.rms_in_common = std::sqrt(squares / static_cast<double>(errors.size())) / rows;
  }

  uint64_t Within() const {
    if (plan_.path == Path::kBits) return metrics_.bits_equal;
    if (plan_.integers) return counts_.ulp[0];
    return sums_.compared - outside_ + sums_.within_special;
  }

  Status DescribeWorst() {
    uint64_t element = sums_.first_special;
    if (element == PairSums::kNowhere) element = sums_.worst;
    if (element == PairSums::kNowhere) element = sums_.first_bits;
    if (element == PairSums::kNowhere) return {};
    metrics_.has_worst = true;
    TDUMP_ASSIGN_OR_RETURN(metrics_.worst, Describe(element));
    if (sums_.worst_relative == PairSums::kNowhere) return {};
    TDUMP_ASSIGN_OR_RETURN(metrics_.worst_relative, Describe(sums_.worst_relative));
    return {};
  }

  Result<Worst> Describe(uint64_t element) {
    Worst worst;
    worst.position = PositionOf(element, ElementShape(plan_.a), plan_.skip);
    TDUMP_ASSIGN_OR_RETURN(worst.a, own_.a().Text(element));
    TDUMP_ASSIGN_OR_RETURN(worst.b, own_.b().Text(element));
    return worst;
  }

  void ScaleByWeight() {
    if (plan_.weight == 1) return;
    Metrics& m = metrics_;
    for (uint64_t* count :
         {&m.elements, &m.bits_equal, &m.within, &m.compared, &m.nan_a, &m.nan_b, &m.inf_a,
          &m.inf_b, &m.nan_mismatch, &m.inf_mismatch, &m.sign_mismatch, &m.zero_sign_mismatch}) {
      if (__builtin_mul_overflow(*count, plan_.weight, count)) *count = ~uint64_t{0};
    }
    for (uint64_t& count : m.ulp) {
      if (__builtin_mul_overflow(count, plan_.weight, &count)) count = ~uint64_t{0};
    }
  }

  Bound bound_;
  const Operand& a_;
  const Operand& b_;
  PairPlan plan_;
  unsigned threads_;
  PairCounts& counts_ = CountsOfThread();
  PairWorker own_;
  std::vector<std::unique_ptr<Worker>> others_;
  PairSums sums_;
  std::vector<double> channel_errors_;
  std::vector<std::pair<uint64_t, double>> suspects_;  // chunk, its max_excess
  uint64_t outside_ = 0;
  double found_huge_from_ = kNothingHuge;
  Metrics metrics_;
};

}  // namespace

std::vector<uint64_t> ElementShape(const io::Record& record) {
  std::vector<uint64_t> shape(record.sizes.begin(), record.sizes.end());
  const uint64_t packed = std::max<uint64_t>(1, record.dtype.elements_per_unit);
  if (packed > 1 && shape.empty()) shape.push_back(1);
  if (!shape.empty()) shape.back() *= packed;
  return shape;
}

Result<Metrics> Measure(const Operand& a, const Operand& b, const Bound& bound, unsigned threads) {
  double huge_from = kNothingHuge;
  {
    Measurement all(a, b, bound, threads);
    Result<Metrics> metrics = all.Run();
    huge_from = all.found_huge_from();
    if (!metrics.ok() || huge_from == kNothingHuge) return metrics;
  }
  return Measurement(a, b, bound, threads, huge_from).Run();
}

}  // namespace tdump::compare
