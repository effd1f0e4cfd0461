// CaptureItem: a record as the writer works on it: the fields of the file's sections, read from an
// entry (io/capture_entry.h) that stays where it is. One is reused for all records of a process, so
// that its vectors keep their capacity.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/sink.h"
#include "io/capture_entry.h"
#include "io/sections.h"

namespace tdump::io {

struct CaptureItem {
  RecordSection record;  // but for name ids and what the writer finds out
  std::string_view arg;
  std::string_view device;
  DType dtype;
  ShardSection shard;
  bool has_shard = false;
  uint64_t earlier = 0;  // refer(): record that has the payload
  Keep keep;             // what was asked for
  Content content = Content::kWhole;
  // Made elsewhere (on the device, on the calling thread): then they are not made again.
  const Statistics* statistics = nullptr;
  std::span<const uint8_t> digests;
  const Hash128* hash = nullptr;
  std::span<const std::byte> payload() const { return values; }
  std::span<const std::byte> values;
  Hash128 summary{};  // `hash`, where a device made it in place of the payload

  // The views live as long as the entry.
  void Read(const CaptureEntry& entry);
  // Of an entry that is not committed: what its producer may still be writing is left alone.
  void ReadUncommitted(const CaptureEntry& entry, SkipReason reason);
  void SetReason(SkipReason reason, std::string_view detail);

 private:
  void ReadSummary();
  void ReadFixed(const CaptureEntry& entry);
};

}  // namespace tdump::io
