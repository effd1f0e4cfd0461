// DiffProgress: tells how far a comparison is, pass by pass and within the one that is next.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <mutex>
#include <vector>

#include "compare/diff.h"
#include "compare/pass_results.h"

namespace tdump::compare {

// Thread-safe once it has begun. `show` is empty where nobody asks, and outlives it.
class DiffProgress {
 public:
  explicit DiffProgress(const std::function<void(const Progress&)>& show) : show_(show) {}

  void Begin(size_t passes) { passes_ = passes; }
  // `diff_pair`, which tells how far it is; both outlive what is returned.
  PassResults::DiffPair Watch(const PassResults::DiffPair& diff_pair,
                              const std::vector<PassPair>& pairs);
  void ShowPassesDone(size_t done);
  // Of the pass that is next.
  void ShowPuttingTogether(size_t done, size_t all);

 private:
  void ShowPart(size_t pass, Progress::Doing doing, size_t done, size_t all);

  const std::function<void(const Progress&)>& show_;
  std::mutex showing_;
  std::atomic<size_t> passes_done_{0};
  size_t passes_ = 0;
};

}  // namespace tdump::compare
