#include "compare/diff_progress.h"

namespace tdump::compare {

PassResults::DiffPair DiffProgress::Watch(const PassResults::DiffPair& diff_pair,
                                          const std::vector<PassPair>& pairs) {
  if (!show_) return diff_pair;
  return [this, &diff_pair, &pairs](const PassPair& pair, const PassDiffOptions& options) {
    PassDiffOptions watched = options;
    watched.on_pairs = [this, number = static_cast<size_t>(&pair - pairs.data())](size_t done,
                                                                                  size_t all) {
      ShowPart(number, Progress::Doing::kComparing, done, all);
    };
    return diff_pair(pair, watched);
  };
}

void DiffProgress::ShowPassesDone(size_t done) {
  if (!show_) return;
  const std::lock_guard lock(showing_);
  passes_done_ = done;
  show_({.passes_done = done, .passes = passes_});
}

void DiffProgress::ShowPuttingTogether(size_t done, size_t all) {
  ShowPart(passes_done_, Progress::Doing::kPuttingTogether, done, all);
}

// Of several passes at a time the one that is next tells.
void DiffProgress::ShowPart(size_t pass, Progress::Doing doing, size_t done, size_t all) {
  if (!show_ || pass != passes_done_) return;
  const std::lock_guard lock(showing_);
  if (pass != passes_done_) return;
  show_({.passes_done = pass, .passes = passes_, .doing = doing, .done = done, .all = all});
}

}  // namespace tdump::compare
