// How a process ended: what its closing record says (io::CloseSection::how), and what is told of
// one that left none (io::RankState::how).
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "io/pass_store.h"

namespace tdump::coordinator {

// A note of a selected rank of which no step is selected: that it wrote none is as asked.
inline constexpr std::string_view kNoStepAsked = "no step is selected (steps: none)";

inline constexpr std::string_view kExit = "exit";
inline constexpr std::string_view kLastStepOpen = ", last step open";

// Of a process that ended when its last pass may not have been over: an exception ends it in an
// orderly way, and with status 0 where the job catches it.
inline std::string OpenExit(int64_t status) {
  return fmt::format("exit with status {}{}", status, kLastStepOpen);
}

// Whether the last pass of the process may be cut, though its file is finished.
inline bool EndedInItsLastPass(const io::ProcessEntry& process) {
  return process.close && process.close->how.ends_with(kLastStepOpen);
}

// Without a closing record.
inline constexpr std::string_view kNeverStarted = "never started";
inline constexpr std::string_view kStillRunning = "still running";
// No exit handler ran. A signal that cannot be caught and _exit (os._exit) leave the same traces.
inline constexpr std::string_view kGone = "killed or left by _exit";
inline constexpr std::string_view kGoneOrRunning = "killed or still running";  // of another host
// It said in its slot file that it had closed: no room on the disk, or a limit of file sizes.
inline constexpr std::string_view kEndedUnwritten = "ended with an unwritable manifest";
inline constexpr std::string_view kWithoutManifest = "without its manifest";
inline constexpr std::string_view kLeftNothing =
    "left no word in its manifest: killed at its start, or its disk was full";

// It made its directory, and nothing else of it came to the disk.
inline bool LeftNothing(const io::ProcessEntry& process) {
  return process.identity.job_key.empty() && process.passes.empty() && !process.directory.empty();
}

}  // namespace tdump::coordinator
