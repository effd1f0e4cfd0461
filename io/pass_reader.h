// PassReader: one pass file, complete or torn. Streams: never holds all records.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/env.h"
#include "core/status.h"
#include "io/name_table.h"
#include "io/records.h"

namespace tdump::io {

// Thread-safe after Open. Nothing a file contains is trusted: every size is
// checked against the bytes left first.
class PassReader {
 public:
  // Opens `path`. A file without a valid footer (`.part`, torn, killed) is scanned frame by frame
  // and what stands is kept; complete() is then false and `damage()` says where reading stopped.
  // Error: not a pass file at all.
  // `path` may be a packed file that holds one pass, or `FILE#ORDINAL` for one of several; without
  // the ordinal that is kInvalidArgument, which names them.
  // `names`: shared with other readers that are open; may be null. It need not outlive the reader.
  static Result<std::unique_ptr<PassReader>> Open(Env* env, const std::string& path,
                                                  NameTables* names = nullptr);
  // The `bytes` of a packed file from `offset` on. Offsets in damage() and in errors count from the
  // start of the file.
  static Result<std::unique_ptr<PassReader>> Open(Env* env, const std::string& path,
                                                  uint64_t offset, uint64_t bytes,
                                                  NameTables* names = nullptr);
  virtual ~PassReader() = default;

  virtual const std::string& path() const = 0;
  virtual const PassInfo& info() const = 0;
  virtual bool complete() const = 0;
  virtual uint64_t record_count() const = 0;
  virtual const std::vector<Damage>& damage() const = 0;

  // In file order. The visitor returns false to stop.
  virtual Status ForEachRecord(const std::function<bool(const Record&)>& visit) const = 0;
  // The same without tile_digests, which of a large tensor are nearly all of its record and then
  // are not read: damage in them shows when the values are.
  virtual Status ForEachRecordMeta(const std::function<bool(const Record&)>& visit) const {
    return ForEachRecord(visit);
  }
  virtual Status ForEachCall(const std::function<bool(const CallRecord&)>& visit) const = 0;
  virtual Result<Record> Find(const Key& key) const = 0;
  virtual Result<Record> Get(uint64_t record) const = 0;
  // The same without tile_digests.
  virtual Result<Record> GetMeta(uint64_t record) const { return Get(record); }

  // Canonical payload bytes [offset, offset + out.size()) of a record whose payload is kept (shared
  // payloads are followed). Verifies the digests of the tiles touched unless `verify` is false; a
  // mismatch is kCorrupt.
  virtual Status ReadPayload(const Record& record, uint64_t offset, std::span<std::byte> out,
                             bool verify = true) const = 0;
  // The record that holds the bytes of `record`, with its tile digests: itself, or the one it
  // shares them with, which need not be looked up again for each piece that is read of it.
  virtual Result<Record> PayloadOwner(const Record& record) const { return record; }
  // The payload where it lies in the mapped file, or an error when it is compressed. Not verified.
  virtual Result<std::span<const std::byte>> MapPayload(const Record& record) const = 0;
  // Reads everything: frames, sections, payload tiles, index, footer.
  virtual Status Verify(std::vector<Damage>* damage) const = 0;
};

// Expands stride-0 dimensions: canonical payload -> every logical element in row-major order.
std::vector<std::byte> ExpandPayload(const Record& record, std::span<const std::byte> canonical);

}  // namespace tdump::io
