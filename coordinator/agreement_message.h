// AgreementMessage: what the processes of a job tell each other about their steps. Fixed size, the
// same over every transport; slots on disk hold them as they are (little-endian).
//
//   report  a process ended its step `local`: mode, shape, when it began
//   extra   the deciding rank: step `local` of `rank` is one that the others did not run
//   column  the deciding rank: the global steps below `global` are settled
//   lost    the deciding rank: `rank` fell silent, the others go on without it
//   leave   the process takes no further part; it counted `local` steps
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace tdump::coordinator {

struct AgreementMessage {
  enum class Kind : uint8_t { kNone, kReport, kExtra, kColumn, kLost, kLeave };
  static constexpr uint8_t kByTime = 1;  // flags of an extra: only the begin times told it

  Kind kind = Kind::kNone;
  uint8_t mode = 0;  // StepMode
  uint8_t flags = 0;
  uint8_t reserved = 0;
  int32_t rank = 0;  // whom it is about
  uint64_t local = 0;
  uint64_t global = 0;
  uint64_t shape = 0;
  int64_t began_ns = 0;  // wall clock
};

static_assert(sizeof(AgreementMessage) == 40 && std::is_trivially_copyable_v<AgreementMessage>);
static_assert(std::endian::native == std::endian::little, "slots are little-endian");

}  // namespace tdump::coordinator
