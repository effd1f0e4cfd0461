// FileTransport: the agreement over the slot files in <run>/clock (slot_file.h). Every message of a
// process stands in its own slot file whatever the transport is; this one has the others read it
// there, at their own boundaries. Works under every launcher, on one node or over a shared file
// system, and survives any death.
//
// The deciding process reads everybody's file, any other one that of the deciding process only.
// Where the file system is slow, reading takes at most about 2 % of the time.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "coordinator/slot_file.h"
#include "coordinator/transport.h"
#include "core/env.h"

namespace tdump::coordinator {

// Finds the slot files of one generation. Where several processes have one rank number, the first
// to start stands for the rank. Not thread-safe.
class SlotDirectory {
 public:
  SlotDirectory(Env* env, std::string directory, uint32_t generation);
  // Looks for new files; costs one listing.
  void Refresh();
  std::map<int32_t, SlotReader>& ranks() { return ranks_; }

 private:
  Env* env_;
  const std::string directory_;
  const uint32_t generation_;
  std::map<int32_t, SlotReader> ranks_;
  std::set<std::string> seen_;
};

struct FileTransportOptions {
  int32_t rank = 0;
  int32_t world = 1;
  uint32_t generation = 0;
  int64_t pace_ns = 10'000'000;
  std::function<int64_t()> now_ns;  // does not run backwards
};

std::unique_ptr<AgreementTransport> NewFileTransport(Env* env, const std::string& clock_directory,
                                                     FileTransportOptions options);

}  // namespace tdump::coordinator
