// What a closing record says of how its process ended (io::CloseSection::how).
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "io/pass_store.h"

namespace tdump::coordinator {

inline constexpr std::string_view kExit = "exit";
inline constexpr std::string_view kLastStepOpen = ", last step open";

// Of a process that ended when its last pass may not have been over: an exception in backward ends
// it in an orderly way, and with status 0 where the job catches it.
inline std::string OpenExit(int64_t status) {
  return fmt::format("exit with status {}{}", status, kLastStepOpen);
}

// Whether the last pass of the process may be cut, though its file is finished.
inline bool EndedInItsLastPass(const io::ProcessEntry& process) {
  return process.close && process.close->how.ends_with(kLastStepOpen);
}

}  // namespace tdump::coordinator
