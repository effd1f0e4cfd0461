#include "compare/run_side.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "compare/dequantised.h"
#include "core/text.h"

namespace tdump::compare {
namespace {

bool HasRank(const io::RunIndex& index, int32_t rank) {
  return rank >= 0 && rank < static_cast<int32_t>(index.ranks.size());
}

// "rank 2 was not captured, only ranks 0-1"; "" of one that was, or where none says so.
std::string NotSelectedText(const io::RunIndex& index, const io::RankState& state) {
  if (state.selected || state.processes.empty()) return "";
  std::vector<uint64_t> selected;
  for (const io::RankState& other : index.ranks) {
    if (other.selected) selected.push_back(static_cast<uint64_t>(other.rank));
  }
  if (selected.empty()) return "";
  const char* const plural = selected.size() == 1 ? "" : "s";
  return fmt::format("rank {} was not captured, only rank{} {}", state.rank, plural,
                     RangesText(std::move(selected)));
}

}  // namespace

CapturedRun::CapturedRun(const io::PassStore* store, const io::RunIndex* index,
                         std::optional<int32_t> rank, std::string label)
    : store_(store),
      index_(index),
      rank_(rank),
      label_(std::move(label)),
      uses_(std::make_shared<OperatorUses>()) {
  std::map<std::tuple<int32_t, uint32_t, uint64_t, bool>, uint32_t> seen;
  for (size_t i = 0; i < index->passes.size(); ++i) {
    const io::IndexedPass& indexed = index->passes[i];
    const io::ProcessEntry& process = store->processes()[indexed.process];
    const io::PassEntry& entry = process.passes[indexed.pass];
    if (entry.file.empty()) continue;  // never written: the disk was full, and the like
    PassRef pass;
    pass.rank = process.identity.rank;
    pass.process = process.identity.process;
    pass.step = indexed.global_step;
    pass.agreed = indexed.agreed;
    pass.extra = indexed.extra;
    pass.nth = seen[{pass.rank, pass.process, pass.step, pass.extra}]++;
    pass.part = entry.part;
    pass.index = i;
    last_[pass.rank] = passes_.size();
    passes_.push_back(pass);
  }
}

SideInfo CapturedRun::Describe() const {
  return {.label = label_,
          .run = index_->run,
          .generation = index_->generation,
          .world = index_->world,
          .job = index_->job_label,
          .holes = index_->holes};
}

RunFacts CapturedRun::Facts() const {
  for (const io::RankState& state : index_->ranks) {
    if (state.processes.empty() || (rank_ && state.rank != *rank_)) continue;
    const io::IdentitySection& identity = store_->processes()[state.processes.front()].identity;
    return {.program = identity.program,
            .versions = identity.versions,
            .config_hash = identity.config_hash,
            .boundary = identity.boundary};
  }
  return {};
}

Result<std::unique_ptr<StepView>> CapturedRun::Open(const PassRef& pass) const {
  const io::IndexedPass& indexed = index_->passes[pass.index];
  const io::ProcessEntry& process = store_->processes()[indexed.process];
  TDUMP_ASSIGN_OR_RETURN(auto reader, store_->OpenPass(process, process.passes[indexed.pass]));
  return DequantisedView::Wrap(std::make_unique<OnePass>(std::move(reader), pass.part));
}

Result<io::PassDigest> CapturedRun::DigestOf(const PassRef& pass) const {
  const io::IndexedPass& indexed = index_->passes[pass.index];
  const io::ProcessEntry& process = store_->processes()[indexed.process];
  return store_->Digest(process, process.passes[indexed.pass]);
}

OperatorUse CapturedRun::UseOf(const PassRef& pass, const Key& key) const {
  return uses_->Of(store_->processes()[index_->passes[pass.index].process], key);
}

bool CapturedRun::IsLost(int32_t rank) const {
  if (!HasRank(*index_, rank) || (rank_ && *rank_ != rank)) return false;
  const io::RankState& state = index_->ranks[static_cast<size_t>(rank)];
  return !state.closed && NotSelectedText(*index_, state).empty();
}

std::optional<KilledState> CapturedRun::KilledStateOf(int32_t rank) const {
  if (!HasRank(*index_, rank) || (rank_ && *rank_ != rank)) return std::nullopt;
  const io::RankState& state = index_->ranks[static_cast<size_t>(rank)];
  if (!state.killed) return std::nullopt;
  KilledState killed{.how = state.how, .last = std::nullopt};
  const auto last = last_.find(rank);
  if (last == last_.end()) return killed;
  killed.last = passes_[last->second];
  // Another process of the rank went on, and ended.
  if (store_->processes()[index_->passes[killed.last->index].process].close) return std::nullopt;
  return killed;
}

std::vector<io::Damage> CapturedRun::DamageOf(int32_t rank) const {
  std::vector<io::Damage> damage;
  for (const io::RankState& state : index_->ranks) {
    if (rank != kAllRanks && state.rank != rank) continue;
    for (const size_t process : state.processes) {
      const auto& more = store_->processes()[process].damage;
      damage.insert(damage.end(), more.begin(), more.end());
    }
  }
  return damage;
}

std::string CapturedRun::CoordinatesOf(int32_t rank) const {
  if (!HasRank(*index_, rank)) return "";
  const std::vector<size_t>& processes = index_->ranks[static_cast<size_t>(rank)].processes;
  return processes.empty() ? "" : store_->processes()[processes.front()].identity.coordinates;
}

std::string CapturedRun::WhyMissing(int32_t rank) const {
  if (!HasRank(*index_, rank)) return "";
  const io::RankState& state = index_->ranks[static_cast<size_t>(rank)];
  if (std::string text = NotSelectedText(*index_, state); !text.empty()) return text;
  if (state.closed) return "";
  return state.processes.empty()
             ? fmt::format("rank {} never started under tdump", rank)
             : fmt::format("rank {}: {}, last step {}", rank, state.how, state.last_step);
}

}  // namespace tdump::compare
