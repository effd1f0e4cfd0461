#include "io/pass_recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/argument_list.h"
#include "core/call_text.h"
#include "io/payload_reader.h"

namespace tdump::io {
namespace {

// Of a pass, what is held in memory: equal payloads are looked for among so many, and so many of
// the latest records lend statistics, sample and slice to one that refers to them.
constexpr size_t kMaxContents = 1 << 17;
constexpr uint64_t kMaxValues = 1 << 14;
// Bytes of a record's or call's frames, names and index entry.
constexpr uint64_t kFrameEstimate = 512;

Codec CodecOf(const CaptureItem& item) {
  return item.keep.compress == Compression::kZstd ? Codec::kBlocks : Codec::kNone;
}

}  // namespace

PassFiles* RecordingContext::Files() {
  if (files != nullptr) return files.get();
  files = std::make_unique<PassFiles>(env, directory, file_options);
  files->OnRemoved(removed);
  if (file_options.ring) {
    budget->OnFull([made = files.get()](uint64_t bytes) { return made->MakeRoom(bytes); });
  }
  return files.get();
}

PassRecording::PassRecording(RecordingContext* context, PassInfo info)
    : context_(context), info_(std::move(info)) {}
PassRecording::~PassRecording() = default;

bool PassRecording::Open() {
  if (failed()) return false;
  if (writer_ != nullptr) return true;
  context_->budget->BeginPass();
  const Status made = [&]() -> Status {
    TDUMP_ASSIGN_OR_RETURN(auto place, context_->Files()->Place(info_, context_->job_hash));
    TDUMP_ASSIGN_OR_RETURN(
        writer_, PassWriter::Create(context_->env, context_->operators, std::move(place), info_,
                                    context_->job_hash));
    return Status();
  }();
  if (!made.ok()) {
    Fail(made);
    return false;
  }
  context_->budget->SetUsed(context_->budget->used() + writer_->place().overhead());
  Charge();
  return true;
}

void PassRecording::Charge() {
  context_->budget->SetUsed(context_->budget->used() + writer_->bytes() - charged_);
  charged_ = writer_->bytes();
}

void PassRecording::Add(CaptureEntry* entry, std::vector<CaptureEntry*>* done) {
  if (entry->kind == CaptureEntry::Kind::kCall) {
    AddCall(*entry);
    done->push_back(entry);
    return;
  }
  const uint64_t earlier = entry->earlier;
  if (earlier != 0 && (earlier >= stored_.size() || !stored_[earlier].written)) {
    waiting_[earlier].push_back(entry);
    return;
  }
  context_->item.Read(*entry);
  AddRecord(*entry);
  Settle(entry, done);
}

void PassRecording::AddOrphan(CaptureEntry* entry, std::vector<CaptureEntry*>* done) {
  context_->item.ReadUncommitted(*entry, SkipReason::kPassEnded);
  streams_.erase(entry);
  AddRecord(*entry);
  Settle(entry, done);
}

// Those that waited for this record follow.
void PassRecording::Settle(CaptureEntry* entry, std::vector<CaptureEntry*>* done) {
  const uint64_t id = entry->record;
  done->push_back(entry);
  const auto waiters = waiting_.find(id);
  if (waiters == waiting_.end()) return;
  const std::vector<CaptureEntry*> entries = std::move(waiters->second);
  waiting_.erase(waiters);
  for (CaptureEntry* waiter : entries) Add(waiter, done);
}

void PassRecording::AddCall(const CaptureEntry& entry) {
  ++Touch(entry.call.op).calls;
  if (!Open()) return;
  if (!context_->budget->Allow(kFrameEstimate, false)) return TellLimit();
  Status added = writer_->AddCall(entry.call, ArgumentList::Decode(entry.arguments),
                                  CallText::ToString(entry.text));
  if (!added.ok()) return Fail(added);
  Charge();
}

// The context's item is the record.
void PassRecording::AddRecord(const CaptureEntry& entry) {
  CaptureItem* const item = &context_->item;
  const RecordSection& record = item->record;
  Touch(record.op_id);
  if (record.record >= stored_.size()) stored_.resize(record.record + record.record / 2 + 64);
  Stored stored;
  const uint64_t tiles = TileCount(entry.bytes);
  const size_t estimate = kFrameEstimate + tiles * kDigestBytes;
  if (!Open()) {
    Lose(record.op_id, SkipReason::kDiskError);
  } else if (!context_->budget->Allow(estimate, false)) {
    TellLimit();
    Lose(record.op_id, SkipReason::kDiskLimit);
  } else {
    if (item->hash != nullptr)
      KeepGiven(item, &stored);
    else if (item->earlier != 0)
      ReferTo(item, &stored);
    else if (record.reason == 0 && entry.stream == CaptureEntry::Stream::kPieces)
      EndStream(entry, &stored);
    else if (record.reason == 0)
      KeepValues(item, &stored);
    WriteRecord(item, stored, (stored.kept & kPartPayload) != 0 && stored.payload.same_as == 0);
  }
  streams_.erase(&entry);
  stored.reason = record.reason;
  stored.written = true;
  stored_[record.record] = std::move(stored);
  if (record.record > kMaxValues) stored_[record.record - kMaxValues].values.reset();
}

// The payload was given up and its summary made where it was. Nothing is missing where no more than
// that was asked for.
void PassRecording::KeepGiven(CaptureItem* item, Stored* stored) {
  const Parts asked = item->record.parts_asked;
  const bool enough = (asked & ~(kPartMeta | kPartHash | kPartStats)) == 0;
  const Parts wanted = enough ? asked : kPartHash | kPartStats;
  if (enough) item->SetReason(SkipReason::kNone, "");
  stored->hash = *item->hash;
  stored->kept |= wanted & kPartHash;
  if (item->statistics == nullptr || (wanted & kPartStats) == 0) return;
  auto values = std::make_shared<ValueParts>();
  values->statistics = ToSection(*item->statistics);
  stored->kept |= values->kept();
  stored->values = std::move(values);
}

void PassRecording::BeginStream(const CaptureEntry& head) {
  const TensorMeta& meta = head.observation.meta;
  Stream& stream = streams_
                       .try_emplace(&head, PartsBuilder(head.keep, head.observation.content,
                                                        meta.dtype, meta.sizes, meta.strides))
                       .first->second;
  if ((head.keep.parts & kPartPayload) == 0 || !Open()) return;
  if (!context_->budget->Allow(head.bytes, true)) return TellLimit();
  const Result<PayloadSection> payload = writer_->BeginPayload(head.bytes);
  if (!payload.ok()) return Fail(payload.status());
  stream.payload = *payload;
  Charge();
}

void PassRecording::AddPiece(const CaptureEntry& head, const CaptureEntry& piece) {
  const auto found = streams_.find(&head);
  if (found == streams_.end()) return;
  Stream& stream = found->second;
  const std::span<const std::byte> bytes(piece.payload, piece.bytes);
  stream.hasher.Update(bytes);
  stream.parts.Update(bytes);
  if (stream.payload.offset == 0 || failed()) return;
  if (Status added = writer_->AddPiece(stream.payload, piece.offset, bytes); !added.ok())
    Fail(added);
}

void PassRecording::EndStream(const CaptureEntry& head, Stored* stored) {
  const auto found = streams_.find(&head);
  if (found == streams_.end()) return;
  Stream& stream = found->second;
  CaptureItem* const item = &context_->item;
  const Parts asked = item->record.parts_asked;
  StoreParts(stream.parts.Finish(), item, stored);
  stored->hash = stream.hasher.Finish(&digests_);
  stored->kept |= asked & kPartHash;
  if ((asked & kPartPayload) == 0 || failed()) return;
  if (stream.payload.offset == 0) return item->SetReason(SkipReason::kDiskLimit, "");
  if (Status ended = writer_->EndPayload(stream.payload, stored->hash); !ended.ok())
    return Fail(ended);
  stored->payload = stream.payload;
  stored->kept |= kPartPayload | (asked & kPartSlice);
  if (contents_.size() < kMaxContents)
    contents_.emplace(PayloadContent{stored->hash, head.bytes, item->dtype}, item->record.record);
}

void PassRecording::AddLosses(OperatorId op, uint64_t count) { Touch(op).not_kept += count; }

void PassRecording::AddLostCalls(OperatorId op, uint64_t count) { Touch(op).calls += count; }

void PassRecording::KeepValues(CaptureItem* item, Stored* stored) {
  KeepParts(item, stored);
  const Parts asked = item->record.parts_asked;
  if ((asked & (kPartHash | kPartPayload)) == 0) return;
  const std::span<const std::byte> payload = item->payload();
  digests_.assign(item->digests.begin(), item->digests.end());
  if (digests_.empty()) AppendTileDigests(payload, &digests_);
  stored->hash = HashOfDigests(digests_);
  stored->kept |= asked & kPartHash;
  if ((asked & kPartPayload) == 0) return;
  KeepPayload(payload, *item, stored);
  if ((stored->kept & kPartPayload) != 0) stored->kept |= asked & kPartSlice;  // which it holds
  if ((stored->kept & kPartPayload) != 0 || failed()) return;
  item->SetReason(SkipReason::kDiskLimit, "");
}

// Statistics, sample and slice. A slice has a payload frame of its own.
void PassRecording::KeepParts(CaptureItem* item, Stored* stored) {
  if ((item->record.parts_asked & (kPartStats | kPartSample | kPartSlice)) == 0) return;
  StoreParts(PartsOf(item->keep, item->content, item->dtype, item->record.sizes,
                     item->record.strides, item->payload(), item->statistics),
             item, stored);
}

void PassRecording::StoreParts(ValueParts parts, CaptureItem* item, Stored* stored) {
  auto values = std::make_shared<ValueParts>(std::move(parts));
  if (values->slice && !KeepSlice(*item, values.get())) {
    values->slice.reset();
    if (!failed()) item->SetReason(SkipReason::kDiskLimit, "");
  }
  stored->kept |= values->kept();
  stored->values = std::move(values);
}

bool PassRecording::KeepSlice(const CaptureItem& item, ValueParts* values) {
  const std::span<const std::byte> bytes(values->slice_bytes);
  if (!context_->budget->Allow(bytes.size(), true)) {
    TellLimit();
    return false;
  }
  SliceSection& slice = *values->slice;
  AppendTileDigests(bytes, &slice.digests);
  slice.hash = HashOfDigests(slice.digests);
  const Result<PayloadSection> section =
      writer_->AddPayload(bytes, slice.hash, CodecOf(item), SwapWidth(item.dtype));
  if (!section.ok()) {
    Fail(section.status());
    return false;
  }
  slice.offset = section->offset;
  slice.stored_bytes = section->stored_bytes;
  slice.logical_bytes = section->logical_bytes;
  slice.codec = section->codec;
  values->slice_bytes = {};
  return true;
}

void PassRecording::KeepPayload(std::span<const std::byte> payload, const CaptureItem& item,
                                Stored* stored) {
  const PayloadContent content{stored->hash, payload.size(), item.dtype};
  if (auto same = contents_.find(content); same != contents_.end()) {
    stored->payload = stored_[same->second].payload;
    stored->payload.same_as = same->second;
    stored->kept |= kPartPayload;
    return;
  }
  EarlierPayloads* earlier = writer_->earlier();
  const EarlierPayload* found =
      earlier != nullptr ? earlier->Find(content, info_.ordinal) : nullptr;
  if (found != nullptr) {
    stored->payload = found->payload;
    stored->payload.offset = 0;
    stored->earlier = found->earlier;
    stored->kept |= kPartPayload;
    if (contents_.size() < kMaxContents) contents_.emplace(content, item.record.record);
    return;
  }
  if (!context_->budget->Allow(payload.size(), true)) {
    TellLimit();
    return;
  }
  const Result<PayloadSection> section =
      writer_->AddPayload(payload, stored->hash, CodecOf(item), SwapWidth(item.dtype));
  if (!section.ok()) return Fail(section.status());
  stored->payload = *section;
  stored->kept |= kPartPayload;
  if (contents_.size() < kMaxContents) contents_.emplace(content, item.record.record);
  if (earlier == nullptr) return;
  earlier->Add(
      content,
      {*section, {info_.ordinal, item.record.record, writer_->place().offset() + section->offset}});
}

void PassRecording::TellLimit() {
  if (context_->file_options.ring) {
    context_->tell(kRingTopic, 1,
                   fmt::format("{}: the ring has no older pass left to remove, further tensors of "
                               "pass {} are not written, nor those of later passes while it lasts",
                               context_->budget->why(), info_.ordinal));
    return;
  }
  context_->tell(kDiskLimitTopic, 1,
                 fmt::format("{}: pass {} is the last one with tensors, its further ones are not "
                             "written",
                             context_->budget->why(), info_.ordinal));
}

void PassRecording::ReferTo(CaptureItem* item, Stored* stored) {
  const Stored& earlier = stored_[item->earlier];
  const Parts wanted = item->record.parts_asked & ~kPartMeta;
  stored->hash = earlier.hash;
  stored->payload = earlier.payload;
  if (stored->payload.same_as == 0) stored->payload.same_as = item->earlier;
  stored->values = earlier.values;
  stored->kept = wanted & earlier.kept;
  if (stored->values == nullptr) {
    const bool holds_slice = (stored->kept & kPartPayload) != 0;
    stored->kept &= ~(kPartStats | kPartSample | (holds_slice ? kPartNone : kPartSlice));
  }
  if (stored->kept == wanted) return;
  const auto reason =
      earlier.reason != 0 ? static_cast<SkipReason>(earlier.reason) : SkipReason::kCopyFailed;
  item->SetReason(reason, fmt::format("as record {}, to which it refers", item->earlier));
}

void PassRecording::WriteRecord(CaptureItem* item, const Stored& stored, bool tiles) {
  RecordSection& record = item->record;
  if (failed()) return Lose(record.op_id, SkipReason::kDiskError);
  record.parts_kept = kPartMeta | stored.kept;
  RecordParts parts;
  parts.arg = item->arg;
  parts.dtype = item->dtype.view();
  parts.device = item->device;
  if ((stored.kept & kPartPayload) != 0) parts.payload = &stored.payload;
  const bool in_earlier_pass = stored.earlier.offset != 0 && stored.payload.same_as == 0;
  if (parts.payload != nullptr && in_earlier_pass) parts.earlier = &stored.earlier;
  if ((stored.kept & kPartHash) != 0) parts.hash = &stored.hash;
  parts.values = stored.values.get();
  if (tiles) parts.tile_digests = &digests_;
  if (item->has_shard) parts.shard = &item->shard;
  in_file_.push_back({record.op_id, record.reason == 0});
  OperatorTally& tally = Touch(record.op_id);
  ++tally.records;
  if (record.reason != 0) {
    ++tally.not_kept;
    ++not_kept_[record.reason % kReasons];
  }
  if (Status added = writer_->AddRecord(&record, parts); !added.ok()) return Fail(added);
  Charge();
}

void PassRecording::Lose(OperatorId op, SkipReason reason) {
  ++not_kept_[static_cast<size_t>(reason)];
  ++Touch(op).not_kept;
}

OperatorTally& PassRecording::Touch(OperatorId op) {
  if (op >= tallies_.size()) tallies_.resize(op + 256);
  if (!std::exchange(tallies_[op].touched, true)) touched_.push_back(op);
  return tallies_[op];
}

void PassRecording::Flush() {
  if (writer_ == nullptr || failed()) return;
  if (Status flushed = writer_->Flush(); !flushed.ok()) Fail(flushed);
}

// Records that were counted as kept but did not reach the file are taken back.
void PassRecording::Fail(const Status& status) {
  if (failed()) return;
  error_ = status.message().empty() ? "unknown error" : status.message();
  const size_t stand = writer_ == nullptr ? 0 : writer_->records();
  for (; in_file_.size() > stand; in_file_.pop_back()) {
    --Touch(in_file_.back().op).records;
    if (in_file_.back().complete) Lose(in_file_.back().op, SkipReason::kDiskError);
  }
  context_->tell(kDiskErrorTopic, 2,
                 fmt::format("{}; pass {} ends there, the job goes on", error_, info_.ordinal));
  if (status.code() == StatusCode::kNoSpace)
    context_->budget->NoSpace(std::max<uint64_t>(charged_, 1));
}

void PassRecording::AddAliases() {
  for (OperatorId op : touched_) {
    for (const std::string& path : context_->operators->AliasesOf(op)) {
      if (Status added = writer_->AddAlias(op, path); !added.ok()) return Fail(added);
    }
  }
}

PassDoneSection PassRecording::Finish(uint64_t blocked_ns, const ReasonCounts& counts,
                                      std::vector<CaptureEntry*>* done) {
  // A record that was referred to but never came.
  for (auto& [earlier, entries] : waiting_) {
    if (earlier >= stored_.size()) stored_.resize(earlier + 1);
    for (CaptureEntry* entry : entries) {
      context_->item.Read(*entry);
      AddRecord(*entry);
      done->push_back(entry);
    }
  }
  waiting_.clear();
  for (size_t i = 0; i < kReasons; ++i) not_kept_[i] += counts[i];
  if (Open()) AddAliases();
  if (!failed()) {
    PassEndSection end;
    end.blocked_ns = blocked_ns;
    for (uint64_t count : not_kept_) end.not_kept += count;
    if (Status finished = writer_->Finish(end); !finished.ok()) Fail(finished);
  }
  return Summary(blocked_ns);
}

std::vector<OperatorGrowth> PassRecording::AddToTallies() {
  std::sort(touched_.begin(), touched_.end());
  std::vector<OperatorGrowth> growth;
  for (const OperatorId op : touched_) {
    const OperatorTally& here = tallies_[op];
    OperatorTally& tally = context_->Tally(op);
    tally.calls += here.calls;
    tally.records += here.records;
    tally.not_kept += here.not_kept;
    growth.push_back({op, here.calls, here.records, here.not_kept});
  }
  return growth;
}

std::optional<PassPlaceSection> PassRecording::place() const {
  if (writer_ == nullptr || writer_->place().offset() == 0) return std::nullopt;
  return PassPlaceSection{info_.ordinal, writer_->place().offset()};
}

PassDoneSection PassRecording::Summary(uint64_t blocked_ns) {
  PassDoneSection section;
  for (size_t i = 1; i < kReasons; ++i) {
    if (not_kept_[i] != 0) section.not_kept.push_back({static_cast<uint8_t>(i), not_kept_[i]});
  }
  section.ordinal = info_.ordinal;
  section.local_step = info_.local_step;
  section.mode_step = info_.mode_step;
  section.job_step = info_.job_step;
  section.mode = static_cast<uint8_t>(info_.mode);
  section.blocked_ns = blocked_ns;
  section.error = error_;
  if (writer_ != nullptr) {
    Charge();
    section.file = writer_->file_name();
    section.file_bytes = writer_->bytes();
    section.records = writer_->records();
    section.calls = writer_->calls();
    section.payload_bytes = writer_->payload_bytes();
  }
  return section;
}

}  // namespace tdump::io
