#include "launch/runtime/forked_work.h"

#include <sys/mman.h>

#include <new>

#include <fmt/format.h>

#include "core/text.h"

namespace tdump::launch {

static_assert(std::atomic<uint64_t>::is_always_lock_free);  // works between processes

void ForkedWork::Begin() noexcept {
  void* const page = ::mmap(nullptr, sizeof(std::atomic<uint64_t>), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  children_ = page == MAP_FAILED ? nullptr : new (page) std::atomic<uint64_t>(0);
}

void ForkedWork::Count() noexcept {
  if (children_ != nullptr && !counted_.exchange(true)) children_->fetch_add(1);
}

void ForkedWork::BecomeRank() noexcept {
  if (children_ != nullptr && counted_.exchange(false)) children_->fetch_sub(1);
  Begin();
}

uint64_t ForkedWork::children() const noexcept {
  return children_ != nullptr ? children_->load() : 0;
}

std::string ForkedWorkText(uint64_t children, bool of_rank) {
  const std::string who =
      children == 1 ? "1 forked child" : CountText(children) + " forked children";
  if (of_rank)
    return fmt::format(
        "{} ran modules or operators, and forked children are not recorded; to have it recorded, "
        "run that part in the rank itself (of a data loader: num_workers=0)",
        who);
  return fmt::format(
      "nothing is recorded: only {} ran modules or operators, and forked children are not "
      "recorded; run that part in the process itself, or start its process anew (multiprocessing: "
      "start method 'spawn')",
      who);
}

}  // namespace tdump::launch
