// SameBytes: whether two payloads are equal, every byte of both read and checked against its
// digest. Nothing is measured.
#pragma once

#include "compare/metrics.h"
#include "core/status.h"

namespace tdump::compare {

// Precondition: both records have payloads. Memory: two windows of 256 KiB a thread. Errors: the
// payload's (kCorrupt).
Result<bool> SameBytes(const Operand& a, const Operand& b, unsigned threads = 1);

}  // namespace tdump::compare
