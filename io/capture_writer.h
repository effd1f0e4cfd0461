// CaptureWriter: from the queue of a sink to its passes and its manifest.
//
//   capture_writer.cc    taking entries, handing them to their passes, giving their room back
//   capture_finish.cc    ending passes, what goes to the manifest and to the user
//
// Exactly one thread at a time is the writer (`writing_` is held): the thread that runs Run() or,
// with memory.thread: false, whoever opens or closes a pass or finds the arena full.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "io/capture_state.h"
#include "io/pass_recording.h"

namespace tdump::io {

class CaptureWriter {
 public:
  // `state` outlives it. `directory` (the rank's) exists.
  CaptureWriter(CaptureState* state, std::string directory);

  // Until `end_thread`.
  void Run();
  bool WriteNow();  // a turn of the calling thread; false: another one is writing
  // Nothing is queued, set aside or open, as far as can be told without waiting.
  bool AllDone();
  // Everything was written: files that hold several passes get their final names.
  void CloseFiles();

 private:
  using Note = CaptureState::Note;

  // capture_writer.cc
  bool Turn();  // false: there was nothing to do
  bool TakeQueue();
  bool LookAgain();
  bool IsReady(CaptureEntry* entry);
  void Hand(CaptureEntry* entry);
  void TakePiece(CaptureEntry* piece);
  PassRecording* RecordingOf(PassSlot* pass);
  void CountOut(PassSlot* pass, uint64_t entries);
  void GiveBack(CaptureEntry* entry);
  void GiveBackDone();
  void Break(const char* why);

  // capture_finish.cc
  void FinishPasses();
  bool FinishPass(PassSlot* pass);
  void OrphanEntries(PassSlot* pass);
  void TellOverShare(const PassSlot& pass);
  void NoteRefusal();
  void NoteLostCalls(PassRecording* recording, const PassSlot& pass);
  void NoteStepsLeftOut();
  void Flush(bool all);
  bool TakeMail();
  void WriteCounts(uint64_t ordinal, std::vector<OperatorGrowth> growth);
  bool WriteTallies(const std::vector<OperatorGrowth>& of);
  void ChargeManifest();
  void WriteExpected(const std::vector<OperatorId>& operators);
  void WriteNote(const Note& note);
  bool Check(const Status& status);  // of the manifest; true: written
  // To the user; false: the topic was told before.
  bool Report(std::string_view topic, const std::string& text);
  void Tell(std::string_view topic, int level, const std::string& text);

  CaptureState& state_;

  std::mutex writing_;  // held during a turn; guards what follows
  DiskBudget budget_;
  RecordingContext context_;
  std::vector<CaptureEntry*> waiting_;  // not committed, or its device has not finished
  std::vector<CaptureEntry*> orphans_;  // written without their values, not committed yet
  std::vector<PassSlot*> active_;
  std::vector<CaptureEntry*> done_;
  bool broken_ = false;      // out of memory: nothing is written any more
  std::string stopped_why_;  // why no further pass is written; empty: they are
  std::set<std::string, std::less<>> told_;
  // What the last pass with counts of its own in the manifest had; empty: the next one writes them.
  std::vector<OperatorGrowth> growth_;
  bool grew_alike_ = false;        // a pass said so in place of its counts
  uint64_t growth_of_ = 0;         // ordinal
  uint64_t manifest_charged_ = 0;  // bytes of the manifest already told to the budget
  int failed_in_a_row_ = 0;
  int64_t flushed_ns_ = 0;
};

}  // namespace tdump::io
