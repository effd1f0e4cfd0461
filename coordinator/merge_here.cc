#include "coordinator/merge_here.h"

#include <optional>
#include <string>

#include "coordinator/process_facts.h"
#include "coordinator/slot_file.h"

namespace tdump::coordinator {
namespace {

std::optional<bool> RunsHere(const io::IdentitySection& identity, const std::string& this_host) {
  if (identity.host != this_host || identity.start_time == 0) return std::nullopt;
  return IsAlive({identity.pid, identity.start_time});
}

std::optional<uint64_t> StepsEnded(Env* env, const io::PassStore& store,
                                   const io::ProcessEntry& process) {
  const auto slot = SlotReader::Open(env, SlotPath(store.run(), process.directory));
  // On its way out no step begins any more.
  if (!slot.ok() || slot->pulse().state != SlotState::kRunning) return std::nullopt;
  return slot->pulse().steps;
}

bool HasEnded(Env* env, const io::PassStore& store, const io::ProcessEntry& process) {
  const auto slot = SlotReader::Open(env, SlotPath(store.run(), process.directory));
  return slot.ok() && slot->pulse().state == SlotState::kClosed;
}

}  // namespace

MergeOptions MergeOptionsHere(Env* env) {
  const std::string host = CurrentFacts().host;
  return {.is_running =
              [host](const io::IdentitySection& identity) { return RunsHere(identity, host); },
          .steps_ended =
              [env](const io::PassStore& store, const io::ProcessEntry& process) {
                return StepsEnded(env, store, process);
              },
          .has_ended =
              [env](const io::PassStore& store, const io::ProcessEntry& process) {
                return HasEnded(env, store, process);
              }};
}

}  // namespace tdump::coordinator
