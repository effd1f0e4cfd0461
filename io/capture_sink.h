// CaptureSink: the Sink that writes pass files. One arena and one writer thread per process.
//
// Protocol:
//   1. The coordinator opens a pass; collectors reserve and commit against it from any thread.
//   2. reserve() takes room from the arena and notes the metadata. At the cap it waits (block),
//      keeps the metadata only (drop), or asks for the payload in pieces to keep its statistics and
//      hash (stats); a pass that waited for more than its share goes on as with stats.
//   3. commit() says that the bytes are there. The writer thread, which has the entry since then or
//      longer, hashes, writes a payload frame and the record frame, and gives the room back.
//      stream() hands over a payload piece by piece.
//   4. close_pass() is asynchronous: the writer finishes the pass once its outstanding slots are
//      in, writes index and footer, renames `passNNNNN.tdp.part` to its final name and appends a
//      pass-done entry to the manifest.
//   5. The writer flushes to the operating system at least every 200 ms: a record is in the file at
//      most 500 ms after its commit.
// Failure: an error of the disk ends the writing of that pass, is kept in the manifest and noted
// once; the job goes on.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/env.h"
#include "core/operator_table.h"
#include "core/sink.h"
#include "io/manifest_writer.h"
#include "io/pass_files.h"
#include "io/records.h"

namespace tdump::io {

// What the coordinator needs of the sink.
class PassControl {
 public:
  virtual ~PassControl() = default;
  virtual void open_pass(const PassInfo& info) noexcept = 0;  // closes the open one first
  virtual void close_pass() noexcept = 0;
  // A limit was reached or the disk keeps failing: no later pass writes anything.
  // The gate may stay idle from here on.
  virtual bool stopped() const noexcept { return false; }
  // The open pass got something of a backward.
  virtual bool has_backward() noexcept { return false; }
};

enum class AtLimit : uint8_t { kBlock = 0, kDrop = 1, kStats = 2 };

struct CaptureSinkOptions {
  uint64_t arena_bytes = 256ull << 20;
  AtLimit at_limit = AtLimit::kBlock;     // memory.at_limit
  double max_block = 1;                   // memory.max_block: share of a step's time; 1: no limit
  bool thread = true;                     // memory.thread
  int64_t commit_wait_ms = 10'000;        // how long a closed pass waits for reserved slots
  uint64_t disk_limit_bytes = 0;          // of this process; 0 = none
  uint64_t min_free_bytes = 64ull << 20;  // stop writing when the file system has less
  PassFilesOptions files;                 // layout, durability, ring
  // One line for the user, rank 0 or not; may be empty.
  std::function<void(const std::string&)> report;
};

class CaptureSink : public Sink, public PassControl {
 public:
  // `directory` (the rank's) exists. `manifest` outlives the sink.
  static std::unique_ptr<CaptureSink> Create(Env* env, const OperatorTable* operators,
                                             ManifestWriter* manifest, std::string directory,
                                             CaptureSinkOptions options);
  // Waits until everything committed is written and the open pass is closed, at
  // most `timeout_ms`. False: not all.
  virtual bool Drain(int timeout_ms) noexcept = 0;
  // In a forked child: forget everything, touch nothing. Async-signal-safe.
  virtual void AbandonAfterFork() noexcept = 0;
};

}  // namespace tdump::io
