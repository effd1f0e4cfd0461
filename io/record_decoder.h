// From the sections of a kRecord or kCall frame to the value readers return: names resolved, every
// field checked against the others and against the file. Errors are kCorrupt and name the field;
// the caller adds file and offset.
#pragma once

#include <cstddef>
#include <span>

#include "core/status.h"
#include "io/name_table.h"
#include "io/records.h"

namespace tdump::io {

// `swapped`: the file's byte order is not this machine's. `file_bytes` bounds payload places.
struct DecodeContext {
  const NameTable& names;
  bool swapped = false;
  uint64_t file_bytes = 0;
  uint64_t pass = 0;  // ordinal, for Call::pass
  uint64_t base = 0;  // of the pass in a packed file
};

Result<Record> DecodeRecord(const DecodeContext& context, std::span<const std::byte> body);
// The same without tile_digests.
Result<Record> DecodeRecordMeta(const DecodeContext& context, std::span<const std::byte> body);
Result<CallRecord> DecodeCall(const DecodeContext& context, std::span<const std::byte> body);

}  // namespace tdump::io
