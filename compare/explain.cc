#include "compare/explain.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <unordered_map>

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

constexpr size_t kRecent = 24;  // observations that stand in for inputs
constexpr size_t kEnough = 5;   // operators of a class whose median counts

ErrorLevel Larger(const ErrorLevel& x, const ErrorLevel& y) {
  return {.power = std::max(x.power, y.power),
          .peak = std::max(x.peak, y.peak),
          .gain = std::max(x.gain, y.gain),
          .common = std::max(x.common, y.common)};
}
ErrorLevel Smaller(const ErrorLevel& x, const ErrorLevel& y) {
  return {.power = std::min(x.power, y.power),
          .peak = std::min(x.peak, y.peak),
          .gain = std::min(x.gain, y.gain),
          .common = std::min(x.common, y.common)};
}
bool IsNone(const ErrorLevel& level) { return level.power == 0 && level.peak == 0; }

class Explainer {
 public:
  Explainer(std::span<const Sample> samples, std::span<const CallInterval> calls,
            const ExplainOptions& options)
      : samples_(samples), options_(options), result_(samples.size()), counted_(samples.size()) {
    for (const CallInterval& call : calls) calls_.emplace(call.begin, call.end);
    for (size_t i = 0; i < samples.size(); ++i) {
      if (!samples[i].output) inputs_[samples[i].call].push_back(i);
    }
  }

  std::vector<Explanation> Run() {
    Calibrate();
    for (size_t i = 0; i < samples_.size(); ++i) {
      Judge(i);
      Remember(i);
    }
    return std::move(result_);
  }

 private:
  struct Input {
    ErrorLevel level;
    bool known = false;    // recorded
    bool failing = false;  // some of it is outside its bound
    bool unseen = false;   // operators that were not recorded lie between
  };

  void Calibrate() {
    std::array<std::vector<double>, 8> seen;
    for (const Sample& sample : samples_) {
      if (!sample.output || sample.backward) continue;
      double in = 0;
      if (const auto found = inputs_.find(sample.call); found != inputs_.end()) {
        for (const size_t i : found->second) in = std::max(in, samples_[i].error.power);
      }
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

  void Judge(size_t i) {
    const Sample& sample = samples_[i];
    Explanation& out = result_[i];
    const ErrorLevel& error = sample.error;
    if (!sample.output && sample.content != 0) {
      if (const auto same = by_content_.find(sample.content); same != by_content_.end()) {
        out = result_[same->second];
        out.follows = !out.within;
        counted_[i] = counted_[same->second];
        return;
      }
    }
    const Input in = InputOf(sample);
    out.in = in.level;
    out.in_known = in.known;
    out.bound = BoundOf(sample, in);
    // Of a tensor with outliers the largest error may be a rounding of the largest element.
    const bool peak = sample.within_local || error.peak <= out.bound.peak;
    const bool explained = peak && error.power <= out.bound.power && error.gain <= out.bound.gain;
    const bool may_exceed = options_.compute || !IsNone(in.level);
    out.within = options_.compute ? explained : sample.within_local || (may_exceed && explained);
    out.follows = !out.within && in.failing;
    counted_[i] = out.within ? error : Smaller(error, Larger(in.level, sample.local));
  }

  ErrorLevel BoundOf(const Sample& sample, const Input& in) const {
    const ErrorLevel& local = sample.local;
    const double amplification = in.unseen
                                     ? std::max(kUnseenAmplification, Amplification(sample.kind))
                                     : Amplification(sample.kind);
    ErrorLevel bound;
    bound.power = local.power + amplification * in.level.power;
    bound.peak = local.peak + kPeakAmplification * in.level.peak;
    bound.gain = local.gain + GainOf(sample, in, bound.power);
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

  Input InputOf(const Sample& sample) const {
    Input in;
    if (sample.root_input) return in;
    in.level = sample.weights;
    if (!sample.output) return AddRecent(in);
    const auto inputs = inputs_.find(sample.call);
    if (inputs != inputs_.end()) {
      for (const size_t i : inputs->second) Add(i, &in);
      in.known = true;
    }
    const bool encloses = AddEnclosed(sample, &in);
    if (sample.backward) {
      if (const auto own = forward_.find(sample.path); own != forward_.end())
        in.level = Larger(in.level, own->second);
    }
    return in.known || encloses ? in : AddRecent(in);
  }

  void Add(size_t i, Input* in) const {
    in->level = Larger(in->level, counted_[i]);
    in->failing = in->failing || !result_[i].within;
  }

  Input AddRecent(Input in) const {
    in.unseen = true;
    for (const size_t i : recent_) Add(i, &in);
    return in;
  }

  // What was seen inside of the sample's call.
  bool AddEnclosed(const Sample& sample, Input* in) const {
    const auto call = calls_.find(sample.call);
    if (call == calls_.end() || call->second == 0) return false;
    bool any = false;
    const auto first =
        std::upper_bound(samples_.begin(), samples_.end(), sample.call,
                         [](uint64_t begin, const Sample& other) { return begin < other.order; });
    for (auto other = first; other != samples_.end() && other->order < call->second; ++other) {
      if (other->call == sample.call) continue;
      Add(static_cast<size_t>(other - samples_.begin()), in);
      any = true;
    }
    return any;
  }

  void Remember(size_t i) {
    const Sample& sample = samples_[i];
    if (recent_.size() < kRecent)
      recent_.push_back(i);
    else
      recent_[next_++ % kRecent] = i;
    if (sample.content != 0) by_content_.try_emplace(sample.content, i);
    if (!sample.backward) {
      ErrorLevel& own = forward_[sample.path];
      own = Larger(own, counted_[i]);
    }
  }

  std::span<const Sample> samples_;
  const ExplainOptions& options_;
  std::vector<Explanation> result_;
  std::vector<ErrorLevel> counted_;  // the error that counts for what follows
  std::unordered_map<uint64_t, uint64_t> calls_;
  std::unordered_map<uint64_t, std::vector<size_t>> inputs_;  // by call
  std::unordered_map<uint64_t, size_t> by_content_;
  std::unordered_map<uint64_t, ErrorLevel> forward_;  // by path
  std::array<double, 8> amplification_{};             // by OperatorClass
  std::vector<size_t> recent_;
  size_t next_ = 0;
};

}  // namespace

std::vector<Explanation> Explain(std::span<const Sample> samples,
                                 std::span<const CallInterval> calls,
                                 const ExplainOptions& options) {
  return Explainer(samples, calls, options).Run();
}

}  // namespace tdump::compare
