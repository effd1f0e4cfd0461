// KernelMonitor: what libtdump.so does of collect.kernels and breadcrumbs: leaves the crumbs and
// prints the lines. The collector of compiled kernels reads the tensors.
//
//   1. Made with the session. Until the process is a rank it leaves nothing.
//   2. Open(), at activation: on a rank that is to leave breadcrumbs makes
//      clock/<process>.crumbs in the run directory, or a link of that name to the node-local file.
//   3. Close(): a process that ends well has nothing to tell, its file goes.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "coordinator/step_clock.h"
#include "core/identity.h"
#include "core/kernels.h"
#include "core/operator_table.h"
#include "filters/atomic_table.h"
#include "filters/config.h"
#include "io/breadcrumb_ring.h"

namespace tdump::launch {

class KernelMonitor final : public KernelReports {
 public:
  KernelMonitor(const filters::Config& config, const OperatorTable* operators);
  ~KernelMonitor() override;

  // Null where `collect.kernels` is off.
  KernelReports* reports() { return mode_ == KernelMode::kOff ? nullptr : this; }

  // `link`: where tdump-view looks for the breadcrumbs of this process. Error: it leaves none.
  Status Open(const Identity& identity, bool selected, const std::string& link);
  // The agreement that the clock is to ask, which tells of steps; `inner` outlives it.
  coordinator::StepAgreement* Watch(coordinator::StepAgreement* inner);
  // `well`: the process succeeded.
  void Close(bool well) noexcept;
  // Stores only.
  void InForkedChild() noexcept { ring_.store(nullptr, std::memory_order_release); }

  KernelMode mode() const noexcept override { return mode_; }
  bool leaves_crumbs() const noexcept override { return ring() != nullptr; }
  void Began(OperatorId kernel) noexcept override { Leave(kernel, false); }
  void Ended(OperatorId kernel) noexcept override { Leave(kernel, true); }
  void Print(const PrintedTensor& tensor) noexcept override;

 private:
  class Steps;
  io::BreadcrumbRing* ring() const noexcept { return ring_.load(std::memory_order_acquire); }
  bool WantsCrumbs(const Identity& identity, bool selected) const;
  void Leave(OperatorId kernel, bool ended) noexcept;

  const filters::Config& config_;
  const OperatorTable* const operators_;
  const KernelMode mode_;
  std::atomic<io::BreadcrumbRing*> ring_{nullptr};  // leaked on purpose: hooks may come late
  filters::AtomicTable<uint64_t> names_;            // by OperatorId: its number in the ring + 1
  std::atomic<int64_t> step_{-1};
  std::atomic<int32_t> rank_{-1};
  std::string link_;
  std::unique_ptr<Steps> steps_;
};

}  // namespace tdump::launch
