// Team: processes that share one comparison. Process 0 reports; the others send it what they found.
#pragma once

#include <string>
#include <string_view>

#include "core/status.h"

namespace tdump::compare {

// Calls from one thread at a time. An error is final: the comparison ends.
class Team {
 public:
  virtual ~Team() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // To process 0; waits until it is taken. Received in the order in which they were sent.
  virtual Status Send(std::string_view bytes) = 0;
  virtual Result<std::string> Receive(int from) = 0;
  // The largest of what all processes give; every one must call it.
  virtual Result<int> Largest(int value) = 0;
};

}  // namespace tdump::compare
