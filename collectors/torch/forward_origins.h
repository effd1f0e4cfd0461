// Which module and lane a node of the autograd graph comes from.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "core/types.h"

namespace tdump::collectors {

struct ForwardOrigin {
  OperatorId owner = kNoOperator;  // the module
  uint32_t lane = 0;
};

// Forward operators of a pass by LibTorch's (thread, sequence number), which a backward node knows
// of its forward. Several operators share a number; the last one made the node. Thread-safe.
class ForwardOrigins {
 public:
  void Note(uint64_t pass, uint64_t thread, int64_t sequence, const ForwardOrigin& origin) {
    std::lock_guard lock(mutex_);
    if (pass != pass_) {
      origins_.clear();
      pass_ = pass;
    }
    origins_[{thread, sequence}] = origin;
  }
  bool Find(uint64_t thread, int64_t sequence, ForwardOrigin* origin) const {
    std::lock_guard lock(mutex_);
    const auto it = origins_.find({thread, sequence});
    if (it == origins_.end()) return false;
    *origin = it->second;
    return true;
  }

 private:
  struct Key {
    uint64_t thread;
    int64_t sequence;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const {
      return static_cast<size_t>(key.sequence) * 0x9e3779b97f4a7c15u ^ key.thread;
    }
  };
  mutable std::mutex mutex_;
  uint64_t pass_ = ~uint64_t{0};
  std::unordered_map<Key, ForwardOrigin, Hash> origins_;
};

}  // namespace tdump::collectors
