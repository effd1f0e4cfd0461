#include "coordinator/ownership.h"

#include <charconv>
#include <optional>
#include <string_view>

namespace tdump::coordinator {
namespace {

struct Owner {
  ProcessId process;
  std::string torchrun_rank;
};

template <class Integer>
bool Take(std::string_view* text, Integer* value) {
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *value);
  if (error != std::errc() || end == text->data()) return false;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return true;
}

std::optional<Owner> ParseOwner(std::string_view text) {
  Owner owner;
  if (!Take(&text, &owner.process.pid) || !text.starts_with(':')) return {};
  text.remove_prefix(1);
  if (!Take(&text, &owner.process.start)) return {};
  if (text.starts_with(':')) owner.torchrun_rank = std::string(text.substr(1));
  return owner;
}

// What torchrun says of a worker: its rank and attempt. Empty where RANK is not set.
std::string TorchrunRank(const Environment& environment) {
  auto rank = environment.find("RANK");
  if (rank == environment.end()) return {};
  std::string text = rank->second;
  auto restart = environment.find("TORCHELASTIC_RESTART_COUNT");
  if (restart != environment.end()) text += "/" + restart->second;
  return text;
}

}  // namespace

ActivationDecision DecideActivation(const Environment& environment, const ProcessId& self,
                                    BoundaryKind trigger,
                                    const std::function<bool(const ProcessId&)>& is_alive) {
  using Kind = ActivationDecision::Kind;
  const std::string disable = ValueOf(environment, "TDUMP_DISABLE");
  if (!disable.empty() && disable != "0") return {Kind::kOff, "TDUMP_DISABLE=" + disable};
  const std::string mark = ValueOf(environment, kOwnerVariable);
  if (mark.empty()) return {Kind::kActive, "no owner"};
  const std::optional<Owner> owner = ParseOwner(mark);
  if (!owner) return {Kind::kActive, "TDUMP_OWNER='" + mark + "' is not PID:START"};
  if (owner->process == self) return {Kind::kActive, "owner itself"};
  if (!is_alive(owner->process)) return {Kind::kActive, "owner has ended"};
  if (trigger == BoundaryKind::kProcessGroup) return {Kind::kActive, "joined a process group"};
  if (trigger == BoundaryKind::kMpiInit) return {Kind::kActive, "joined MPI"};
  const std::string rank = TorchrunRank(environment);
  if (!rank.empty() && rank != owner->torchrun_rank)
    return {Kind::kActive, "new RANK from torchrun"};
  return {Kind::kInert,
          "started by process " + std::to_string(owner->process.pid) + ", which tdump observes"};
}

std::string OwnerMark(const Environment& environment, const ProcessId& self) {
  std::string mark = std::to_string(self.pid) + ":" + std::to_string(self.start);
  const std::string rank = TorchrunRank(environment);
  return rank.empty() ? mark : mark + ":" + rank;
}

}  // namespace tdump::coordinator
