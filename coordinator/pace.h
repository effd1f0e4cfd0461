// Pace: how often something with a cost may be done, so that it takes
// at most a fixed share of the time.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tdump::coordinator {

class Pace {
 public:
  // At least `least_ns` apart, and `rest` times as long as it took. 0: always due.
  Pace(int64_t least_ns, int64_t rest) : least_ns_(least_ns), rest_(least_ns == 0 ? 0 : rest) {}
  bool Due(int64_t now_ns) const { return now_ns >= next_ns_; }
  void Took(int64_t began_ns, int64_t ended_ns) {
    next_ns_ = ended_ns + std::max(least_ns_, (ended_ns - began_ns) * rest_);
  }

 private:
  int64_t least_ns_;
  int64_t rest_;
  int64_t next_ns_ = INT64_MIN;
};

}  // namespace tdump::coordinator
