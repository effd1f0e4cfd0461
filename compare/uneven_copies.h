// UnevenCopies: copies that a rank lacks though it ought to hold as much as another rank.
//
// What operators return may come and go with the data, and rules of a capture may be of some ranks,
// so that a rank lacks a copy proves little (compare/lost_copies.h). A copy is missed where
//
//   1. the ranks of both sides lie alike, and the same rank of the other side holds one. The rank
//      must have run the module (of a dump of another tool, or of a parameter or buffer: hold
//      something of it), and its manifest, where it counts, must say that rules select the module
//      there and that no limit left out anything of it. Of parameters, and of their gradients,
//      which sharded optimizers deal out, a rank that holds one must hold all that this one does,
//      which must be some. A rank that was not captured lacks nothing; or
//   2. the dump is of another tool, which has no such rules, it is known how its ranks lie, and the
//      rank holds something of the module: of ranks that lie apart on tp or sp alone, two hold
//      one (what one of them alone has is its own: a loss, logits that are gathered); of a
//      parameter also where a rank does that lies apart on dp, fsdp or cp alone. Of these either
//      must hold all parameters that the rank holds, which must be some: they are not dealt out.
//      What ranks of the same places lack on both sides is not missed.
// Experts come and go with the data, and of what a sharded optimizer keeps one rank holds each
// tensor. What is missed for another reason is told with that.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "compare/job_side.h"
#include "compare/job_step.h"
#include "compare/pairing.h"

namespace tdump::compare {

// Whether others hold it, LostCopy::ran: kGone of copies that nothing but this tells of.
inline bool IsHeldByOthers(const LostCopy& copy) {
  return copy.how == LostCopy::How::kGone && copy.partner != 0;
}

// Of one step. Not thread-safe. Memory: a few words for each pair that some ranks lack, and the
// names of modules of passes that lack something.
class UnevenCopies {
 public:
  struct Of {  // all outlive it
    const JobSide* job = nullptr;
    const JobStep* step = nullptr;
    const PassRef* ref = nullptr;  // of the step
  };
  // `lie_alike`: LieAlike, of their jobs.
  UnevenCopies(const Of& a, const Of& b, bool lie_alike);
  // A pair of one shape.
  void Add(const Group& left, const Group& right, RecordIds ids);
  // After the last of the step, and after all else that is lost.
  void Finish(OpenedPair* opened);

 private:
  struct Pair {
    const Group* left = nullptr;
    const Group* right = nullptr;
    RecordIds ids;
  };
  struct Held {                                   // by a pass
    std::unordered_set<std::string> modules;      // of which it holds something
    std::unordered_set<std::string> ran;          // of which it has a call, or what one gave
    std::map<Role, std::set<std::string>> dealt;  // parameters, and their gradients
  };
  struct Side {
    explicit Side(const Of& of);

    const JobSide* const job;
    const JobStep* const step;
    const bool is_of_places;                      // 2 applies
    const std::vector<int32_t> absent;            // have no pass of the step, though they took part
    std::map<int32_t, uint32_t> pass_of;          // by rank
    std::map<uint32_t, Held> held;                // by pass, as asked for
    std::set<std::pair<uint64_t, int32_t>> told;  // tensor and rank
    std::map<std::tuple<Role, uint32_t, uint32_t>, bool> holds_all;  // HoldsAllOf

    const Held& HeldBy(uint32_t pass);
    bool HoldsModuleOf(const Member& member, uint32_t pass);
    // Whether a pass holds some of this role, and the witness all that it holds: no owner alone.
    bool HoldsAllOf(Role role, uint32_t witness, uint32_t pass);
    // Of what the same rank of the other side holds.
    bool OughtToHold(const Group& group, uint32_t pass);
    std::vector<int32_t> RanksOf(const Group& group) const;
    LostCopy::How HowOf(int32_t rank) const;
  };
  std::vector<int32_t> LackedBySame(const std::vector<int32_t>& own,
                                    const std::vector<int32_t>& others, const Group& group,
                                    Side* side) const;
  static std::vector<int32_t> LackedByPlace(const Group& group, Side* side);
  static bool IsMissedByPlace(const Group& group, uint32_t pass, Side* side);

  Side a_, b_;
  const bool lie_alike_;
  std::vector<Pair> pairs_;
};

}  // namespace tdump::compare
