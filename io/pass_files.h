// PassFiles: the files of one process: how passes are laid out in them, which are removed to keep
// to a limit, and when they get their final names.
//
//   1. Place() gives a pass a file of its own, or, packed, the end of a packed file. A packed file
//      is one pass's at a time; a pass that begins while another is still being written goes to a
//      second one.
//   2. After an error in the middle of a pass its packed file is given up as it stands (`.part`):
//      bytes of a torn pass are the last ones of a file.
//   3. A ring removes the oldest files when room is wanted. Before a file goes, `removed` is told.
//      The first pass, which holds the weights where they are captured, stays while it takes no
//      more than a quarter of the limit.
//   4. Close() gives packed files their final names. Until then their names end in `.part`, however
//      many passes in them are finished.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/env.h"
#include "io/direct_writes.h"
#include "io/pass_place.h"
#include "io/records.h"
#include "io/sections.h"

namespace tdump::io {

struct PassFilesOptions {
  // This many passes get files of their own, the later ones are packed.
  uint64_t single_files = ~uint64_t{0};
  Durability durability = Durability::kNone;
  bool direct = true;  // io/direct_writes.h
  bool ring = false;
  uint64_t ring_bytes = 0;  // the limit that the ring keeps to
};

struct PackFile;

// Thread-safe; the places it gives out are not.
class PassFiles {
 public:
  PassFiles(Env* env, std::string directory, PassFilesOptions options);
  ~PassFiles();

  // Outlived by this.
  Result<std::unique_ptr<PassPlace>> Place(const PassInfo& info, uint64_t job_hash);
  // Removes the oldest files until `bytes` are freed or none can go. What was freed.
  uint64_t MakeRoom(uint64_t bytes);
  // Called by MakeRoom() before a file goes.
  void OnRemoved(std::function<void(const RemovedSection&)> removed);
  // Packed files that no pass is being written to get their final names; a later pass opens another
  // file. Durability::kFinalize: forces all files to the disk.
  Status Close();

  const DirectWrites& direct() const { return direct_; }

 private:
  friend class PackPlace;
  // A file that is not written any more.
  struct ClosedFile {
    std::string name;
    uint64_t bytes = 0;
    uint64_t first = 0, last = 0;  // ordinals
  };
  class SinglePlace;

  Result<std::unique_ptr<PassPlace>> PlaceInPack(const PassInfo& info, uint64_t job_hash);
  void Closed(ClosedFile file);
  Status ClosePack(PackFile* pack);
  void GiveBack(PackFile* pack, bool failed);
  bool IsFull(const PackFile& pack) const;
  bool MayRemove(const ClosedFile& file) const;

  Env* const env_;
  const std::string directory_;
  const PassFilesOptions options_;
  DirectWrites direct_;  // of the thread that writes
  std::function<void(const RemovedSection&)> removed_;
  std::mutex mutex_;
  uint64_t placed_ = 0;  // passes
  uint64_t packs_made_ = 0;
  uint64_t first_ordinal_ = 0;
  bool wanted_room_ = false;                      // more than there was to remove
  std::vector<std::unique_ptr<PackFile>> packs_;  // open
  std::deque<ClosedFile> closed_;                 // of a ring, oldest first
  std::vector<std::string> unsynced_;             // closed files, Durability::kFinalize
};

std::string PackFileName(uint64_t number);  // "pack00000.tdp"

}  // namespace tdump::io
