// One more thread, if the system gives it.
#pragma once

#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace tdump {

// False: there is none to be had (ulimit -u, -v). Those that run have to do the work.
template <class... Work>
bool AddThread(std::vector<std::thread>* threads, Work&&... work) {
  try {
    threads->emplace_back(std::forward<Work>(work)...);
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

}  // namespace tdump
