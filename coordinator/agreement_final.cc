#include "coordinator/agreement_final.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "coordinator/hash64.h"
#include "coordinator/slot_file.h"
#include "io/manifest_writer.h"

namespace tdump::coordinator {
namespace {

constexpr uint8_t kAgreed = 1, kExtra = 2, kRecorded = 4;  // StepMapSection::flags
constexpr size_t kRecordsLookedAt = 256;                   // of one pass
constexpr const char* kStepsName = "steps.tdm";

// What the numbers of steps say of single ranks.
struct Known {
  std::set<int32_t> keep_order;
  std::set<int32_t> by_shape;
};

FinalSteps Align(const std::vector<StepHistory>& histories, int32_t world, bool by_time,
                 const Known& known) {
  StepAligner aligner(world, {.by_time = by_time});
  for (int32_t rank : known.keep_order) aligner.KeepOrder(rank);
  for (int32_t rank : known.by_shape) aligner.TakeOutOtherShapes(rank);
  std::vector<uint64_t> before(static_cast<size_t>(std::max(world, 1)));
  std::set<int32_t> present;
  uint64_t first = ~uint64_t{0};
  for (const StepHistory& history : histories) {
    present.insert(history.rank);
    if (history.rank < 0 || history.rank >= world || history.reports.empty()) continue;
    before[static_cast<size_t>(history.rank)] = history.extras_before;
    first = std::min(first, history.reports.front().local - history.extras_before);
  }
  if (first == ~uint64_t{0}) return {};
  aligner.ContinueFrom(first, before);
  for (int32_t rank = 0; rank < world; ++rank) {
    if (!present.contains(rank)) aligner.Leave(rank);
  }
  for (const StepHistory& history : histories) {
    for (const StepReport& report : history.reports) aligner.Report(history.rank, report, 0);
    if (history.ended) aligner.Leave(history.rank);
  }
  FinalSteps result;
  result.extras = aligner.Advance(0).extras;
  result.settled = aligner.columns();
  return result;
}

uint64_t ExtrasOf(const FinalSteps& steps, int32_t rank) {
  return static_cast<uint64_t>(
      std::count_if(steps.extras.begin(), steps.extras.end(),
                    [rank](const ExtraStep& extra) { return extra.rank == rank; }));
}

// Steps of a rank that are not extra.
uint64_t OrdinarySteps(const StepHistory& history, const FinalSteps& steps) {
  if (history.reports.empty()) return 0;
  return history.reports.back().local + 1 - history.extras_before - ExtrasOf(steps, history.rank);
}

// The number of steps that most ranks ran to their end; of several the smallest.
uint64_t UsualSteps(const std::vector<StepHistory>& histories, const FinalSteps& steps) {
  std::map<uint64_t, int> counts;
  for (const StepHistory& history : histories) ++counts[OrdinarySteps(history, steps)];
  const auto most =
      std::max_element(counts.begin(), counts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return most->first;
}

bool AllEnded(const std::vector<StepHistory>& histories) {
  return std::all_of(histories.begin(), histories.end(),
                     [](const StepHistory& history) { return history.ended; });
}

// The steps of `more` that must go so that the rest has the contents of `usual`, step by step.
std::optional<std::vector<uint64_t>> SurplusByContent(const StepHistory& more,
                                                      const StepHistory& usual) {
  std::vector<uint64_t> surplus;
  size_t at = 0;
  size_t equal = 0;
  for (const StepReport& report : more.reports) {
    const uint64_t content = more.content ? more.content(report.local) : 0;
    const uint64_t other =
        at < usual.reports.size() && usual.content ? usual.content(usual.reports[at].local) : 0;
    if (at < usual.reports.size() && (content == other || content == 0 || other == 0)) {
      equal += content != 0 && content == other ? 1 : 0;
      ++at;
    } else {
      surplus.push_back(report.local);
    }
  }
  if (at != usual.reports.size() || equal < 2) return {};
  return surplus;
}

// Several steps behind all that another rank ran: that one ended early, and they are the steps of
// the ranks that went on.
bool CameAfterwards(const std::vector<uint64_t>& surplus, const StepHistory& history) {
  const size_t before = history.reports.size() - surplus.size();
  return surplus.size() > 1 && surplus.front() == history.reports[before].local;
}

void ExplainByContent(const std::vector<StepHistory>& histories, FinalSteps* steps) {
  const uint64_t usual = UsualSteps(histories, *steps);
  steps->usual = usual;
  for (const StepHistory& history : histories) {
    const uint64_t ordinary = OrdinarySteps(history, *steps);
    if (ordinary <= usual) continue;
    const uint64_t already = ExtrasOf(*steps, history.rank);
    std::optional<std::vector<uint64_t>> surplus;
    for (const StepHistory& other : histories) {
      if (already != 0 || OrdinarySteps(other, *steps) != usual) continue;
      surplus = SurplusByContent(history, other);
      if (surplus && surplus->size() == ordinary - usual) break;
      surplus.reset();
    }
    if (!surplus) {
      steps->uncertain.push_back(history.rank);
      continue;
    }
    if (CameAfterwards(*surplus, history)) continue;
    for (uint64_t local : *surplus) steps->extras.push_back({history.rank, local, false});
  }
}

uint64_t MostSteps(const std::vector<StepHistory>& histories, const FinalSteps& steps) {
  uint64_t most = 0;
  for (const StepHistory& history : histories) most = std::max(most, OrdinarySteps(history, steps));
  return most;
}

uint64_t ExtrasByTime(const FinalSteps& steps, int32_t rank) {
  return static_cast<uint64_t>(std::count_if(
      steps.extras.begin(), steps.extras.end(),
      [rank](const ExtraStep& extra) { return extra.rank == rank && extra.by_time; }));
}

// Adds the ranks that, with all their steps counted, ran no more than most of the others: none of
// their steps was extra. What times alone told of the others counts for nothing. False: there is no
// other such rank.
bool AddThoseThatRanNoMore(const std::vector<StepHistory>& histories, const FinalSteps& steps,
                           std::set<int32_t>* keep_order) {
  const auto own = [&](const StepHistory& history) {
    return OrdinarySteps(history, steps) + ExtrasByTime(steps, history.rank);
  };
  std::map<uint64_t, int> counts;
  for (const StepHistory& history : histories) ++counts[own(history)];
  const size_t before = keep_order->size();
  for (const StepHistory& history : histories) {
    const uint64_t extras = ExtrasOf(steps, history.rank);
    const uint64_t by_time = ExtrasByTime(steps, history.rank);
    if (extras == 0 || (by_time == 0 && !history.finished)) continue;
    int& with_it = counts[own(history)];
    --with_it;
    const auto most =
        std::max_element(counts.begin(), counts.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most->second > 0 && OrdinarySteps(history, steps) + extras <= most->first)
      keep_order->insert(history.rank);
    ++with_it;
  }
  return keep_order->size() > before;
}

// Ranks that ran more than the others, by what they called in their steps.
void ExplainByShape(const std::vector<StepHistory>& histories, int32_t world, bool lockstep,
                    Known known, FinalSteps* steps) {
  const uint64_t usual = UsualSteps(histories, *steps);
  for (const StepHistory& history : histories) {
    if (OrdinarySteps(history, *steps) > usual) known.by_shape.insert(history.rank);
  }
  if (known.by_shape.empty()) return;
  FinalSteps other = Align(histories, world, lockstep, known);
  if (MostSteps(histories, other) == usual) *steps = std::move(other);
}

}  // namespace

FinalSteps AlignHistories(const std::vector<StepHistory>& histories, int32_t world, bool lockstep) {
  Known known;
  FinalSteps steps = Align(histories, world, lockstep, known);
  if (histories.empty() || !AllEnded(histories)) return steps;
  while (AddThoseThatRanNoMore(histories, steps, &known.keep_order))
    steps = Align(histories, world, lockstep, known);
  ExplainByShape(histories, world, lockstep, known, &steps);
  ExplainByContent(histories, &steps);
  return steps;
}

namespace {

// A hash of names and payload hashes of the first records of a pass, in order; 0 without hashes.
uint64_t ContentOf(const io::PassStore& store, const io::ProcessEntry& process,
                   const io::PassEntry& pass) {
  const auto reader = store.OpenPass(process, pass);
  if (!reader.ok()) return 0;
  uint64_t content = 0;
  size_t looked_at = 0;
  const Status status = (*reader)->ForEachRecord([&](const io::Record& record) {
    if (!record.hash || record.key.role != Role::kOutput) return true;
    const std::string_view hash(reinterpret_cast<const char*>(record.hash->data()),
                                record.hash->size());
    content = Hash64(hash, Hash64(record.key.path, content));
    return ++looked_at < kRecordsLookedAt;
  });
  return status.ok() ? content : 0;
}

struct Member {
  const io::ProcessEntry* process = nullptr;
  StepHistory history;
  bool lockstep = false;
};

uint64_t ExtrasBefore(const io::ProcessEntry& process, uint64_t local) {
  return static_cast<uint64_t>(std::count_if(
      process.steps.begin(), process.steps.end(), [local](const io::StepMapSection& step) {
        return step.local_step < local && (step.flags & kExtra) != 0;
      }));
}

Result<Member> ReadMember(Env* env, const io::PassStore& store, const io::ProcessEntry& process) {
  Member member;
  member.process = &process;
  TDUMP_ASSIGN_OR_RETURN(SlotReader reader,
                         SlotReader::Open(env, SlotPath(store.run(), process.directory)));
  std::vector<AgreementMessage> messages;
  TDUMP_RETURN_IF_ERROR(reader.Read(&messages));
  member.lockstep = reader.pulse().lockstep != 0;
  StepHistory& history = member.history;
  history.rank = process.identity.rank;
  for (const AgreementMessage& message : messages) {
    if (message.kind == AgreementMessage::Kind::kReport && message.rank == history.rank)
      history.reports.push_back(StepReportOf(message));
  }
  if (!history.reports.empty())
    history.extras_before = ExtrasBefore(process, history.reports.front().local);
  const auto known = std::make_shared<std::map<uint64_t, uint64_t>>();
  history.content = [&store, &process, known](uint64_t local) -> uint64_t {
    const auto [content, fresh] = known->try_emplace(local, 0);
    for (const io::PassEntry& pass : process.passes) {
      if (fresh && pass.info.local_step == local) content->second = ContentOf(store, process, pass);
    }
    return content->second;
  };
  return member;
}

// The entries of one process that differ from what its manifest says.
std::vector<io::StepMapSection> NewEntries(const Member& member, const FinalSteps& steps) {
  std::set<uint64_t> extras, recorded;
  for (const ExtraStep& extra : steps.extras) {
    if (extra.rank == member.history.rank) extras.insert(extra.local);
  }
  for (const io::PassEntry& pass : member.process->passes) recorded.insert(pass.info.local_step);
  const bool uncertain =
      std::count(steps.uncertain.begin(), steps.uncertain.end(), member.history.rank) != 0;
  std::vector<io::StepMapSection> entries;
  uint64_t before = member.history.extras_before;
  for (const StepReport& report : member.history.reports) {
    const bool extra = extras.contains(report.local);
    io::StepMapSection entry;
    entry.local_step = report.local;
    entry.global_step = report.local - before;
    before += extra ? 1 : 0;
    const auto known = std::find_if(
        member.process->steps.begin(), member.process->steps.end(),
        [&](const io::StepMapSection& step) { return step.local_step == report.local; });
    const bool there = known != member.process->steps.end();
    const bool was_extra = there && (known->flags & kExtra) != 0;
    if (!extra && !was_extra && !recorded.contains(report.local)) continue;
    const bool agreed = extra || (entry.global_step < steps.settled &&
                                  !(uncertain && entry.global_step >= steps.usual));
    entry.flags = static_cast<uint8_t>((agreed ? kAgreed : 0) | (extra ? kExtra : 0) |
                                       (recorded.contains(report.local) ? kRecorded : 0));
    if (there) entry.lag = known->lag;
    if (!there || known->global_step != entry.global_step || known->flags != entry.flags)
      entries.push_back(entry);
  }
  return entries;
}

Status WriteEntries(Env* env, const io::PassStore& store, const io::ProcessEntry& process,
                    const std::vector<io::StepMapSection>& entries) {
  const std::string path = JoinPath(JoinPath(store.run(), process.directory), kStepsName);
  const std::string draft = path + ".draft" + std::to_string(env->MonotonicNs());
  io::FileHeader header;
  header.magic = io::kManifestMagic;
  header.rank = process.identity.rank;
  header.generation = process.identity.generation;
  header.pid = process.identity.pid;
  TDUMP_ASSIGN_OR_RETURN(const auto writer, io::ManifestWriter::Create(env, draft, header));
  // What an earlier settling wrote stays: `process.steps` holds it.
  for (const io::StepMapSection& step : process.steps) {
    TDUMP_RETURN_IF_ERROR(writer->Append(step));
  }
  for (const io::StepMapSection& entry : entries) {
    TDUMP_RETURN_IF_ERROR(writer->Append(entry));
  }
  return env->Rename(draft, path);
}

}  // namespace

Status SettleRun(Env* env, const io::PassStore& store, uint32_t generation,
                 const std::function<bool(const io::ProcessEntry&)>& ended) {
  std::vector<Member> members;
  std::set<int32_t> ranks;
  // Ranks that left nothing count as gone; a forged rank or world must not size a table.
  const int64_t most_ranks =
      std::max<int64_t>(1 << 16, 16 * static_cast<int64_t>(store.processes().size()));
  int32_t world = 1;
  bool lockstep = false;
  for (const io::ProcessEntry& process : store.processes()) {
    if (process.identity.generation != generation || process.directory.empty()) continue;
    if (process.identity.rank < 0 || process.identity.rank >= most_ranks) continue;
    world = std::max(world, process.identity.rank + 1);
    if (!ranks.insert(process.identity.rank).second) continue;  // the first of a rank stands for it
    auto member = ReadMember(env, store, process);
    if (!member.ok()) continue;  // a run from before, or a copy without its clock
    member->history.finished = process.close.has_value();
    member->history.ended = process.close.has_value() || ended(process);
    lockstep |= member->lockstep;
    members.push_back(std::move(member).value());
  }
  if (members.empty()) return {};
  std::vector<StepHistory> histories;
  for (const Member& member : members) histories.push_back(member.history);
  const FinalSteps steps = AlignHistories(histories, world, lockstep);
  for (const Member& member : members) {
    const auto entries = NewEntries(member, steps);
    if (entries.empty()) continue;
    TDUMP_RETURN_IF_ERROR(WriteEntries(env, store, *member.process, entries));
  }
  return {};
}

}  // namespace tdump::coordinator
