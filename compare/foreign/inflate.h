// Inflate: a deflated part of a file (RFC 1951) as a ByteSource.
#pragma once

#include "compare/foreign/byte_source.h"

namespace tdump::compare::foreign {

// `size`: what `packed` unpacks to; anything else is kCorrupt, found when the end is reached. Reads
// in order unpack as they go, in a fixed memory of about 100 KiB. A few jumps back start again from
// the front; more make it unpack everything into a temporary file without a name (TMPDIR, else
// /tmp). Not thread-safe: one for each thread.
Bytes Inflate(Bytes packed, uint64_t size);

}  // namespace tdump::compare::foreign
