// BreadcrumbRing: writes the file of io/breadcrumbs.h. Preallocated and mapped when it is made, so
// that leaving a crumb is a number and two stores: no call of the system, no lock, no page of a
// disk that is full. Written past Env, which has no mapping that can be written.
//
// Thread-safe. A forked child must let go of it: the mapping is shared with the parent.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "core/identity.h"
#include "core/status.h"
#include "io/breadcrumbs.h"

namespace tdump::io {

class BreadcrumbRing {
 public:
  // Makes the file, which must not be there.
  static Result<std::unique_ptr<BreadcrumbRing>> Create(const std::string& path,
                                                        const Identity& identity);
  ~BreadcrumbRing();
  BreadcrumbRing(const BreadcrumbRing&) = delete;

  const std::string& path() const { return path_; }
  // The number of a name from now on; 0 where there is no room for it. Takes a lock: once a name.
  uint64_t AddName(std::string_view name) noexcept;
  // Of the step that begins now.
  void SetStep(uint64_t step) noexcept;
  void Leave(uint64_t name, bool ended) noexcept;

 private:
  BreadcrumbRing(std::string path, std::byte* map);

  const std::string path_;
  std::byte* const map_;
  std::atomic<uint64_t> next_{0};
  std::atomic<uint64_t> step_{CrumbWord::kNoStep};
  std::mutex names_mutex_;
  uint64_t names_end_ = 8;  // among the names; 0 stands for none
};

// Whether the file system of `path` is in memory. A store to a mapping on a network file system may
// wait for its server, on a disk's for a page that is being written out; and one that copies on
// write (btrfs, ZFS) may need room again, without which the store is a SIGBUS.
bool IsInMemory(const std::string& path);

}  // namespace tdump::io
