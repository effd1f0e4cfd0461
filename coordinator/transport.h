// AgreementTransport: carries AgreementMessages between the processes of a job. One of them decides
// (agreement.h); reports flow to it, its decisions flow to all.
//
// Nobody waits: Send() and Poll() return at once, whatever the others do. Messages of one sender
// arrive in order, but some may be lost and some may come twice; the protocol stands both.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "coordinator/agreement_message.h"

namespace tdump::coordinator {

// Used by one thread at a time; any thread. Nothing throws.
class AgreementTransport {
 public:
  using Take = std::function<void(const AgreementMessage& message)>;

  virtual ~AgreementTransport() = default;
  virtual std::string_view name() const noexcept = 0;
  // A report goes to the deciding rank; so does a leave, unless the deciding rank sends it: like
  // decisions, it then goes to all.
  virtual void Send(const AgreementMessage& message) noexcept = 0;
  // Hands over what came in. `decider`: the rank that decides, as far as this process knows; when
  // it is its own, everybody's messages are wanted. `eager`: now, even if it costs.
  virtual void Poll(int32_t decider, bool eager, const Take& take) noexcept = 0;
  // `rank` has said nothing for `limit_ns`. False where silence means nothing: under MPI the
  // launcher ends the job when a process dies.
  virtual bool Silent(int32_t rank, int64_t limit_ns) const noexcept { return false; }
  // Takes back what is under way. The transport is not used again.
  virtual void Close() noexcept = 0;
};

}  // namespace tdump::coordinator
