// PairComparer: one pair of records of a pass, from what both sides kept of them to the answers of
// a verdict, but for what the pairs together tell (PassJudge::JudgeTogether).
#pragma once

#include <memory>
#include <type_traits>

#include "compare/parts.h"
#include "compare/pass_diff.h"
#include "compare/pass_judge.h"
#include "compare/root_calls.h"
#include "compare/twin_view.h"

namespace tdump::compare {

// Thread-safe. All outlive it.
class PairComparer {
 public:
  // `diff`: with its calls. `twins`: its views.
  PairComparer(const PassDiffOptions& options, const PassDiff* diff, TwinViews twins,
               PassJudge* judge);

  // `large`: where given, told whether the pair was left for later: it is worth several threads.
  // Error: a payload's.
  Status Compare(Outcome* outcome, bool* large = nullptr) const;

 private:
  // With what the other side, which has no values, kept of them.
  Result<io::Record> Complete(const StepView& view, const io::Record& record,
                              const StepView& other_view, const io::Record& other) const;
  // The slice of a record whose whole payload is there is read from that.
  static OpenSlice SliceOpener(const StepView& view, const io::Record& record);
  Status CompareParts(const io::Record& a, const io::Record& b, Outcome* outcome) const;
  // Hashes that differ say that something differs; a part that agrees does not excuse it.
  Status JudgePartsBesideHash(const io::Record& a, const io::Record& b, const Bound& bound,
                              Comparison* comparison) const;
  void JudgeByStatistics(const io::Record& a, const io::Record& b, const Bound& bound,
                         Outcome* outcome) const;
  // Numbers that one side may have taken for zero: told also where the bound, which grows with the
  // other elements, is wide enough for them.
  Status AllowFlushed(const io::Record& a, const io::Record& b, const Bound& bound,
                      Comparison* comparison) const;
  // A weight that the sides hold in two dtypes, or one with scales: whether it is a multiple.
  Status HoldToGain(const io::Record& a, const io::Record& b, Outcome* outcome) const;
  // Where one side is padded: the part that both have decides if the user says so, else it is a
  // hint.
  Status CompareLeading(const io::Record& a, const io::Record& b, Outcome* outcome) const;
  // Strides of a tensor that is put together say nothing.
  void DropStrideNotes(const Outcome& outcome, Notes* notes) const;
  // Whether both tensors could be put together. Error: not for damage.
  Status Resolve(Outcome* outcome) const;
  // Whether the whole payloads are.
  bool IsRead(const io::Record& a, const io::Record& b, const Comparison& comparison) const;
  // Reads what the hashes say is equal.
  Status VerifyEqual(const io::Record& a, const io::Record& b, Comparison* comparison) const;
  Result<Metrics> MeasureRecords(const io::Record& a, const io::Record& b,
                                 const Bound& bound) const;
  // Calls work(Operand a, Operand b, threads); more than one thread for large pairs only.
  template <class Work>
  std::invoke_result_t<Work, Operand, Operand, unsigned> WithThreads(const io::Record& a,
                                                                     const io::Record& b,
                                                                     const Work& work) const;
  // False of activations that another stage of a pipeline, or another chunk of it, handed on, and
  // of what a root called before may have made.
  bool IsModelInput(const io::Record& record) const;
  void Place(const io::Record& b, Outcome* outcome) const;

  const PassDiffOptions& options_;
  const PassDiff* diff_;
  const TwinViews twins_;
  PassJudge* judge_;
  RootCalls roots_;
  const bool assembled_ = diff_->a->is_assembled() || diff_->b->is_assembled();
};

}  // namespace tdump::compare
