#include "launch/runtime/farewell.h"

#include <chrono>
#include <set>
#include <thread>

#include <fmt/format.h>

#include "coordinator/agreement_final.h"
#include "coordinator/coverage_text.h"
#include "coordinator/merge_here.h"
#include "coordinator/process_facts.h"
#include "coordinator/transport_file.h"
#include "core/text.h"
#include "io/merged_manifest.h"
#include "io/pass_store.h"
#include "launch/runtime/terminal.h"

namespace tdump::launch {
namespace {

constexpr int64_t kWaitNs = 1'000'000'000;
// A process that goes from step to step tells of them more often than that
// (AgreementOptions::pace_ns).
constexpr int64_t kPulseNs = 100'000'000;
constexpr auto kBetweenLooks = std::chrono::milliseconds(20);
// Merging reads every manifest: beyond this many ranks it is left to the tools.
constexpr int32_t kMostRanksMerged = 256;

struct Others {
  int running = 0;   // alive, not on their way out
  int far_away = 0;  // of these, more than a step behind, as far as they told of late
  int leaving = 0;
  int seen = 0;  // ranks, in whatever state
  bool all_closed() const { return running == 0 && leaving == 0; }
};

// A process of another host is taken for alive.
bool Alive(const coordinator::SlotHeader& header, const std::string& host) {
  if (host.substr(0, sizeof header.host - 1) != header.host) return true;
  return coordinator::IsAlive({header.pid, header.start_time});
}

Others LookAround(Env* env, const FarewellFacts& facts, coordinator::SlotDirectory* directory) {
  directory->Refresh();
  Others others;
  for (auto& [rank, reader] : directory->ranks()) {
    if (rank == facts.identity.rank) continue;
    ++others.seen;
    (void)reader.Refresh();
    reader.Rest();
    const coordinator::SlotPulse& pulse = reader.pulse();
    if (pulse.state == coordinator::SlotState::kClosed) continue;
    if (!Alive(reader.header(), facts.identity.host)) continue;
    if (pulse.state == coordinator::SlotState::kExiting) {
      ++others.leaving;
    } else {
      ++others.running;
      const bool behind = pulse.steps + 1 < facts.steps;
      others.far_away += behind && env->WallNs() - pulse.time_ns > kPulseNs ? 1 : 0;
    }
  }
  return others;
}

// kAlreadyExists: another process gives the verdict.
Status Claim(Env* env, const FarewellFacts& facts, int seen) {
  const std::string path =
      JoinPath(facts.clock, fmt::format("verdict_{}_{}", facts.generation, seen));
  return env->CreateExclusive(path, 0600).status();
}

bool HasEnded(const io::ProcessEntry& process) {
  return process.close.has_value() ||
         !coordinator::IsAlive({process.identity.pid, process.identity.start_time});
}

// A disk that is full takes neither step numbers nor the merged manifest, and
// the verdict is given all the same.
Status Conclude(Env* env, const FarewellFacts& facts) {
  Status settled;
  {
    TDUMP_ASSIGN_OR_RETURN(const auto store, io::PassStore::Open(env, facts.run));
    settled = coordinator::SettleRun(env, *store, facts.generation, HasEnded);
  }
  TDUMP_ASSIGN_OR_RETURN(const auto store, io::PassStore::Open(env, facts.run));
  const auto indexes = coordinator::BuildRunIndexes(*store, coordinator::MergeOptionsHere(env));
  for (const io::RunIndex& index : indexes) {
    if (index.generation == facts.generation)
      Print(coordinator::CoverageText(*store, index, {.shown = facts.shown}));
  }
  const Status merged = io::WriteMergedManifest(env, *store, indexes);
  return settled.ok() ? merged : settled;
}

// Rank 0 leaves last where that takes no more than a second, so that it can give the verdict.
void WaitForOthers(Env* env, const FarewellFacts& facts, coordinator::SlotDirectory* directory) {
  const int64_t end = env->MonotonicNs() + kWaitNs;
  while (env->MonotonicNs() < end) {
    const Others others = LookAround(env, facts, directory);
    const bool all_seen = others.seen + 1 >= facts.identity.world;
    if ((others.all_closed() && all_seen) || others.far_away != 0) return;
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

void GiveVerdict(Env* env, const FarewellFacts& facts, const Others& others) {
  if (facts.identity.world > kMostRanksMerged) return;
  const Status claimed = Claim(env, facts, others.seen);
  if (claimed.code() == StatusCode::kAlreadyExists) return;
  if (claimed.code() == StatusCode::kNotFound) {
    TellUser(fmt::format("no verdict, the run is not there any more: {}", claimed.message()));
    return;
  }
  const Status status = Conclude(env, facts);
  if (!status.ok()) {
    TellUser(fmt::format("the run is not merged: {}; when that is mended: tdump-merge {}",
                         status.message(), ShellWord(facts.shown)));
  }
  if (const int unseen = facts.identity.world - 1 - others.seen; unseen > 0) {
    TellUser(
        fmt::format("{} of {} ranks not seen so far; should they still come, the last one gives "
                    "the verdict anew",
                    unseen, facts.identity.world));
  }
}

void TellWhoStillRuns(const FarewellFacts& facts, const Others& others) {
  const int count = others.running + others.leaving;
  TellUser(fmt::format(
      "rank 0 is done, {}; the last one gives the verdict, or: tdump-view {}",
      count == 1 ? "another rank still runs" : fmt::format("{} others still run", count),
      ShellWord(facts.shown)));
}

}  // namespace

void SayFarewell(Env* env, const FarewellFacts& facts, coordinator::SlotWriter* slots) {
  coordinator::SlotDirectory directory(env, facts.clock, facts.generation);
  if (facts.identity.rank == 0) WaitForOthers(env, facts, &directory);
  (void)slots->SetState(coordinator::SlotState::kClosed);
  const Others others = LookAround(env, facts, &directory);
  if (others.all_closed())
    GiveVerdict(env, facts, others);
  else if (facts.identity.rank == 0)
    TellWhoStillRuns(facts, others);
}

}  // namespace tdump::launch
