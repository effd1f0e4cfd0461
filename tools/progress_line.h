// ProgressLine: how far a long piece of work is: on a terminal one line that is written over, into
// a file or a pipe a line now and then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "core/env.h"

namespace tdump::tools {

// Of the piece that is in hand: "312 of 1500 pairs compared".
struct ProgressPart {
  std::string_view what;  // "pairs compared"; empty: nothing is known of it
  size_t done = 0, all = 0;
  bool last = true;  // the piece is done when this is
};

// Not thread-safe.
class ProgressLine {
 public:
  using Write = std::function<void(std::string_view)>;

  // `what`: "tdump-diff: step and rank". `write`: to stderr, if none is given. `env`: its clock.
  ProgressLine(std::string what, bool terminal, Write write = {}, Env* env = Env::Posix());

  // On a terminal at most ten times a second; the line is gone when all is done. Else every ten
  // seconds, the first time after ten.
  void Show(size_t done, size_t all, const ProgressPart& part = {});
  // "tdump-diff: step and rank 3 of 40, 5 min left". Without a guess in the first two seconds, and
  // of the first piece before its last part.
  std::string Text(size_t done, size_t all, double seconds) const {
    return Text(done, all, seconds, {}, 0);
  }
  // `part_seconds`: since the part began.
  std::string Text(size_t done, size_t all, double seconds, const ProgressPart& part,
                   double part_seconds) const;

 private:
  double SecondsSince(int64_t ns) const;

  const std::string what_;
  const bool terminal_;
  const Write write_;
  Env* const env_;
  int64_t started_ns_, shown_ns_;
  int64_t part_began_ns_ = 0;
  std::string_view part_;
  size_t part_of_ = 0;
  bool is_shown_ = false;
};

}  // namespace tdump::tools
