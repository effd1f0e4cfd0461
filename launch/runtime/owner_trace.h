// A second mark of a process that tdump records, for children whose environment does not have the
// first one (TDUMP_OWNER, coordinator/ownership.h): programs that start others with a copy of the
// environment made before activation.
//
// The owner keeps one page of an unlinked memory file mapped; its name shows in /proc/PID/maps. It
// costs no file descriptor and ends with the process or its exec.
#pragma once

namespace tdump::launch {

void LeaveOwnerTrace() noexcept;
// The nearest ancestor that carries the trace and had the same torchrun RANK
// as this process; its pid, 0 for none.
int TracedAncestor();

}  // namespace tdump::launch
