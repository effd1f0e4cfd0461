// Waiting for a word of memory to change, with a limit of time. Within one process.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>
#include <ctime>

namespace tdump::io {

// Returns when the word is not `value`, was woken, or `timeout_ns` have passed (< 0: no limit);
// also without a reason.
inline void FutexWait(std::atomic<uint32_t>* word, uint32_t value, int64_t timeout_ns) {
  timespec time{timeout_ns / 1'000'000'000, timeout_ns % 1'000'000'000};
  ::syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, timeout_ns < 0 ? nullptr : &time, nullptr,
            0);
}

inline void FutexWakeAll(std::atomic<uint32_t>* word) {
  ::syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace tdump::io
