// The writer's side: ending passes, what goes to the manifest and to the user.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/key.h"
#include "io/archive.h"
#include "io/capture_writer.h"
#include "io/count_history.h"

namespace tdump::io {
namespace {

constexpr int64_t kFlushNs = 150'000'000;  // longest time that a record stays in a buffer
constexpr size_t kSectionsPerFrame = 256;
constexpr int kGiveUpAfter = 3;  // failed passes in a row
constexpr size_t kOperatorsNamed = 4;

}  // namespace

void CaptureWriter::FinishPasses() {
  for (PassSlot* pass : active_) {
    if (!PassSlots::IsClosing(*pass)) continue;
    if (PassSlots::Outstanding(*pass) != 0 &&
        state_.env->MonotonicNs() >= pass->deadline_ns.load(std::memory_order_relaxed))
      OrphanEntries(pass);
    FinishPass(pass);
  }
  const auto is_done = [](PassSlot* pass) {
    if (pass->recording != nullptr || !PassSlots::IsFinished(*pass)) return false;
    pass->busy.store(false, std::memory_order_release);
    return true;
  };
  std::erase_if(active_, is_done);
  if (active_.empty()) NoteStepsLeftOut();
}

// What was waited for long enough is written as metadata; its room comes back with its commit.
void CaptureWriter::OrphanEntries(PassSlot* pass) {
  uint64_t orphaned = 0;
  const auto orphan = [&](CaptureEntry* entry) {
    if (entry->pass != pass) return false;
    ++orphaned;
    entry->orphaned = entry->copy == nullptr;
    RecordingOf(pass)->AddOrphan(entry, &done_);
    return true;
  };
  std::erase_if(waiting_, orphan);
  GiveBackDone();
  PassSlots::Leave(pass, orphaned);
}

// False: entries of it are still to come.
bool CaptureWriter::FinishPass(PassSlot* pass) {
  if (!PassSlots::Finish(pass)) return false;
  const std::unique_ptr<PassRecording> recording((RecordingOf(pass), std::move(pass->recording)));
  state_.losses.Take(state_.operators->size(),
                     [&](OperatorId op, uint32_t count) { recording->AddLosses(op, count); });
  ReasonCounts lost{};
  for (size_t i = 0; i < kReasons; ++i) lost[i] = pass->lost[i].load(std::memory_order_relaxed);
  lost[static_cast<size_t>(SkipReason::kPassEnded)] +=
      state_.late.exchange(0, std::memory_order_relaxed);
  const PassDoneSection done =
      recording->Finish(pass->blocked_ns.load(std::memory_order_relaxed), lost, &done_);
  GiveBackDone();
  const bool listed = Check(state_.manifest->Append(done, recording->place()));
  if (state_.options.files.durability == Durability::kPass) Check(state_.manifest->Sync());
  NoteLostCalls(recording.get(), *pass);
  WriteCounts(done.ordinal, recording->AddToTallies());
  if (!listed) growth_.clear();  // no reader knows whose these were
  ChargeManifest();
  if (pass->over_share.load(std::memory_order_relaxed)) TellOverShare(*pass);
  NoteRefusal();
  failed_in_a_row_ = recording->failed() ? failed_in_a_row_ + 1 : 0;
  if (failed_in_a_row_ < kGiveUpAfter) return true;
  // What the open pass still gets is counted as lost where it cannot be written either.
  state_.last_pass = true;
  const std::string why = fmt::format("{} passes in a row could not be written", kGiveUpAfter);
  if (stopped_why_.empty()) stopped_why_ = why;
  Tell("gave up", 2, why + "; no more are tried");
  return true;
}

void CaptureWriter::TellOverShare(const PassSlot& pass) {
  Tell("max_block", 1,
       fmt::format(
           "pass {} waited {:.0f} ms for the writer, more than memory.max_block ({:.0f} % of "
           "the step): in the rest of it statistics and hash stand for tensors that find no "
           "room. Each pass has a share of its own, and this is said of the first one only. A "
           "larger memory.host or a faster disk keeps them",
           pass.info.ordinal,
           static_cast<double>(pass.blocked_ns.load(std::memory_order_relaxed)) / 1e6,
           100 * state_.options.max_block));
}

// Such a call counts as one of its operator; its records may be there.
void CaptureWriter::NoteLostCalls(PassRecording* recording, const PassSlot& pass) {
  const uint64_t calls = pass.lost_calls.load(std::memory_order_relaxed);
  if (calls == 0) return;
  std::vector<std::pair<uint32_t, OperatorId>> lost;
  state_.lost_calls.Take(state_.operators->size(), [&](OperatorId op, uint32_t count) {
    recording->AddLostCalls(op, count);
    lost.emplace_back(count, op);
  });
  std::stable_sort(lost.begin(), lost.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string of;
  for (size_t i = 0; i < std::min(lost.size(), kOperatorsNamed); ++i) {
    const OperatorInfo& info = state_.operators->Get(lost[i].second);
    of += fmt::format("{}{} of {}", i == 0 ? ": " : ", ", lost[i].first,
                      PlainName(info.root, info.path, info.op));
  }
  if (lost.size() > kOperatorsNamed)
    of += fmt::format(", the rest of {} more", lost.size() - kOperatorsNamed);
  WriteNote({1, fmt::format("pass {}: {} calls were not written (memory limit){}; a larger "
                            "memory.host keeps them",
                            pass.info.ordinal, calls, of)});
}

void CaptureWriter::NoteStepsLeftOut() {
  const int64_t from = state_.left_out_from.load();
  if (from < 0 || !told_.emplace("steps left out").second) return;
  // What is there for the signature only does not count.
  uint64_t seen = 0;
  for (OperatorId op = 0; op < context_.tallies.size(); ++op) {
    const OperatorTally& tally = context_.tallies[op];
    const bool recorded = tally.records + tally.not_kept != 0;
    if (recorded && (tally.expected || !state_.operators->Get(op).op.empty())) ++seen;
  }
  WriteNote({1, fmt::format("{}: steps from {} on are not written. At least {} operator{} missing "
                            "in each of them: as many were recorded before",
                            stopped_why_, from, seen, seen == 1 ? " is" : "s are")});
}

// For whoever looks why writing is slow; nothing that the user should do.
void CaptureWriter::NoteRefusal() {
  const bool refused = context_.files != nullptr && context_.files->direct().was_refused();
  if (refused && told_.emplace("direct").second)
    WriteNote({0, "direct writes (O_DIRECT) are refused here: all goes through the page cache"});
}

void CaptureWriter::Flush(bool all) {
  const int64_t now = state_.env->MonotonicNs();
  if (!all && now - flushed_ns_ < kFlushNs) return;
  flushed_ns_ = now;
  for (PassSlot* pass : active_) {
    if (pass->recording != nullptr) pass->recording->Flush();
  }
}

// Everything was written: files that hold several passes get their final names, and counts that
// grew as before stand in full, for readers that do not know of that.
void CaptureWriter::CloseFiles() {
  std::lock_guard lock(writing_);
  growth_.clear();
  std::vector<OperatorGrowth> all;
  for (OperatorId op = 0; op < context_.tallies.size(); ++op) {
    const OperatorTally& tally = context_.tallies[op];
    if ((tally.calls | tally.records | tally.not_kept) != 0) all.push_back({.op = op});
  }
  if (std::exchange(grew_alike_, false)) WriteTallies(all);
  if (context_.files == nullptr) return;
  if (Status closed = context_.files->Close(); !closed.ok())
    Tell(kDiskErrorTopic, 2, closed.message());
}

bool CaptureWriter::TakeMail() {
  if (!state_.mail_waits.load(std::memory_order_acquire)) return false;
  std::vector<OperatorId> expected;
  std::vector<Note> notes;
  {
    std::lock_guard lock(state_.mail);
    expected.swap(state_.expected);
    notes.swap(state_.notes);
  }
  WriteExpected(expected);
  for (const Note& note : notes) WriteNote(note);
  std::lock_guard lock(state_.mail);
  if (state_.expected.empty() && state_.notes.empty()) state_.mail_waits.store(false);
  return true;
}

// Most steps do what the step before did. That is said in one section, however many operators.
void CaptureWriter::WriteCounts(uint64_t ordinal, std::vector<OperatorGrowth> growth) {
  const auto is_empty = [](const OperatorGrowth& g) {
    return (g.calls | g.records | g.not_kept) == 0;
  };
  std::erase_if(growth, is_empty);
  if (growth.empty()) return;
  if (growth == growth_) {
    const std::string same = EncodeSection(SameCountsSection{ordinal, growth_of_});
    grew_alike_ = true;
    if (Check(state_.manifest->Append(FrameKind::kExpect, same))) return;
  }
  const bool written = WriteTallies(growth);
  growth_ = written ? std::move(growth) : std::vector<OperatorGrowth>();
  growth_of_ = ordinal;
}

bool CaptureWriter::WriteTallies(const std::vector<OperatorGrowth>& of) {
  bool written = true;
  std::string body;
  for (size_t i = 0; i < of.size(); ++i) {
    const OperatorInfo& info = state_.operators->Get(of[i].op);
    const OperatorTally& tally = context_.Tally(of[i].op);
    AppendSection(OperatorCountSection{info.root, info.path, info.op, tally.calls, tally.records,
                                       tally.not_kept},
                  &body);
    if ((i + 1) % kSectionsPerFrame != 0 && i + 1 != of.size()) continue;
    written = Check(state_.manifest->Append(FrameKind::kExpect, body)) && written;
    body.clear();
  }
  return written;
}

// What is written of each step for good counts against the limit too, a ring's passes make room for
// it; half of the limit is left to passes.
void CaptureWriter::ChargeManifest() {
  const uint64_t bytes = state_.manifest->bytes();
  budget_.SetUsed(budget_.used() + bytes - manifest_charged_);
  manifest_charged_ = bytes;
  const uint64_t limit = state_.options.disk_limit_bytes;
  if (limit == 0 || bytes <= limit / 2) return;
  state_.last_pass = true;
  const std::string why =
      fmt::format("the manifest takes {} bytes, half of the limit of {}", bytes, limit);
  if (stopped_why_.empty()) stopped_why_ = why;
  Tell("manifest limit", 1,
       why + ": no further pass is begun; a larger output.limit keeps more steps");
}

void CaptureWriter::WriteExpected(const std::vector<OperatorId>& operators) {
  std::string body;
  for (size_t i = 0; i < operators.size(); ++i) {
    const OperatorInfo& info = state_.operators->Get(operators[i]);
    context_.Tally(operators[i]).expected = true;
    AppendSection(
        ExpectSection{static_cast<uint8_t>(info.kind), info.root, info.path, info.op, info.cls},
        &body);
    if ((i + 1) % kSectionsPerFrame != 0 && i + 1 != operators.size()) continue;
    Check(state_.manifest->Append(FrameKind::kExpect, body));
    body.clear();
  }
}

void CaptureWriter::WriteNote(const Note& note) {
  Check(state_.manifest->Append(NoteSection{
      static_cast<uint8_t>(note.level), static_cast<uint64_t>(state_.env->WallNs()), note.text}));
}

bool CaptureWriter::Check(const Status& status) {
  if (!status.ok())
    Report("manifest",
           status.message() + "; the coverage of this rank is incomplete, the job goes on");
  return status.ok();
}

bool CaptureWriter::Report(std::string_view topic, const std::string& text) {
  if (!told_.emplace(topic).second) return false;
  if (state_.options.report) state_.options.report(text);
  return true;
}

void CaptureWriter::Tell(std::string_view topic, int level, const std::string& text) {
  if (topic == kDiskLimitTopic) {
    state_.last_pass = true;
    if (stopped_why_.empty()) stopped_why_ = context_.budget->why();
  }
  if (Report(topic, text)) WriteNote({level, text});
}

}  // namespace tdump::io
