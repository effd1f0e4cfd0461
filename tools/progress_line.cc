#include "tools/progress_line.h"

#include <fmt/format.h>

#include <cstdio>

#include "core/env.h"

namespace tdump::tools {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

std::string TimeText(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", seconds);
  if (seconds < 90 * 60) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

}  // namespace

ProgressLine::ProgressLine(std::string what)
    : what_(std::move(what)), started_ns_(Env::Posix()->MonotonicNs()) {}

std::string ProgressLine::Text(size_t done, size_t all, double seconds) const {
  std::string text = fmt::format("{} {} of {}", what_, done, all);
  if (seconds < 2 || done == 0) return text;
  const double left = seconds / static_cast<double>(done) * static_cast<double>(all - done);
  return text + ", " + TimeText(left) + " left";
}

void ProgressLine::Show(size_t done, size_t all) {
  const int64_t now = Env::Posix()->MonotonicNs();
  if (done == all) {
    std::fputs("\r\033[K", stderr);
    return;
  }
  if (shown_ns_ != 0 && now - shown_ns_ < kSecondNs / 10) return;
  shown_ns_ = now;
  const double seconds = static_cast<double>(now - started_ns_) / kSecondNs;
  std::fprintf(stderr, "\r%s\033[K", Text(done, all, seconds).c_str());
}

}  // namespace tdump::tools
