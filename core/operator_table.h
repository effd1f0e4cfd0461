// All operators a process has seen, by dense id. Append-only; reading an
// entry takes no lock, adding takes one.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/fork_mutex.h"
#include "core/types.h"

namespace tdump {

// Thread-safe. Ids are dense from 0 in order of registration and stay
// valid for the life of the table.
class OperatorTable {
 public:
  OperatorTable();
  ~OperatorTable();
  OperatorTable(const OperatorTable&) = delete;

  // Returns the id of the operator with this (kind, root, path, op); adds it
  // when new. The other fields of an entry are those of its first registration,
  // except aliases, which `AddAlias` extends.
  OperatorId Intern(const OperatorInfo& info);
  // Reference stays valid for ever. Precondition: id < size().
  const OperatorInfo& Get(OperatorId id) const;
  uint32_t size() const { return size_.load(std::memory_order_acquire); }
  // A name found wrong later: the operator keeps its id, `path` is added to what
  // readers show (see io: alias record).
  void AddAlias(OperatorId id, const std::string& path);
  // Aliases added since registration, for the sink; a copy taken under the lock.
  std::vector<std::string> AliasesOf(OperatorId id) const;

 private:
  static constexpr uint32_t kChunk = 1024;
  static constexpr uint32_t kChunks = 4096;
  OperatorId& PlaceOf(const OperatorInfo& info);
  void GrowPlaces();

  mutable ForkMutex mutex_;
  // Open hash table of the ids, kNoOperator where it is free; a power of two, at most half full.
  std::vector<OperatorId> places_;
  std::unordered_map<OperatorId, std::vector<std::string>> late_aliases_;
  std::unique_ptr<std::atomic<OperatorInfo*>[]> chunks_;
  std::atomic<uint32_t> size_{0};
};

}  // namespace tdump
