// The cereal archives of the format, one struct a section. Rules (docs/format.md, "Sections"):
//   - fixed-width fields only; strings and vectors are a u64 count, then the elements;
//   - a section never changes: a new field is a new section with a new id;
//   - unknown sections are skipped and, by tdump-merge, kept.
// Names are interned per file: a field called *_name is the id of a
// kName frame before it. Name 0 is "".
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace tdump::io {

struct NameSection {
  static constexpr uint32_t kId = 0x0201;
  uint32_t name = 0;
  std::string text;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(name, text);
  }
};

struct PassSection {
  static constexpr uint32_t kId = 0x0101;
  uint64_t ordinal = 0;
  uint64_t local_step = 0;
  uint64_t mode_step = 0;  // n-th step of its mode
  int64_t job_step = -1;   // the job's own iteration, -1 when it does not tell
  uint8_t mode = 0;        // StepMode
  uint32_t generation = 0;
  int32_t rank = 0;
  int32_t world = 1;
  int64_t pid = 0;
  uint64_t started_ns = 0;
  std::string host;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(ordinal, local_step, mode_step, job_step, mode, generation, rank, world, pid,
            started_ns, host);
  }
};

struct OperatorSection {
  static constexpr uint32_t kId = 0x0301;
  uint32_t op_id = 0;
  uint8_t kind = 0;
  uint8_t leaf = 0;
  uint32_t root_name = 0;
  uint32_t path_name = 0;
  uint32_t op_name = 0;
  uint32_t class_name = 0;
  std::vector<uint32_t> alias_names;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(op_id, kind, leaf, root_name, path_name, op_name, class_name, alias_names);
  }
};

struct AliasSection {
  static constexpr uint32_t kId = 0x0701;
  uint32_t op_id = 0;
  uint32_t path_name = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(op_id, path_name);
  }
};

struct ArgumentEntry {
  uint8_t role = 0;
  uint32_t arg_name = 0;
  uint32_t dtype_name = 0;
  std::vector<int64_t> sizes;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(role, arg_name, dtype_name, sizes);
  }
};

struct CallSection {
  static constexpr uint32_t kId = 0x0401;
  uint32_t op_id = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t parent = 0;
  uint64_t index = 0;
  uint32_t micro = 0;
  uint32_t chunk = 0;
  uint32_t lane = 0;
  uint64_t thread = 0;
  int32_t stream = -1;
  uint8_t phase = 0;
  uint8_t flags = 0;  // 1 recompute, 2 compiled, 4 threw
  std::string text;
  std::vector<ArgumentEntry> arguments;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(op_id, begin, end, parent, index, micro, chunk, lane, thread, stream, phase, flags,
            text, arguments);
  }
};

// One record. The key's fields are repeated from the call, so that a record
// stands without its call (a torn file).
struct RecordSection {
  static constexpr uint32_t kId = 0x0501;
  uint64_t record = 0;  // 1, 2, ... within the pass, in order of reserve()
  uint32_t op_id = 0;
  uint64_t call_begin = 0;
  uint64_t call_index = 0;
  uint32_t micro = 0;
  uint32_t chunk = 0;
  uint32_t lane = 0;
  uint8_t phase = 0;
  uint8_t role = 0;
  uint8_t flags = 0;  // 1 recompute, 2 compiled, 4 late, 8 conj, 16 neg, 32 requires_grad
  uint8_t layout = 0;
  uint32_t arg_name = 0;
  uint32_t dtype_name = 0;
  uint16_t bits_per_element = 0;
  uint16_t elements_per_unit = 1;
  uint32_t device_name = 0;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t storage_offset = 0;
  uint64_t storage_id = 0;
  uint64_t storage_bytes = 0;
  uint64_t seen = 0;  // sequence number at which it was seen: orders records within a call
  uint32_t parts_asked = 0;
  uint32_t parts_kept = 0;
  uint64_t filter_sets = 0;
  uint8_t reason = 0;  // SkipReason
  std::string reason_detail;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(record, op_id, call_begin, call_index, micro, chunk, lane, phase, role, flags, layout,
            arg_name, dtype_name, bits_per_element, elements_per_unit, device_name, sizes, strides,
            storage_offset, storage_id, storage_bytes, seen, parts_asked, parts_kept, filter_sets,
            reason, reason_detail);
  }
};

// Companion of a record with kPartPayload: where the bytes are.
struct PayloadSection {
  static constexpr uint32_t kId = 0x0502;
  uint64_t offset = 0;  // of the first payload byte in this file
  uint64_t stored_bytes = 0;
  uint64_t logical_bytes = 0;
  uint8_t codec = 0;     // io::Codec: 0 none, 2 blocks
  uint64_t same_as = 0;  // record whose payload this one shares, 0 for its own
  template <class Archive>
  void serialize(Archive& archive) {
    archive(offset, stored_bytes, logical_bytes, codec, same_as);
  }
};

// Companion of a record with kPartHash: XXH3-128 over the tiles' XXH3-128 digests (canonical
// big-endian form of xxHash).
struct HashSection {
  static constexpr uint32_t kId = 0x0503;
  std::array<uint8_t, 16> hash{};
  template <class Archive>
  void serialize(Archive& archive) {
    archive(hash);
  }
};

// Companion of a record whose payload is kept: the digest of each 16 KiB tile, which is the
// payload's checksum.
struct TilesSection {
  static constexpr uint32_t kId = 0x0504;
  std::vector<uint8_t> digests;  // 16 bytes a tile
  template <class Archive>
  void serialize(Archive& archive) {
    archive(digests);
  }
};

// Companion, present when any field is not empty. Reserved from the first version on.
struct ShardSection {
  static constexpr uint32_t kId = 0x0505;
  std::string dims;
  std::string placements;
  std::string mesh;
  std::vector<int64_t> global_shape;
  std::string dim_names;
  std::string subclass;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(dims, placements, mesh, global_shape, dim_names, subclass);
  }
};

// Companion of a record whose payload stands in an earlier pass of the same packed file: content,
// length and dtype were equal. The record's PayloadSection has offset and same_as 0.
struct EarlierPayloadSection {
  static constexpr uint32_t kId = 0x0520;
  uint64_t ordinal = 0;  // of the pass that holds it
  uint64_t record = 0;   // in that pass
  uint64_t offset = 0;   // of the first payload byte in the packed file
  template <class Archive>
  void serialize(Archive& archive) {
    archive(ordinal, record, offset);
  }
};

struct IndexEntry {
  uint64_t record = 0;
  uint64_t frame_offset = 0;  // of the record's frame header
  template <class Archive>
  void serialize(Archive& archive) {
    archive(record, frame_offset);
  }
};

// Everything a reader needs to find frames without a scan. Rebuilt from the frames byte for byte:
// entries in file order.
struct IndexSection {
  static constexpr uint32_t kId = 0x0801;
  std::vector<IndexEntry> records;
  std::vector<uint64_t> calls;      // frame offsets
  std::vector<uint64_t> operators;  // frame offsets
  std::vector<uint64_t> names;
  std::vector<uint64_t> aliases;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(records, calls, operators, names, aliases);
  }
};

// Last frame before the index of a pass that ended in order.
struct PassEndSection {
  static constexpr uint32_t kId = 0x0901;
  uint64_t ended_ns = 0;
  uint64_t records = 0;
  uint64_t calls = 0;
  uint64_t payload_bytes = 0;
  uint64_t not_kept = 0;
  uint64_t blocked_ns = 0;  // time the job's threads waited for room
  template <class Archive>
  void serialize(Archive& archive) {
    archive(ended_ns, records, calls, payload_bytes, not_kept, blocked_ns);
  }
};

// ---- manifests ----

struct IdentitySection {
  static constexpr uint32_t kId = 0x2001;
  int32_t rank = 0;
  int32_t world = 1;
  int32_t local_rank = 0;
  std::string source;
  std::string host;
  int64_t pid = 0;
  uint64_t start_time = 0;
  std::string job_key;
  std::string job_label;
  std::string program;
  uint32_t generation = 0;
  uint32_t process = 0;  // n-th process with this rank number, by start order
  uint8_t selected = 0;  // the rank records
  uint64_t started_ns = 0;
  std::string boundary;  // the step rule in force, e.g. "optimizer (AdamW)"
  std::string versions;  // "tdump 0.1.0"
  std::string config_hash;
  std::string coordinates;  // reserved: "dp=3 tp=1 pp=2"
  std::string coordinates_source;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(rank, world, local_rank, source, host, pid, start_time, job_key, job_label, program,
            generation, process, selected, started_ns, boundary, versions, config_hash, coordinates,
            coordinates_source);
  }
};

struct ReasonCount {
  uint8_t reason = 0;
  uint64_t count = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(reason, count);
  }
};

struct PassDoneSection {
  static constexpr uint32_t kId = 0x2101;
  uint64_t ordinal = 0;
  uint64_t local_step = 0;
  uint64_t mode_step = 0;
  int64_t job_step = -1;
  uint8_t mode = 0;
  std::string file;  // relative to the manifest
  uint64_t file_bytes = 0;
  uint64_t records = 0;
  uint64_t calls = 0;
  uint64_t payload_bytes = 0;
  uint64_t blocked_ns = 0;
  std::vector<ReasonCount> not_kept;
  std::string error;  // not empty: the file could not be finished; what happened
  template <class Archive>
  void serialize(Archive& archive) {
    archive(ordinal, local_step, mode_step, job_step, mode, file, file_bytes, records, calls,
            payload_bytes, blocked_ns, not_kept, error);
  }
};

// Beside a PassDoneSection whose `file` is a packed one: where the pass lies in it.
struct PassPlaceSection {
  static constexpr uint32_t kId = 0x2102;
  uint64_t ordinal = 0;
  uint64_t offset = 0;  // of the pass's FileHeader
  template <class Archive>
  void serialize(Archive& archive) {
    archive(ordinal, offset);
  }
};

// Passes that were overwritten to keep to a limit. Written before their file is removed.
struct RemovedSection {
  static constexpr uint32_t kId = 0x2103;
  uint64_t first = 0;  // ordinals
  uint64_t last = 0;
  uint64_t bytes = 0;
  std::string file;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(first, last, bytes, file);
  }
};

// The agreed number of a step. Later entries for the same local step win.
struct StepMapSection {
  static constexpr uint32_t kId = 0x2201;
  uint64_t local_step = 0;
  uint64_t global_step = 0;
  uint8_t flags = 0;  // 1 agreed, 2 extra (this rank ran one step more), 4 recorded
  uint32_t lag = 0;   // steps between the end of this step and the answer
  template <class Archive>
  void serialize(Archive& archive) {
    archive(local_step, global_step, flags, lag);
  }
};

struct ExpectSection {
  static constexpr uint32_t kId = 0x2301;
  uint8_t kind = 0;
  std::string root;
  std::string path;
  std::string op;
  std::string cls;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(kind, root, path, op, cls);
  }
  bool operator==(const ExpectSection&) const = default;
};

struct RuleSection {
  static constexpr uint32_t kId = 0x2401;
  uint32_t filter_set = 0;
  uint32_t rule = 0;
  std::string text;      // as the user wrote it
  std::string selector;  // the name pattern that matched nothing, when just one of several did not
  uint64_t matched = 0;  // operators
  template <class Archive>
  void serialize(Archive& archive) {
    archive(filter_set, rule, text, selector, matched);
  }
};

struct NoteSection {
  static constexpr uint32_t kId = 0x2501;
  uint8_t level = 0;  // 0 info, 1 warning, 2 error, 3 "not captured"
  uint64_t time_ns = 0;
  std::string text;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(level, time_ns, text);
  }
};

struct AgreementSection {
  static constexpr uint32_t kId = 0x2701;
  std::string transport;      // "file", "mpi", "none"
  uint32_t max_lag = 0;       // steps
  std::vector<int32_t> lost;  // ranks that fell silent
  template <class Archive>
  void serialize(Archive& archive) {
    archive(transport, max_lag, lost);
  }
};

struct CloseSection {
  static constexpr uint32_t kId = 0x2601;
  uint64_t time_ns = 0;
  uint64_t steps_seen = 0;
  uint64_t passes = 0;
  // "exit", "MPI_Finalize", or "exit with status N, last step open": the last pass may be cut.
  std::string how;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(time_ns, steps_seen, passes, how);
  }
};

// Extra sections of an operator: calls and records per operator, summed over the process's passes;
// written at close and after each pass for what changed.
struct OperatorCountSection {
  static constexpr uint32_t kId = 0x2302;
  std::string root;
  std::string path;
  std::string op;
  uint64_t calls = 0;
  uint64_t records = 0;
  uint64_t not_kept = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(root, path, op, calls, records, not_kept);
  }
  bool operator==(const OperatorCountSection&) const = default;
};

}  // namespace tdump::io
