#include "compare/explain.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_map>

#include "compare/error_levels.h"

namespace tdump::compare {
namespace {

// Error power out for error power in: at least, and what is allowed where most operators of a class
// amplify more, and in norms. (MiniLM: GELU by up to 8 dB, linear layers by up to 7 dB, norms by up
// to 15 dB.)
constexpr double kAmplification = 20, kMostAmplification = 100;
constexpr double kOfMedian = 4;
// Through operators that were not recorded, attention among them.
constexpr double kUnseenAmplification = 10;
// Peaks are largest values of many: they may grow more than the power does (MiniLM: 7 times).
constexpr double kPeakAmplification = 16;
// Power over that by which a sum is off on average, as of roundings (compare/bounds.h).
constexpr double kSumFactor = 4;

// What noise of power d does to the size of what it is added to. A norm divides by sqrt(1 + d)
// more, a gain of -d / 2, where d is that of the row before its weights: four times what the output
// shows is allowed. On average it makes nothing larger. A bent activation shrinks or grows its
// output by some d; what was not recorded, by more.
constexpr double kShrink = 2, kBend = 1, kUnseenBend = 8;
// x f'(x) / f(x) of GELU and SiLU is at most 1.3: so much larger is the gain of the output.
constexpr double kSteepest = 1.3;
// A mean over n elements is off by sqrt(noise / n), but neighbours are alike, as if one in kAlike
// counted. (Of inputs of bench/precision at most 0.9 in norms and 1.7 in activations.)
constexpr double kSpread = 3, kSpreadInNorms = 1.5, kAlike = 64;

// Of few elements the power is a sum of few squares, which chance makes larger than it is on
// average. Of n independent normal errors it is chi-square with n degrees of freedom; the share
// that one in a million exceeds, over n, is (1 - h + z sqrt(h))^3, h = 2 / (9 n) (Wilson and
// Hilferty, 1931; Abramowitz and Stegun, 26.4.17; 0.6 dB too much of one element, less of more).
// Bounds of power are four times the average anyway (compare/bounds.h), which is enough from 14
// elements on.
constexpr double kMillionth = 4.7534;  // z: the normal quantile
constexpr double kPowerFactor = 4;
double ChanceOfFew(uint64_t elements) {
  if (elements == 0) return 1;  // not known
  const double h = 2 / (9 * static_cast<double>(elements));
  return std::max(1.0, std::pow(1 - h + kMillionth * std::sqrt(h), 3) / kPowerFactor);
}

// bfloat16's unit roundoff. From there on a bound of each element hides a wrong factor: 1.015 in
// bfloat16, 2 in float8_e5m2.
constexpr double kCoarse = 0x1p-8;

constexpr size_t kRecent = 24;  // observations that stand in for inputs
constexpr size_t kEnough = 5;   // operators of a class whose median counts

// The errors of some observations, as they count for what follows.
struct Errors {
  ErrorLevel level;      // the largest
  bool failing = false;  // some are outside their bound

  void Add(const Errors& more) {
    level = Larger(level, more.level);
    failing = failing || more.failing;
  }
};

bool IsState(const Sample& sample) { return sample.state != StateKind::kNone; }

struct Judged {
  Explanation explanation;
  bool by_sum = false;  // within for what a sum is off by
  ErrorLevel counted;   // the error that counts for what follows

  Errors errors() const { return {counted, !explanation.within}; }
};

class Explainer {
 public:
  using Explained = std::function<void(size_t, const Explanation&)>;

  Explainer(const Samples& samples, std::span<const CallInterval> calls,
            const ExplainOptions& options)
      : samples_(samples), options_(options) {
    for (const CallInterval& call : calls) calls_.emplace(call.begin, call.end);
  }

  void Run(const Explained& explained) {
    Survey();
    Calibrate();
    // What an optimizer keeps follows from gradients that may have been read later than it.
    std::vector<size_t> states;
    for (size_t i = 0; i < samples_.count; ++i) {
      const Sample sample = samples_.at(i);
      if (IsState(sample)) {
        states.push_back(i);
        continue;
      }
      const Judged judged = Judge(i, sample);
      Remember(i, sample, judged);
      explained(i, judged.explanation);
    }
    // A momentum of steps follows from the others.
    std::stable_partition(states.begin(), states.end(),
                          [&](size_t i) { return samples_.at(i).state != StateKind::kOfSteps; });
    for (const size_t i : states) explained(i, Judge(i, samples_.at(i)).explanation);
  }

 private:
  struct Input : Errors {
    bool known = false;    // recorded
    bool unseen = false;   // operators that were not recorded lie between
    ErrorLevel roundings;  // that explain some of it whatever its error is
  };
  struct Inputs {      // recorded ones of a call
    double power = 0;  // the largest, also of what is not judged yet
    Errors errors;
  };
  struct Moment {  // samples in a row of one time and one call
    uint64_t order = 0, call = 0;
    Errors errors;
  };
  struct Occurrence {  // of a content
    uint64_t content = 0;
    uint32_t sample = 0;
    bool output = false;
  };
  static bool IsBefore(const Occurrence& x, const Occurrence& y) {
    return x.content != y.content ? x.content < y.content : x.sample < y.sample;
  }
  static constexpr uint32_t kNowhere = ~uint32_t{0};
  struct Repetition {
    uint32_t first = 0;  // the sample that it repeats; of one that repeats none, itself
    uint32_t later = 0;  // how many that are not judged yet repeat it
  };

  // What has to be known of later samples.
  void Survey() {
    std::vector<Occurrence> occurrences, of_a;
    occurrences.reserve(samples_.count);
    calibrates_.resize(samples_.count);
    for (size_t i = 0; i < samples_.count; ++i) {
      const Sample sample = samples_.at(i);
      if (IsState(sample)) continue;
      calibrates_[i] = sample.output && !sample.backward;
      if (sample.of_parameter && sample.error.power > 0) sums_.Watch(sample.path);
      if (!sample.output) {
        double& power = inputs_[sample.call].power;
        power = std::max(power, sample.error.power);
      }
      if (moments_.empty() || moments_.back().order != sample.order ||
          moments_.back().call != sample.call)
        moments_.push_back({sample.order, sample.call, {}});
      if (sample.content != 0)
        occurrences.push_back({sample.content, static_cast<uint32_t>(i), sample.output});
      if (sample.content_a != 0)
        of_a.push_back({sample.content_a, static_cast<uint32_t>(i), sample.output});
    }
    FindRepetitions(&occurrences);
    FindPassedOn(&of_a);
  }

  // An input that was met before, as an output say, is the first one of the same content.
  void FindRepetitions(std::vector<Occurrence>* occurrences) {
    std::sort(occurrences->begin(), occurrences->end(), IsBefore);
    repetitions_.resize(samples_.count);
    for (uint32_t i = 0; i < repetitions_.size(); ++i) repetitions_[i].first = i;
    const Occurrence* first = nullptr;
    for (const Occurrence& here : *occurrences) {
      if (first == nullptr || first->content != here.content) {
        first = &here;
      } else if (!here.output) {
        repetitions_[here.sample].first = first->sample;
        ++repetitions_[first->sample].later;
      }
    }
  }

  // An input that repeats nothing in both runs may be an earlier output in A: the last one.
  void FindPassedOn(std::vector<Occurrence>* occurrences) {
    std::sort(occurrences->begin(), occurrences->end(), IsBefore);
    passed_on_.assign(samples_.count, kNowhere);
    const Occurrence* output = nullptr;
    for (const Occurrence& here : *occurrences) {
      if (here.output) {
        output = &here;
      } else if (output != nullptr && output->content == here.content &&
                 repetitions_[here.sample].first == here.sample) {
        passed_on_[here.sample] = output->sample;
        passed_errors_.emplace(output->sample, Errors());
      }
    }
  }

  void Calibrate() {
    std::array<std::vector<double>, 8> seen;
    for (size_t i = 0; i < samples_.count; ++i) {
      if (!calibrates_[i]) continue;
      const Sample sample = samples_.at(i);
      const auto found = inputs_.find(sample.call);
      const double in = found == inputs_.end() ? 0 : found->second.power;
      if (in > 0 && std::isfinite(in) && std::isfinite(sample.error.power))
        seen[static_cast<size_t>(sample.kind)].push_back(
            std::max(0.0, sample.error.power - sample.local.power) / in);
    }
    for (size_t kind = 0; kind < seen.size(); ++kind) {
      std::vector<double>& ratios = seen[kind];
      const bool norm = kind == static_cast<size_t>(OperatorClass::kNormalisation);
      amplification_[kind] = norm ? kMostAmplification : kAmplification;
      if (norm) continue;
      if (ratios.size() < kEnough) continue;
      const auto middle = ratios.begin() + static_cast<ptrdiff_t>(ratios.size() / 2);
      std::nth_element(ratios.begin(), middle, ratios.end());
      amplification_[kind] = std::clamp(kOfMedian * *middle, kAmplification, kMostAmplification);
    }
  }

  Judged Judge(size_t i, const Sample& sample) {
    if (repetitions_[i].first != i) return JudgeAs(repetitions_[i].first);
    Judged judged;
    Explanation& out = judged.explanation;
    const ErrorLevel& error = sample.error;
    const Input in = IsState(sample) ? GradientsOf(sample) : InputOf(i, sample);
    out.in = in.level;
    out.in_known = in.known;
    out.bound = BoundOf(sample, in);
    if (IsHeldToGain(sample))
      out.bound.gain = std::max(out.bound.gain, sample.local.gain + GainOfOwnNoise(sample, in));
    out.within = IsWithin(sample, error, sample.within_local, out.bound, in) && !IsUnlike(sample);
    if (!out.within && AddSum(i, sample, &out))
      judged.by_sum = out.within = IsExplained(error, sample.within_local, out.bound);
    if (!out.within && sample.backward && options_.unflipped) {
      const std::optional<Unflipped> rest = options_.unflipped(i);
      out.within = rest && IsWithin(sample, rest->error, rest->within_local, out.bound, in);
    }
    if (!out.within && sample.state == StateKind::kOfSteps && options_.momentum)
      out.within = options_.momentum(i);
    out.follows = !out.within && in.failing;
    judged.counted = out.within ? error : Smaller(error, Larger(in.level, sample.local));
    return judged;
  }

  bool IsWithin(const Sample& sample, const ErrorLevel& error, bool within_local,
                const ErrorLevel& bound, const Input& in) const {
    const bool explained = IsExplained(error, within_local, bound);
    if (options_.compute) return explained;
    if (within_local) return !IsHeldToGain(sample) || error.gain <= bound.gain;
    return !IsNone(in.level) && explained;
  }

  static bool IsExplained(const ErrorLevel& error, bool within_local, const ErrorLevel& bound) {
    // Of a tensor with outliers the largest error may be a rounding of the largest element.
    const bool peak = within_local || error.peak <= bound.peak;
    return peak && error.power <= bound.power && error.gain <= bound.gain;
  }

  // What the gradient of a parameter is off by as a sum. False: nothing is known.
  bool AddSum(size_t i, const Sample& sample, Explanation* out) const {
    if (!sample.of_parameter || !options_.size) return false;
    const std::optional<TensorSize> size = options_.size(i);
    if (!size || size->rms_a == 0 || size->rms_b == 0) return false;
    const bool norm = sample.kind == OperatorClass::kNormalisation;
    out->sum = sums_.ErrorOf(*size, sample.path, norm, options_.size);
    if (out->sum.terms == 0) return false;
    const double relative = out->sum.error / size->rms_a;
    const double power = kSumFactor * relative * relative;
    out->bound.power += ChanceOfFew(sample.elements) * power;
    out->bound.peak += kPeakAmplification * out->sum.error / std::min(size->rms_a, size->rms_b);
    out->bound.gain += std::sqrt(ChanceOfFew(sample.elements) * power);
    return true;
  }

  // Whether it is not enough that all elements are within the bound of each.
  bool IsHeldToGain(const Sample& sample) const {
    return !options_.compute && sample.within_local && sample.local.gain >= kCoarse;
  }

  bool IsUnlike(const Sample& sample) const {
    const bool held = options_.compute || sample.local.gain >= kCoarse;
    return held && sample.unlike && !sample.backward && !IsState(sample);
  }

  // Of noise, where each element is within its own bound: that may be more than roundings make.
  static double GainOfOwnNoise(const Sample& sample, const Input& in) {
    const double noise = sample.error.noise();
    const bool carried = in.unseen && !IsNone(in.level);
    return (carried ? kUnseenBend : kBend) * noise +
           kSpread * Spread(sample, sample.error, std::max(noise, sample.local.power));
  }

  // A sample that repeats `first`.
  Judged JudgeAs(uint32_t first) {
    const auto kept = repeated_.find(first);
    Judged judged = kept->second;
    judged.explanation.follows = !judged.explanation.within;
    if (--repetitions_[first].later == 0) repeated_.erase(kept);
    return judged;
  }

  ErrorLevel BoundOf(const Sample& sample, const Input& in) const {
    const ErrorLevel local = Sum(sample.local, in.roundings);
    const double own = IsState(sample) ? kAmplification : Amplification(sample.kind);
    const double amplification = in.unseen ? std::max(kUnseenAmplification, own) : own;
    ErrorLevel bound;
    bound.power = local.power + amplification * in.level.power;
    bound.peak = local.peak + kPeakAmplification * in.level.peak;
    bound.gain = local.gain + GainOf(sample, in, bound.power);
    const double chance = ChanceOfFew(sample.elements);
    if (chance == 1) return bound;
    // Of n elements one n-th of the power of noise is gain: of a single one all of it.
    const double most = ChanceOfFew(1) * bound.power / static_cast<double>(sample.elements);
    bound.gain = std::max(bound.gain, std::sqrt(most));
    bound.power *= chance;
    return bound;
  }

  // Of what goes in. `most`: the power that is explained.
  static double GainOf(const Sample& sample, const Input& in, double most) {
    const ErrorLevel& level = in.level;
    if (in.unseen)
      return kUnseenAmplification *
             (level.gain + kUnseenBend * level.noise() + Spread(sample, level, level.noise()));
    const double noise = std::max(level.noise(), std::min(sample.error.noise(), most));
    if (sample.kind == OperatorClass::kNormalisation && sample.output) {
      // It takes a gain of whole rows away. One of a few channels becomes the other sign on the
      // others.
      return level.gain + (sample.louder ? 0 : kShrink * noise) +
             kSpreadInNorms * Spread(sample, level, noise);
    }
    return (sample.kind == OperatorClass::kElementwise ? kSteepest : 1) * level.gain +
           kBend * noise + kSpread * Spread(sample, level, noise);
  }

  // The standard deviation of the gain of noise that does not follow the signal.
  static double Spread(const Sample& sample, const ErrorLevel& in, double noise) {
    const auto counted = [](uint64_t n) { return std::max(1.0, static_cast<double>(n) / kAlike); };
    const double common = in.common_share();
    const double channels = counted(sample.channels > 0 ? sample.channels : sample.elements);
    return std::sqrt(noise * (common / channels + (1 - common) / counted(sample.elements)));
  }

  double Amplification(OperatorClass kind) const {
    return amplification_[static_cast<size_t>(kind)];
  }

  Input InputOf(size_t i, const Sample& sample) const {
    Input in;
    if (sample.root_input) return in;
    in.level = sample.weights;
    if (!sample.output) {
      if (passed_on_[i] == kNowhere) return AddRecent(in);
      in.Add(passed_errors_.at(passed_on_[i]));
      in.known = true;
      return in;
    }
    const auto inputs = inputs_.find(sample.call);
    if (inputs != inputs_.end()) {
      in.Add(inputs->second.errors);
      in.known = true;
    }
    const bool encloses = AddEnclosed(sample, &in);
    if (sample.backward) {
      if (const auto own = forward_.find(sample.path); own != forward_.end())
        in.level = Larger(in.level, own->second);
    }
    return in.known || encloses ? in : AddRecent(in);
  }

  // Of what is made of a parameter's gradients.
  Input GradientsOf(const Sample& sample) const {
    Input in;
    const auto own = gradients_.find(sample.parameter);
    if (own != gradients_.end()) in = own->second;
    // What stands in for it tells nothing of whether it cancels.
    const bool cancels = in.level.power >= 1;
    if (IsNone(in.level)) {
      const bool failing = in.failing;
      in = AddRecent(in);
      if (in.known) in.failing = failing;
    }
    if (sample.state == StateKind::kOfSquares) {
      in.level = OfSquares(in.level, cancels);
      in.roundings = OfSquares(in.roundings, false);
    }
    return in;
  }

  Input AddRecent(Input in) const {
    in.unseen = true;
    for (const Errors& errors : recent_) in.Add(errors);
    return in;
  }

  // What was seen inside of the sample's call.
  bool AddEnclosed(const Sample& sample, Input* in) const {
    const auto call = calls_.find(sample.call);
    if (call == calls_.end() || call->second == 0) return false;
    bool any = false;
    const auto first =
        std::upper_bound(moments_.begin(), moments_.end(), sample.call,
                         [](uint64_t begin, const Moment& other) { return begin < other.order; });
    for (auto other = first; other != moments_.end() && other->order < call->second; ++other) {
      if (other->call == sample.call) continue;
      in->Add(other->errors);
      any = true;
    }
    return any;
  }

  void Remember(size_t i, const Sample& sample, const Judged& judged) {
    const Errors errors = judged.errors();
    while (moments_[moment_].order != sample.order || moments_[moment_].call != sample.call)
      ++moment_;
    if (!judged.by_sum) AddSeen(errors);
    if (!sample.output) inputs_[sample.call].errors.Add(errors);
    if (!sample.output && sample.backward) {
      ErrorLevel rows = judged.counted;
      if (sample.channels == 0) rows.common = 0;
      sums_.AddGradOutput(i, sample.path, rows);
    } else if (!sample.output) {
      sums_.AddInput(i, sample.path, judged.counted);
    }
    if (repetitions_[i].later > 0) repeated_[i] = judged;
    if (const auto passed = passed_errors_.find(static_cast<uint32_t>(i));
        passed != passed_errors_.end())
      passed->second = errors;
    if (sample.parameter != 0) {
      Input& gradients = gradients_[sample.parameter];
      gradients.Add(errors);
      gradients.known = true;
      gradients.roundings = Larger(gradients.roundings, sample.local);
    }
    if (!sample.backward) {
      ErrorLevel& own = forward_[sample.path];
      own = Larger(own, judged.counted);
    }
  }

  // For what follows, at the moment that is judged.
  void AddSeen(const Errors& errors) {
    moments_[moment_].errors.Add(errors);
    if (recent_.size() < kRecent)
      recent_.push_back(errors);
    else
      recent_[next_++ % kRecent] = errors;
  }

  const Samples& samples_;
  const ExplainOptions& options_;
  std::unordered_map<uint64_t, uint64_t> calls_;
  std::unordered_map<uint64_t, Inputs> inputs_;  // by call
  std::vector<Moment> moments_;                  // in order of time
  size_t moment_ = 0;                            // of the sample that is judged
  std::vector<bool> calibrates_;                 // an output of the forward
  std::vector<Repetition> repetitions_;          // of each sample
  std::unordered_map<size_t, Judged> repeated_;  // what is met again, by sample
  std::vector<uint32_t> passed_on_;              // of each input, the output that A has it from
  std::unordered_map<uint32_t, Errors> passed_errors_;  // of these outputs
  std::unordered_map<uint64_t, ErrorLevel> forward_;    // by path
  std::unordered_map<uint64_t, Input> gradients_;       // by parameter
  GradientSums sums_;
  std::array<double, 8> amplification_{};  // by OperatorClass
  std::vector<Errors> recent_;
  size_t next_ = 0;
};

}  // namespace

void Explain(const Samples& samples, std::span<const CallInterval> calls,
             const ExplainOptions& options,
             const std::function<void(size_t, const Explanation&)>& explained) {
  Explainer(samples, calls, options).Run(explained);
}

std::vector<Explanation> Explain(std::span<const Sample> samples,
                                 std::span<const CallInterval> calls,
                                 const ExplainOptions& options) {
  std::vector<Explanation> result(samples.size());
  Explain({samples.size(), [&](size_t i) { return samples[i]; }}, calls, options,
          [&](size_t i, const Explanation& explanation) { result[i] = explanation; });
  return result;
}

}  // namespace tdump::compare
