// The job's side of taking turns, as jobs/turns.py: says "ready"; then for each line with a number
// runs that many steps and answers "WALL CPU", nanoseconds by the clock and of this thread's CPU
// time. Ends with its input. Speaks on what was standard output; what anything else prints there
// goes to standard error.
#pragma once

#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>

namespace tdump::bench {

inline int64_t Nanoseconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

struct Elapsed {
  int64_t wall = Nanoseconds(CLOCK_MONOTONIC);
  int64_t cpu = Nanoseconds(CLOCK_THREAD_CPUTIME_ID);

  Elapsed Until(const Elapsed& end) const { return {end.wall - wall, end.cpu - cpu}; }
};

// `before` runs once ahead of each turn, unmeasured. Returns the exit status of the program.
template <class Step, class Before>
int TakeTurns(Step step, Before before) {
  FILE* answers = fdopen(dup(STDOUT_FILENO), "w");
  if (answers == nullptr || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) return 1;
  std::fputs("ready\n", answers);
  std::fflush(answers);
  int64_t steps = 0;
  while (std::scanf("%ld", &steps) == 1) {
    before();
    const Elapsed began;
    for (int64_t i = 0; i < steps; ++i) step();
    const Elapsed took = began.Until({});
    std::fprintf(answers, "%ld %ld\n", took.wall, took.cpu);
    std::fflush(answers);
  }
  std::fclose(answers);
  return 0;
}

}  // namespace tdump::bench
