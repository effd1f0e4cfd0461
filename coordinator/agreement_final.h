// The last word on step numbers. While a job runs nobody waits for an answer, so
// the numbers of its last steps are still open when it ends. Afterwards the slot
// files hold what every process reported:
//
//   1. The reports of all ranks are aligned once more (StepAligner), now with nothing to wait for.
//   2. A rank that, its extra steps counted, ran no more steps than most of the others ran no extra
//      one: it was in another mode, or ahead, or had been held up. It keeps its order. Of one that
//      was cut short only extra steps that the begin times told are dropped so.
//   3. A rank that ran more steps than the others: those of other calls are extra where taking them
//      out leaves as many as the others ran. Else, where its recorded tensors equal those of
//      another rank once the surplus is taken out in one way, that way is right. Where they do not,
//      its steps beyond theirs stay unagreed.
//   4. What differs from a process's manifest goes into `steps.tdm` beside it (the same format;
//      appears by rename). Readers take it after the manifest: the later entry wins.
// May be done at any time and again; while ranks still run, their steps stay open.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "coordinator/step_aligner.h"
#include "core/env.h"
#include "core/status.h"
#include "io/pass_store.h"

namespace tdump::coordinator {

// What one rank reported. `first` is the number of the first report that is still known.
struct StepHistory {
  int32_t rank = 0;
  std::vector<StepReport> reports;
  uint64_t extras_before = 0;                       // extra steps before the first report
  bool ended = true;                                // nothing more will come
  bool finished = true;                             // it was not cut short
  std::function<uint64_t(uint64_t local)> content;  // of a recorded step; 0: not known
};

struct FinalSteps {
  std::vector<ExtraStep> extras;
  uint64_t settled = 0;            // global steps below are
  uint64_t usual = 0;              // steps that most ranks ran, once all have ended
  std::vector<int32_t> uncertain;  // ranks that ran more, and nothing tells which were extra
};

FinalSteps AlignHistories(const std::vector<StepHistory>& histories, int32_t world, bool lockstep);

// All of the above for one generation of a run. `ended`: whether a process is over.
Status SettleRun(Env* env, const io::PassStore& store, uint32_t generation,
                 const std::function<bool(const io::ProcessEntry&)>& ended);

}  // namespace tdump::coordinator
