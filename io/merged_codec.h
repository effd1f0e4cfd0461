// RunIndex <-> the sections of its frame.
#pragma once

#include <span>
#include <string>

#include "core/status.h"
#include "io/run_index.h"

namespace tdump::io {

std::string EncodeRunIndex(const RunIndex& index);
// `processes`: how many sources there are; larger indices are
// kCorrupt. `index->run` is the caller's.
Status DecodeRunIndex(std::span<const std::byte> body, bool swapped, uint64_t processes,
                      RunIndex* index);

}  // namespace tdump::io
