// KnownNames: operators that one thread has met under a name of the program (a tap, a part), by
// owner and name. Finding one allocates nothing.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/operator_table.h"

namespace tdump::collectors {

// The operator `name` in the module `owner`, of which it has path and class; kNoOperator: in none.
inline OperatorId InternBelow(OperatorTable* table, OperatorKind kind, OperatorId owner,
                              std::string_view name) {
  OperatorInfo info;
  info.kind = kind;
  info.op = name;
  info.leaf = true;
  if (owner != kNoOperator) {
    const OperatorInfo& module = table->Get(owner);
    info.root = module.root;
    info.path = module.path;
    info.cls = module.cls;
  }
  return table->Intern(info);
}

class KnownNames {
 public:
  // kNoOperator: not known. `table` is what the ids are of: another one than before is begun anew.
  OperatorId Find(const OperatorTable* table, OperatorId owner, std::string_view name) {
    if (table != table_) {
      entries_.clear();
      used_ = 0;
      table_ = table;
    }
    if (entries_.empty()) return kNoOperator;
    for (size_t at = Hash(owner, name);; ++at) {
      const Entry& entry = entries_[at & (entries_.size() - 1)];
      if (entry.id == kNoOperator || (entry.owner == owner && entry.name == name)) return entry.id;
    }
  }
  // What Find() just did not know. May throw std::bad_alloc.
  void Add(OperatorId owner, std::string_view name, OperatorId id) {
    if (2 * used_ >= entries_.size()) {
      std::vector<Entry> before(std::max<size_t>(64, 2 * entries_.size()));
      before.swap(entries_);
      for (Entry& old : before) {
        if (old.id != kNoOperator) Put(std::move(old));
      }
    }
    Put({owner, id, std::string(name)});
    ++used_;
  }

 private:
  struct Entry {
    OperatorId owner = kNoOperator;
    OperatorId id = kNoOperator;  // kNoOperator: free
    std::string name;
  };
  static size_t Hash(OperatorId owner, std::string_view name) {
    return std::hash<std::string_view>()(name) ^ (owner * 0x9e3779b97f4a7c15u >> 16);
  }
  void Put(Entry entry) {
    size_t at = Hash(entry.owner, entry.name);
    while (entries_[at & (entries_.size() - 1)].id != kNoOperator) ++at;
    entries_[at & (entries_.size() - 1)] = std::move(entry);
  }

  const OperatorTable* table_ = nullptr;
  std::vector<Entry> entries_;  // a power of two, at most half of them in use
  size_t used_ = 0;
};

}  // namespace tdump::collectors
