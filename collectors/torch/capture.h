// Hands one tensor to the recorder and the sink: ask, reserve, copy, commit.
#pragma once

#include <cstdint>
#include <string_view>

#include "collectors/torch/export.h"
#include "core/recorder.h"

namespace at {
class TensorBase;
}

namespace tdump::collectors {

// Whether the plan can want anything in this role of the call; if not,
// a caller may skip gathering it.
inline bool Wants(Recorder& recorder, const Recorder::CallScope& scope, Role role) {
  return recorder.plan().wants(scope.rule, role, scope.call.phase);
}

// One tensor that is recorded at several places at one moment: its values are copied for the first
// of them, the others refer to that record where the same parts are asked for.
struct SharedRecord {
  uint64_t record = 0;  // 0: none yet
  uint64_t pass = 0;
  Parts parts = kPartNone;
  Compression compress = Compression::kNone;

  bool Serves(const Call& call, const Decision& decision) const {
    const bool same = call.pass == pass && decision.parts == parts && decision.compress == compress;
    return record != 0 && same && (parts & (kPartSample | kPartSlice)) == 0;
  }
};

struct Seen {
  Role role = Role::kOutput;
  std::string_view arg;
  bool late = false;
  std::string_view subclass;  // Python class, when not torch.Tensor or Parameter
  SharedRecord* shared = nullptr;
  bool under_way = false;  // a collective may still write it: its values are not read
};

// Records `tensor` as it is now, and nothing of it afterwards; of a DTensor the local part
// (collectors/torch/local_parts.h). Undefined tensors are noted in the call's text. noexcept: what
// goes wrong becomes a record without data.
TDUMP_TORCH_EXPORT void Capture(Recorder& recorder, Recorder::CallScope* scope, const Seen& seen,
                                const at::TensorBase& tensor) noexcept;

// The Python class of jagged tensors; who knows it captures their components too.
inline constexpr std::string_view kJaggedClass = "NestedTensor";

}  // namespace tdump::collectors
