// ProgressLine: how far a long piece of work is, as one line of a terminal that is written over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tdump::tools {

// Not thread-safe.
class ProgressLine {
 public:
  // `what`: "tdump-diff: step and rank".
  explicit ProgressLine(std::string what);

  // On stderr, at most ten times a second; the line is gone when all is done.
  void Show(size_t done, size_t all);
  // "tdump-diff: step and rank 3 of 40, 5 min left". Without a guess in the first two seconds.
  std::string Text(size_t done, size_t all, double seconds) const;

 private:
  std::string what_;
  int64_t started_ns_, shown_ns_ = 0;
};

}  // namespace tdump::tools
