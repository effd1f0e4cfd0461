#include "tools/progress_line.h"

#include <fmt/format.h>

#include <cstdio>
#include <optional>
#include <utility>

namespace tdump::tools {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int64_t kBetweenNs = kSecondNs / 10, kBetweenLinesNs = 10 * kSecondNs;

std::string TimeText(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", seconds);
  if (seconds < 90 * 60) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

// Pieces that are left take as long as those before, or as the first one.
std::optional<double> SecondsLeft(size_t done, size_t all, double seconds, const ProgressPart& part,
                                  double part_seconds) {
  const auto number = [](size_t n) { return static_cast<double>(n); };
  if (part.done == 0 || !part.last) {
    if (done == 0) return std::nullopt;
    return seconds / number(done) * number(all - done);
  }
  const double here = part_seconds / number(part.done) * number(part.all - part.done);
  const double each = done > 0 ? (seconds - part_seconds) / number(done) : seconds + here;
  return here + each * number(all - done - 1);
}

}  // namespace

ProgressLine::ProgressLine(std::string what, bool terminal, Write write, Env* env)
    : what_(std::move(what)),
      terminal_(terminal),
      write_(write
                 ? std::move(write)
                 : [](std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }),
      env_(env),
      started_ns_(env->MonotonicNs()),
      shown_ns_(started_ns_) {}

double ProgressLine::SecondsSince(int64_t ns) const {
  return static_cast<double>(env_->MonotonicNs() - ns) / kSecondNs;
}

std::string ProgressLine::Text(size_t done, size_t all, double seconds, const ProgressPart& part,
                               double part_seconds) const {
  std::string text = fmt::format("{} {} of {}", what_, done, all);
  if (!part.what.empty()) text += fmt::format(", {} of {} {}", part.done, part.all, part.what);
  if (seconds < 2) return text;
  const auto left = SecondsLeft(done, all, seconds, part, part_seconds);
  return left ? text + ", " + TimeText(*left) + " left" : text;
}

void ProgressLine::Show(size_t done, size_t all, const ProgressPart& part) {
  if (done == all) {
    if (std::exchange(is_shown_, false) && terminal_) write_("\r\033[K");
    return;
  }
  const int64_t now = env_->MonotonicNs();
  if (part.what != part_ || done != part_of_) {
    part_ = part.what;
    part_of_ = done;
    part_began_ns_ = now;
  }
  if (now - shown_ns_ < (terminal_ ? kBetweenNs : kBetweenLinesNs)) return;
  shown_ns_ = now;
  is_shown_ = true;
  const std::string text =
      Text(done, all, SecondsSince(started_ns_), part, SecondsSince(part_began_ns_));
  write_(terminal_ ? "\r" + text + "\033[K" : text + "\n");
}

}  // namespace tdump::tools
