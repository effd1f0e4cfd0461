// What the aten collector knows of an operator of the dispatcher: whether it is one that is
// followed, and what its schema says of arguments. Found once per operator and thread.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/call_text.h"
#include "core/types.h"

namespace tdump::collectors {

struct AtenOperator {
  struct Argument {
    std::string name;           // of the schema: "self"
    std::string arg;            // of the record: "0", or "kwargs.out"
    c10::IValue default_value;  // None where there is none
    bool written = false;       // in-place, out=
  };

  std::string name;      // "aten::add"
  std::string overload;  // "Tensor"
  // False for operators that only call others (they have a CompositeImplicitAutograd kernel), and
  // for collectives that are not asked for.
  bool followed = false;
  bool collective = false;  // what it makes may not be there yet when it returns
  uint32_t number = 0;      // among the operators of this thread's cache
  std::vector<Argument> arguments;
};

// Cache of one thread. Allocates only for what it sees for the first time.
class AtenOperators {
 public:
  // Once, before the first Of(): from then on it notices that operators are taken out of the
  // dispatcher.
  static void FollowDispatcher();

  // Null: the range is no operator.
  const AtenOperator* Of(const at::RecordFunction& range) {
    const char* name = range.name();
    const uint64_t removed = removed_operators_.load(std::memory_order_acquire);
    if (removed != removed_before_) [[unlikely]] {
      recent_.fill({});
      removed_before_ = removed;
    }
    auto& recent = recent_[(reinterpret_cast<uintptr_t>(name) >> 4) % recent_.size()];
    if (recent.first == name) [[likely]]
      return recent.second;
    const AtenOperator* op = FindOrDescribe(range);
    if (op != nullptr) recent = {name, op};
    return op;
  }
  // The operator below one owner.
  struct Id {
    uint64_t key = 0;                     // 0: free
    OperatorId id = kNoOperator;          // kNoOperator: not known yet
    uint64_t rejected_in = ~uint64_t{0};  // the last pass in which nothing of it was wanted
  };
  // The reference holds until the next call.
  Id& IdBelow(OperatorId owner, const AtenOperator& op) {
    const uint64_t key = uint64_t{op.number} << 32 | owner;
    if (!ids_.empty()) {
      Id& first = ids_[PlaceOf(key) & (ids_.size() - 1)];
      if (first.key == key) [[likely]]
        return first;
    }
    return FindOrAdd(key);
  }

 private:
  static size_t PlaceOf(uint64_t key) { return (key * 0x9e3779b97f4a7c15u) >> 32; }
  Id& FindOrAdd(uint64_t key);
  void GrowIds();

  const AtenOperator* FindOrDescribe(const at::RecordFunction& range);

  // By the address of the name, which belongs to the operator's schema. When an operator is taken
  // out of the dispatcher its memory may be used again: from then on the names are compared too.
  std::unordered_map<const char*, AtenOperator> known_;
  std::array<std::pair<const char*, const AtenOperator*>, 256> recent_{};
  uint64_t removed_before_ = 0;
  static inline std::atomic<uint64_t> removed_operators_{0};
  uint32_t next_number_ = 1;
  std::vector<Id> ids_;  // open hash table, a power of two
  size_t used_ids_ = 0;
};

// Adds an argument or result that is no tensor to the call's text; nothing for None and for what
// has no short text.
void AddValue(std::string_view name, const c10::IValue& value, CallText* text) noexcept;
// Whether the value is the default of the argument, or has a text like it.
bool IsDefault(const c10::IValue& value, const AtenOperator::Argument& argument);

}  // namespace tdump::collectors
