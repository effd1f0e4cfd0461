// What readers return: the format's sections with their names resolved.
// Plain values that own their memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/identity.h"
#include "core/key.h"
#include "core/statistics.h"
#include "core/types.h"

namespace tdump::io {

using Hash128 = std::array<uint8_t, 16>;

struct PassInfo {
  uint64_t ordinal = 0;
  uint64_t local_step = 0;
  uint64_t mode_step = 0;
  int64_t job_step = -1;
  StepMode mode = StepMode::kForward;
  uint32_t generation = 0;
  int32_t rank = 0;
  int32_t world = 1;
  int64_t pid = 0;
  uint64_t started_ns = 0;
  std::string host;
};

struct CallRecord {
  Call call;
  std::string root, path, op;
  OperatorKind kind = OperatorKind::kModule;
  std::string text;  // scalar and string arguments
  std::vector<ArgumentMeta> arguments;
};

struct PayloadRef {
  uint64_t offset = 0;
  uint64_t stored_bytes = 0;
  uint64_t logical_bytes = 0;
  uint8_t codec = 0;
  uint64_t same_as = 0;
  // Offset of the bytes in the packed file, when an earlier pass holds them; else 0.
  uint64_t earlier = 0;
};

// What is kept of a record's elements where only a slice was asked for (io/value_sections.h).
struct Slice {
  std::vector<int64_t> begins, sizes, steps;  // one a dimension
  PayloadRef payload;
  Hash128 hash{};
  std::vector<uint8_t> tile_digests;
};

struct Record {
  uint64_t id = 0;
  Key key;
  OperatorKind kind = OperatorKind::kModule;
  std::string cls;
  std::vector<std::string> aliases;
  bool leaf = false;
  uint64_t call_begin = 0;
  uint64_t seen = 0;
  DType dtype;
  Layout layout = Layout::kStrided;
  std::string device;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t storage_offset = 0;
  uint64_t storage_id = 0;
  uint64_t storage_bytes = 0;
  bool late = false, conj = false, neg = false, requires_grad = false, compiled = false;
  Parts parts_asked = 0;
  Parts parts_kept = 0;
  uint64_t filter_sets = 0;
  SkipReason reason = SkipReason::kNone;
  std::string reason_detail;
  std::optional<PayloadRef> payload;
  std::optional<Hash128> hash;
  std::vector<uint8_t> tile_digests;
  std::optional<Statistics> statistics;
  std::optional<std::vector<std::byte>> sample;  // units at SampleIndex (core/slice.h)
  std::optional<Slice> slice;                    // read through SliceAsRecord (io/value_parts.h)
  std::string dims, placements, mesh, dim_names, subclass;
  std::vector<int64_t> global_shape;

  uint64_t numel() const {  // units of the dtype
    uint64_t n = 1;
    for (int64_t size : sizes) n *= static_cast<uint64_t>(size);
    return n;
  }
};

// A frame or file that is not what the format says.
struct Damage {
  std::string file;
  uint64_t offset = 0;
  std::string what;
};

}  // namespace tdump::io
