// FirstForwards: which first forward of one side a checkpoint computed anew while backward ran.
// Calls that were computed anew are counted from 0 again, in the order in which backward asked for
// them: their numbers do not tell.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "compare/step_view.h"
#include "core/key.h"
#include "core/types.h"

namespace tdump::compare {

class FirstForwards {
 public:
  // What the first forwards of its name say of a record that was computed anew.
  enum class Answer : uint8_t {
    kNone,     // there is none
    kDiffers,  // by shape, dtype, hash, bytes or statistics from each of them
    kUnread,   // nothing differs, but neither a hash nor at most 64 MiB of values tell
    kEqual,
  };

  // `anew`: records of the view that were computed anew, of which it will be asked; others are
  // left aside. The view outlives it. What cannot be read is as if it were not there.
  FirstForwards(const StepView& view, std::span<const uint64_t> anew);

  Answer Ask(const io::Record& forward) const;
  // The key under which a gradient of a forward that was computed anew were recorded if it had come
  // through the first one; none: it cannot be told which that is.
  std::optional<Key> FirstKeyOf(const Key& gradient) const;

 private:
  // Of a record, what most often tells.
  struct First {
    uint64_t id = 0;
    Key key;
    std::vector<int64_t> sizes;
    DType dtype;
    std::optional<io::Hash128> hash;
  };
  struct Calls {
    std::map<std::pair<uint32_t, uint32_t>, std::set<Key>> first, anew;  // by micro and chunk
  };

  void AddCall(const Key& forward);
  Answer Compare(const io::Record& forward, const First& first) const;
  Answer CompareValues(const io::Record& forward, uint64_t first) const;
  // Those whose tensors may be those of the call.
  std::set<Key> CallsLike(const Key& call) const;
  // Where each micro-batch has one call, which is computed anew once: nothing comes before the
  // forward that it repeats, so that each is of its own micro-batch.
  std::optional<Key> OnlyCall(const Key& call) const;

  const StepView& view_;
  std::unordered_set<std::string> operators_;                   // that were asked for
  std::unordered_map<std::string, std::vector<First>> firsts_;  // by name
  std::map<Key, std::vector<uint64_t>> anew_;                   // by call
  std::unordered_map<std::string, Calls> calls_;                // by operator
};

}  // namespace tdump::compare
