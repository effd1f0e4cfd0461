// CaptureItem: one record or call on its way from a collector to the file. Pooled: texts and
// vectors keep their capacity, so that after a warm-up nothing is allocated per record.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "core/argument_list.h"
#include "core/sink.h"
#include "io/arena.h"
#include "io/sections.h"

namespace tdump::io {

struct CapturePass;

struct CaptureItem {
  enum class Kind : uint8_t { kRecord, kCall };

  Kind kind = Kind::kRecord;
  CapturePass* pass = nullptr;

  // A record. `record` has everything but name ids and what the writer finds out.
  RecordSection record;
  std::string arg;
  std::string device;
  DType dtype;
  ShardSection shard;
  bool has_shard = false;
  Arena::Room room;
  uint64_t bytes = 0;    // of the payload within `room`
  uint64_t earlier = 0;  // refer(): record that has the payload
  Keep keep;             // what was asked for; the slice lives as long as the plan
  Content content = Content::kWhole;
  // Made elsewhere (on the device, on the calling thread): then they are not made again.
  const Statistics* statistics = nullptr;
  std::span<const uint8_t> digests;
  std::span<const std::byte> payload() const { return {room.data, bytes}; }

  // A call.
  Call call;
  std::vector<ArgumentMeta> arguments;
  std::string text;

  // Under the sink's lock: where a reserved, not yet committed item hangs in its pass.
  CaptureItem* previous = nullptr;
  CaptureItem* next = nullptr;
  bool orphaned = false;            // its pass was finished without it
  std::atomic<bool> filled{false};  // metadata complete; the writer may look at an uncommitted item

  // Copies what the views of `call` and `observation` show. Cuts texts to what the format allows.
  void SetRecord(const Call& from, const Observation& observation, const Keep& keep, uint64_t seen);
  void SetReason(SkipReason reason, std::string_view detail);
};

}  // namespace tdump::io
