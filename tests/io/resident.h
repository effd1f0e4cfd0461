// How much memory this process has in RAM.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <fstream>

namespace tdump::io::test {

// A sanitizer's shadow memory and its quarantine of freed memory are resident memory too.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kMemoryIsOurs = false;
#else
inline constexpr bool kMemoryIsOurs = true;
#endif

inline uint64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace tdump::io::test
