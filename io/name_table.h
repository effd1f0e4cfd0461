// NameTable: the interned names and the operators of one pass file, as its kName, kOperator and
// kAlias frames define them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/status.h"
#include "core/types.h"
#include "io/records.h"
#include "io/sections.h"

namespace tdump::io {

// Filled once, then read by any thread. An error names the field; the caller adds file and offset.
class NameTable {
 public:
  Status Add(const NameSection& section);  // kCorrupt when the id already stands for another text
  Status Add(const OperatorSection& section);  // its names must be there
  Status Add(const AliasSection& section);     // its operator must be there

  // `field` is what the error calls the id. Name 0 is "".
  Result<const std::string*> Name(uint32_t id, const char* field) const;
  Result<const OperatorInfo*> Operator(uint32_t id) const;

 private:
  std::unordered_map<uint32_t, std::string> names_;
  std::unordered_map<uint32_t, OperatorInfo> operators_;
};

// Tables that are in use, by a hash of what defines them: the ranks of a job mostly have the same.
// Thread-safe.
class NameTables {
 public:
  std::shared_ptr<const NameTable> Find(const Hash128& content);  // null: none
  void Keep(const Hash128& content, const std::shared_ptr<const NameTable>& table);

 private:
  std::mutex mutex_;
  std::map<Hash128, std::weak_ptr<const NameTable>> tables_;
};

}  // namespace tdump::io
