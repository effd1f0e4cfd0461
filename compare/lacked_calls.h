// LackedCalls: whether a rank that lacks a call of a module may lack it for its data.
//
// A module runs what is inside it: a rank without images lacks the encoder, and with it the table
// of positions that is the same for all images. So it is asked of the outermost module of which the
// rank lacks everything, from that call on: where ranks that were given other data have other
// values of anything in it, the data may be the reason; where they have the same values of all of
// it, it is none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "compare/job_step.h"

namespace tdump::compare {

// Of a step. Not thread-safe. Memory: a name for each group, once the first is asked for.
class LackedCalls {
 public:
  // It outlives them; all groups of it are there.
  void Begin(const JobStep& step);

  // Whether two passes, which have values of it, were given other data.
  using AreOther = std::function<bool(uint32_t pass, uint32_t other)>;
  // `group`: of the step, which `pass` lacks. `counts`: the passes that are looked at.
  bool IsOfNoData(const Group& group, uint32_t pass,
                  const std::function<bool(uint32_t pass)>& counts, const AreOther& are_other);

 private:
  struct Named {
    std::string name;  // micro-batch, root, path
    const Group* group = nullptr;
  };
  // What is inside a module, from the n-th call of each on, for a pass that may lack it.
  struct Part {
    size_t begin = 0, end = 0;  // of by_name_
    uint64_t from_call = 0;
    uint32_t pass = 0;
    auto operator<=>(const Part&) const = default;
  };
  void Sort();
  Part Outermost(const Group& group, uint32_t pass);
  bool IsLacked(const Part& part);
  bool AreAllSame(Part part);
  template <class Visit>
  bool AllOf(const Part& part, const Visit& visit) const;

  const JobStep* step_ = nullptr;
  std::vector<Named> by_name_;
  std::map<Part, bool> is_lacked_, is_of_no_data_;  // as asked for
};

}  // namespace tdump::compare
