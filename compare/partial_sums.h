// PartialSums: sums over ranks that were only inferred, and the tensors among them that should be
// whole on every rank: an all-reduce that was forgotten leaves its summands, whose sum agrees.
//
//   - The same record of other layers, of operators with weights and inputs of the same shapes, is
//     whole on every rank, at least as often as it is a sum.
//   - What takes it does not agree with the other side, and the ranks differ in what they make.
//   - It is the model's own output, no single number, and the ranks share the model's inputs: they
//     lie on tp, or each was given the same. Ranks that were given other data (dp) count other
//     things.
//   - What comes next on a rank is off by the summands of the others (compare/left_out_sums.h).
//   - It holds what one of these holds, and no layer like its own has such a sum as well.
// A sum stays one where what takes it agrees. Nothing is said of gradients of parameters, which are
// recorded before they are summed, nor of layouts that somebody gave.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "compare/load_shards.h"
#include "compare/resolve_layout.h"
#include "core/key.h"

namespace tdump::compare {

// Whether a layout is a sum over ranks that nobody told of.
bool IsInferredSum(const ShardSet& set, const LayoutCandidate& layout, Proof proof);

// What a note on a sum that is a fault begins with; its last colon stands before the key.
inline constexpr std::string_view kFaultOfSum = "each rank of ";

// Of one step and side.
class PartialSums {
 public:
  void Add(const Key& key, const LoadedShards& shards, const LayoutCandidate& layout, Proof proof);
  // That of this key was left out, as what comes next shows: its name. Before the first Fault.
  void Blame(const Key& key, const std::string& next);
  // After the last Add. Why the sum of this key is a fault, as a note on it; "" where it is none.
  // `side`: 'A' or 'B'.
  std::string Fault(const Key& key, char side);

 private:
  struct Sum {
    Key key;
    uint64_t like = 0, content = 0;  // 0: not known
    uint64_t call = 0, module = 0;
    bool is_model_output = false;
    std::vector<std::string> axes;  // along which it is summed
    bool shares_inputs = false;     // with the ranks that hold the other summands, as axes tell
  };
  // Records of one name but for the layer.
  struct Siblings {
    size_t whole = 0, sums = 0;
  };
  // What a call made.
  struct Made {
    bool agrees = false, disagrees = false;
  };
  void Judge();
  void AddInput(const LayoutCandidate& layout, bool copied);
  bool ShouldBeWhole(const Sum& sum) const;
  Made TakenBy(const Sum& sum, std::string* taker) const;
  const Siblings& Like(const Sum& sum) const;

  struct Whole {
    uint64_t like = 0, module = 0;
  };

  std::vector<Sum> sums_;
  std::vector<Whole> wholes_;
  std::unordered_multimap<uint64_t, size_t> taken_;  // of sums_, those that calls took, by content
  std::unordered_map<uint64_t, uint64_t> modules_;   // shapes of what goes into them
  std::unordered_map<uint64_t, Made> made_;          // by call
  std::unordered_map<uint64_t, Siblings> siblings_;
  std::unordered_map<std::string, std::string> faults_;    // by key
  std::unordered_map<std::string, std::string> left_out_;  // by key: what comes next
  // Of the model: one of which ranks hold copies, and one of which it is not known.
  bool has_copied_input_ = false, has_other_input_ = false;
  std::unordered_set<std::string> input_axes_;  // that split the former
  bool judged_ = false;
};

// The layout with every rank's summand as a copy of the whole.
Result<LayoutCandidate> AsCopies(const ShardSet& set, const LayoutCandidate& sum);

}  // namespace tdump::compare
