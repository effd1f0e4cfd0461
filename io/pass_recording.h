// PassRecording: the writer thread's side of one pass. Turns items into frames: hashes, finds equal
// payloads, keeps to the disk budget, counts what was not kept and why. The file is made with the
// first item (or at Finish).
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "io/capture_item.h"
#include "io/disk_budget.h"
#include "io/earlier_payloads.h"
#include "io/pass_files.h"
#include "io/pass_writer.h"
#include "io/value_parts.h"

namespace tdump::io {

inline constexpr size_t kReasons = 16;
using ReasonCounts = std::array<uint64_t, kReasons>;  // by SkipReason

inline constexpr std::string_view kDiskLimitTopic = "disk limit";
inline constexpr std::string_view kRingTopic = "ring";
inline constexpr std::string_view kDiskErrorTopic = "disk error";

// Calls and records per operator over all passes of the process.
struct OperatorTally {
  uint64_t calls = 0;
  uint64_t records = 0;
  uint64_t not_kept = 0;
  bool expected = false;  // a rule asks for it; one of the dispatcher, or a tap, is not announced
  bool touched = false;   // in a pass: it had a call or record there
};

// What a pass adds to a tally.
struct OperatorGrowth {
  OperatorId op = 0;
  uint64_t calls = 0;
  uint64_t records = 0;
  uint64_t not_kept = 0;
  bool operator==(const OperatorGrowth&) const = default;
};

// What all passes of a process share. Writer thread only.
struct RecordingContext {
  Env* env = nullptr;
  const OperatorTable* operators = nullptr;
  std::string directory;
  uint64_t job_hash = 0;
  DiskBudget* budget = nullptr;
  std::vector<OperatorTally> tallies;  // by operator id
  CaptureItem item;                    // the record at hand
  // Tells user and manifest once per topic. `level` as NoteSection::level.
  std::function<void(std::string_view topic, int level, const std::string& text)> tell;
  // Tells the manifest before a file of finished passes is removed.
  std::function<void(const RemovedSection&)> removed;
  PassFilesOptions file_options;
  std::unique_ptr<PassFiles> files;  // made with the first pass

  PassFiles* Files();
  OperatorTally& Tally(OperatorId op) {
    if (op >= tallies.size()) tallies.resize(op + 256);
    return tallies[op];
  }
};

class PassRecording {
 public:
  PassRecording(RecordingContext* context, PassInfo info);
  ~PassRecording();

  // Writes one committed entry. Entries that are done with, this one or earlier
  // ones that waited for it, go to `done`.
  void Add(CaptureEntry* entry, std::vector<CaptureEntry*>* done);
  // An entry that was not committed in time: its metadata.
  void AddOrphan(CaptureEntry* entry, std::vector<CaptureEntry*>* done);
  // A payload in pieces: begun with its record's entry, which is added when all of it was taken.
  void BeginStream(const CaptureEntry& head);
  void AddPiece(const CaptureEntry& head, const CaptureEntry& piece);
  // Records of the operator that never came here.
  void AddLosses(OperatorId op, uint64_t count);
  void AddLostCalls(OperatorId op, uint64_t count);
  void Flush();
  // Ends the file. `counts`: records lost before they came here, by reason.
  PassDoneSection Finish(uint64_t blocked_ns, const ReasonCounts& counts,
                         std::vector<CaptureEntry*>* done);

  // After the last call: adds what the pass counted to the tallies of the process. By operator.
  std::vector<OperatorGrowth> AddToTallies();

  // After Finish(): where the pass lies in its packed file, if it is in one.
  std::optional<PassPlaceSection> place() const;

  bool failed() const { return !error_.empty(); }

 private:
  // Where a record's values are; what refer() and equal payloads point to.
  struct Stored {
    Hash128 hash{};
    PayloadSection payload;         // same_as names the owner when it is not the record itself
    EarlierPayloadSection earlier;  // offset 0: the payload is in this pass
    Parts kept = kPartNone;
    uint8_t reason = 0;
    bool written = false;
    std::shared_ptr<const ValueParts> values;  // statistics, sample, slice; may be none
  };
  // A payload that comes in pieces.
  struct Stream {
    explicit Stream(PartsBuilder builder) : parts(std::move(builder)) {}
    PayloadSection payload;  // without an offset: not asked for, or no room for it on the disk
    PartsBuilder parts;
    TileHasher hasher;
  };

  bool Open();
  void Settle(CaptureEntry* entry, std::vector<CaptureEntry*>* done);
  void EndStream(const CaptureEntry& head, Stored* stored);
  void KeepGiven(CaptureItem* item, Stored* stored);
  void AddCall(const CaptureEntry& entry);
  void AddRecord(const CaptureEntry& entry);
  void KeepValues(CaptureItem* item, Stored* stored);
  void KeepParts(CaptureItem* item, Stored* stored);
  void StoreParts(ValueParts parts, CaptureItem* item, Stored* stored);
  bool KeepSlice(const CaptureItem& item, ValueParts* values);
  void KeepPayload(std::span<const std::byte> payload, const CaptureItem& item, Stored* stored);
  void TellLimit();
  void ReferTo(CaptureItem* item, Stored* stored);
  void WriteRecord(CaptureItem* item, const Stored& stored, bool tiles);
  void Lose(OperatorId op, SkipReason reason);
  OperatorTally& Touch(OperatorId op);
  void AddAliases();
  PassDoneSection Summary(uint64_t blocked_ns);
  void Fail(const Status& status);
  void Charge();

  RecordingContext* const context_;
  const PassInfo info_;
  std::unique_ptr<PassWriter> writer_;
  std::string error_;
  uint64_t charged_ = 0;        // bytes of this file already told to the budget
  std::vector<Stored> stored_;  // by record id
  std::unordered_map<PayloadContent, uint64_t, PayloadContentHash> contents_;
  // By record: refer() that came before its record was committed.
  std::unordered_map<uint64_t, std::vector<CaptureEntry*>> waiting_;
  std::unordered_map<const CaptureEntry*, Stream> streams_;
  struct InFile {
    OperatorId op;
    bool complete;  // everything asked for was kept
  };
  std::vector<InFile> in_file_;         // records in file order
  std::vector<OperatorTally> tallies_;  // by operator id
  std::vector<OperatorId> touched_;     // operators with a call or record here
  ReasonCounts not_kept_{};
  std::vector<uint8_t> digests_;  // reused
};

}  // namespace tdump::io
