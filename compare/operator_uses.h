// OperatorUses: what the manifest of a process says of an operator, found by its name.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "core/key.h"
#include "io/pass_store.h"

namespace tdump::compare {

// Over all passes of the process.
struct OperatorUse {
  bool is_known = false;     // else the manifest says nothing
  bool is_selected = false;  // by the rules, on this rank
  uint64_t calls = 0;
  uint64_t not_kept = 0;  // records, for want of room
};

// Thread-safe. Memory: 4 bytes for each operator of a list, once for all processes that share it.
class OperatorUses {
 public:
  // Of the operator of `key`. The process outlives this.
  OperatorUse Of(const io::ProcessEntry& process, const Key& key);

 private:
  using Order = std::vector<uint32_t>;  // of a list's sections, by name

  template <class Section>
  const Section* Find(const io::SharedList<Section>& list, const Key& key);

  std::mutex mutex_;
  std::unordered_map<const void*, Order> orders_;  // by the list's first section
};

}  // namespace tdump::compare
