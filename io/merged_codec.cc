#include "io/merged_codec.h"

#include <fmt/format.h>

#include <utility>

#include "io/archive.h"
#include "io/merged_sections.h"

namespace tdump::io {
namespace {

constexpr uint8_t Flag(bool set, uint8_t bit) { return set ? bit : 0; }

MergedRunSection HeadOf(const RunIndex& index) {
  MergedRunSection head;
  head.generation = index.generation;
  head.job_key = index.job_key;
  head.job_label = index.job_label;
  head.world = index.world;
  head.boundary = index.boundary;
  head.transport = index.transport;
  head.rank_source = index.rank_source;
  head.max_lag = index.max_lag;
  head.steps_seen = index.steps_seen;
  head.bytes = index.bytes;
  head.files = index.files;
  return head;
}

void Take(MergedRunSection&& head, RunIndex* index) {
  index->generation = head.generation;
  index->job_key = std::move(head.job_key);
  index->job_label = std::move(head.job_label);
  index->world = head.world;
  index->boundary = std::move(head.boundary);
  index->transport = std::move(head.transport);
  index->rank_source = std::move(head.rank_source);
  index->max_lag = head.max_lag;
  index->steps_seen = head.steps_seen;
  index->bytes = head.bytes;
  index->files = head.files;
}

MergedRanksSection RanksOf(const RunIndex& index) {
  MergedRanksSection section;
  for (const RankState& state : index.ranks) {
    MergedRank& rank = section.ranks.emplace_back();
    rank.rank = state.rank;
    rank.processes.assign(state.processes.begin(), state.processes.end());
    rank.flags = Flag(state.selected, 1) | Flag(state.closed, 2) | Flag(state.lost, 4);
    rank.last_step = state.last_step;
    rank.how = state.how;
  }
  return section;
}

Status Take(MergedRanksSection&& section, uint64_t processes, RunIndex* index) {
  for (MergedRank& rank : section.ranks) {
    RankState& state = index->ranks.emplace_back();
    state.rank = rank.rank;
    for (uint64_t process : rank.processes) {
      if (process >= processes)
        return Corrupt(fmt::format("processes: {} of {}", process, processes));
      state.processes.push_back(process);
    }
    state.selected = (rank.flags & 1) != 0;
    state.closed = (rank.flags & 2) != 0;
    state.lost = (rank.flags & 4) != 0;
    state.last_step = rank.last_step;
    state.how = std::move(rank.how);
  }
  return Status::Ok();
}

MergedPassesSection PassesOf(const RunIndex& index) {
  MergedPassesSection section;
  for (const IndexedPass& pass : index.passes) {
    section.passes.push_back({pass.process, pass.pass, pass.local_step, pass.global_step,
                              static_cast<uint8_t>(Flag(pass.agreed, 1) | Flag(pass.extra, 2))});
  }
  return section;
}

Status Take(const MergedPassesSection& section, uint64_t processes, RunIndex* index) {
  for (const MergedPass& pass : section.passes) {
    if (pass.process >= processes)
      return Corrupt(fmt::format("process: {} of {}", pass.process, processes));
    index->passes.push_back({.process = pass.process,
                             .pass = pass.pass,
                             .local_step = pass.local_step,
                             .global_step = pass.global_step,
                             .agreed = (pass.flags & 1) != 0,
                             .extra = (pass.flags & 2) != 0});
  }
  return Status::Ok();
}

MergedOperatorsSection OperatorsOf(const RunIndex& index) {
  MergedOperatorsSection section;
  for (const OperatorCoverage& op : index.operators) {
    section.operators.push_back({op.name, op.cls, static_cast<uint8_t>(op.kind), op.ranks_expected,
                                 op.ranks_called, op.calls, op.records, op.not_kept});
  }
  return section;
}

void Take(MergedOperatorsSection&& section, RunIndex* index) {
  for (MergedOperator& op : section.operators) {
    index->operators.push_back({.name = std::move(op.name),
                                .cls = std::move(op.cls),
                                .kind = static_cast<OperatorKind>(op.kind),
                                .ranks_expected = op.ranks_expected,
                                .ranks_called = op.ranks_called,
                                .calls = op.calls,
                                .records = op.records,
                                .not_kept = op.not_kept});
  }
}

MergedOverwrittenSection OverwrittenOf(const RunIndex& index) {
  MergedOverwrittenSection section;
  for (size_t place = 0; place < index.operators.size(); ++place) {
    if (const uint64_t records = index.operators[place].overwritten; records != 0)
      section.operators.push_back({place, records});
  }
  return section;
}

Status Take(const MergedOverwrittenSection& section, RunIndex* index) {
  for (const MergedOverwritten& op : section.operators) {
    if (op.place >= index->operators.size())
      return Corrupt(fmt::format("place: {} of {} operators", op.place, index->operators.size()));
    index->operators[op.place].overwritten = op.records;
  }
  return Status::Ok();
}

MergedRulesSection RulesOf(const RunIndex& index) {
  MergedRulesSection section;
  for (const RuleCoverage& rule : index.rules)
    section.rules.push_back({rule.rule, rule.near_names});
  return section;
}

void Take(MergedRulesSection&& section, RunIndex* index) {
  for (MergedRule& rule : section.rules)
    index->rules.push_back({std::move(rule.rule), std::move(rule.near_names)});
}

MergedFindingsSection FindingsOf(const RunIndex& index) {
  MergedFindingsSection section;
  for (const auto& [why, records] : index.not_kept) section.not_kept.push_back({why, records});
  section.notes = index.notes;
  for (const Damage& damage : index.damage)
    section.damage.push_back({damage.file, damage.offset, damage.what});
  section.holes = index.holes;
  return section;
}

void Take(MergedFindingsSection&& section, RunIndex* index) {
  for (MergedNotKept& entry : section.not_kept)
    index->not_kept.emplace_back(std::move(entry.why), entry.records);
  index->notes = std::move(section.notes);
  for (MergedDamage& d : section.damage)
    index->damage.push_back({std::move(d.file), d.offset, std::move(d.what)});
  index->holes = std::move(section.holes);
}

}  // namespace

std::string EncodeRunIndex(const RunIndex& index) {
  std::string body;
  AppendSection(HeadOf(index), &body);
  AppendSection(RanksOf(index), &body);
  AppendSection(PassesOf(index), &body);
  AppendSection(OperatorsOf(index), &body);
  if (const auto section = OverwrittenOf(index); !section.operators.empty())
    AppendSection(section, &body);
  AppendSection(RulesOf(index), &body);
  AppendSection(FindingsOf(index), &body);
  return body;
}

Status DecodeRunIndex(std::span<const std::byte> body, bool swapped, uint64_t processes,
                      RunIndex* index) {
  SectionCursor cursor(body, swapped);
  while (cursor.Next()) {
    switch (cursor.id()) {
      case MergedRunSection::kId: {
        TDUMP_ASSIGN_OR_RETURN(auto section, cursor.Decode<MergedRunSection>());
        Take(std::move(section), index);
        break;
      }
      case MergedRanksSection::kId: {
        TDUMP_ASSIGN_OR_RETURN(auto section, cursor.Decode<MergedRanksSection>());
        TDUMP_RETURN_IF_ERROR(Take(std::move(section), processes, index));
        break;
      }
      case MergedPassesSection::kId: {
        TDUMP_ASSIGN_OR_RETURN(const auto section, cursor.Decode<MergedPassesSection>());
        TDUMP_RETURN_IF_ERROR(Take(section, processes, index));
        break;
      }
      case MergedOperatorsSection::kId: {
        TDUMP_ASSIGN_OR_RETURN(auto section, cursor.Decode<MergedOperatorsSection>());
        Take(std::move(section), index);
        break;
      }
      case MergedOverwrittenSection::kId: {
        TDUMP_ASSIGN_OR_RETURN(const auto section, cursor.Decode<MergedOverwrittenSection>());
        TDUMP_RETURN_IF_ERROR(Take(section, index));
        break;
      }
      case MergedRulesSection::kId: {
        TDUMP_ASSIGN_OR_RETURN(auto section, cursor.Decode<MergedRulesSection>());
        Take(std::move(section), index);
        break;
      }
      case MergedFindingsSection::kId: {
        TDUMP_ASSIGN_OR_RETURN(auto section, cursor.Decode<MergedFindingsSection>());
        Take(std::move(section), index);
        break;
      }
      default:
        break;
    }
  }
  TDUMP_RETURN_IF_ERROR(cursor.status());
  if (index->world < 0 || static_cast<uint64_t>(index->world) != index->ranks.size())
    return Corrupt(fmt::format("world: {}, of {} ranks", index->world, index->ranks.size()));
  return Status::Ok();
}

}  // namespace tdump::io
