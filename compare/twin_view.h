// TwinView: a StepView in which a record of which the hash alone was kept can appear with the
// values of another one that has the same bytes, and of which they were kept: what a model returns,
// say, which its loss is given.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <shared_mutex>
#include <utility>
#include <vector>

#include "compare/forwarding_view.h"
#include "compare/verdict.h"
#include "io/records.h"

namespace tdump::compare {

// Thread-safe. Memory: nothing until a twin is asked for, then 24 bytes for each record with
// values.
class TwinView : public WrappedView {
 public:
  explicit TwinView(std::unique_ptr<StepView> view) : WrappedView(std::move(view)) {}

  // Of a record of this view. The first call reads the metadata of all.
  bool HasTwin(const io::Record& record) const { return TwinOf(record).has_value(); }
  // From now on the record appears with its twin's values, if it has one.
  void Show(uint64_t id);

  Status ForEachTensor(const VisitTensor& visit) const override;
  Result<io::Record> Get(uint64_t id) const override;
  const io::Record* Known(uint64_t id) const override {
    return IsShown(id) ? nullptr : WrappedView::Known(id);
  }
  Result<ReadBytes> Open(const io::Record& record) const override;
  const Quantised* ScalesOf(uint64_t id) const override {
    return IsShown(id) ? nullptr : WrappedView::ScalesOf(id);
  }

 private:
  using Entry = std::pair<io::Hash128, uint64_t>;  // of a record with values, its id

  bool IsShown(uint64_t id) const;
  std::optional<io::Record> TwinOf(const io::Record& record) const;
  void Load() const;
  io::Record WithValues(io::Record record) const;

  mutable std::once_flag loaded_;
  mutable std::vector<Entry> entries_;  // ascending
  std::atomic<bool> shows_{false};      // any
  mutable std::shared_mutex mutex_;
  std::set<uint64_t> shown_;
};

// Whether twins may have been shown for what came of a pair.
bool MayBeOfTwins(const Comparison& comparison);

// The two sides of a pass.
struct TwinViews {
  TwinView* a = nullptr;
  TwinView* b = nullptr;

  // Shows twins where that gives a pair, whose hashes do not say that it is equal, values on both
  // sides; whether it does.
  bool ShowFor(const io::Record& of_a, const io::Record& of_b) const;
};

}  // namespace tdump::compare
