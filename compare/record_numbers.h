// RecordNumbers: integers that a step recorded of itself, as lists of the dims language name them:
// packed=@cu_seqlens, sizes=@tokens_per_expert.
//
//   1. A name is the key of a record, in full or without call and micro-batch
//      ("attn@input#kwargs.cu_seqlens"), else its plain name, else the name of a tap or the last
//      part of an argument's name ("cu_seqlens").
//   2. Of several with this name those count that are of the tensor's own micro-batch, and of these
//      those of its own call, where there are any.
//   3. They hold the same numbers on every rank and in every record that counts, or it is an error.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "compare/job_step.h"
#include "core/key.h"
#include "core/status.h"

namespace tdump::compare {

// Of one step, between its Gather and ForgetGroups. Not thread-safe. Memory: what was asked for.
class RecordNumbers {
 public:
  explicit RecordNumbers(const JobStep* step) : step_(step) {}

  // `of`: the tensor, as it was captured. Errors (kInvalidArgument): no such record, no integers,
  // kept without its values, negative numbers, ranks or records that hold different ones.
  Result<std::vector<uint64_t>> Find(const std::string& name, const Key& of);

 private:
  struct Named {
    size_t group = 0;
    Key key;  // as it was captured
    bool integer = false;
  };
  const std::vector<Named>& NamedBy(const std::string& name);
  const Result<std::vector<uint64_t>>& NumbersOf(size_t group);
  Result<std::vector<uint64_t>> ReadGroup(const Group& group) const;
  Result<std::vector<uint64_t>> Read(const Member& member, const MemberData& data) const;

  const JobStep* const step_;
  std::map<std::string, std::vector<Named>> named_;
  std::map<size_t, Result<std::vector<uint64_t>>> numbers_;  // by group
};

}  // namespace tdump::compare
