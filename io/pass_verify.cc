#include "io/pass_verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "io/archive.h"
#include "io/hash.h"
#include "io/pass_scan.h"
#include "io/payload_reader.h"
#include "io/record_decoder.h"
#include "io/value_parts.h"

namespace tdump::io {
namespace {

constexpr uint64_t kReadChunk = 64 * kHashTile;

class Verifier {
 public:
  Verifier(const FrameFile& file, std::vector<Damage>* damage)
      : file_(file), damage_(*damage), cursor_(file, 16 * 1024) {}

  Status Run() {
    contents_ = ScanFrames(file_);
    damage_.insert(damage_.end(), contents_.damage.begin(), contents_.damage.end());
    owned_.assign(contents_.payloads.size(), false);
    by_id_ = contents_.index.records;
    std::stable_sort(by_id_.begin(), by_id_.end(),
                     [](const IndexEntry& a, const IndexEntry& b) { return a.record < b.record; });
    CheckNumbers();
    for (const IndexEntry& entry : contents_.index.records)
      TDUMP_RETURN_IF_ERROR(CheckRecord(entry.frame_offset));
    for (uint64_t offset : contents_.index.calls) TDUMP_RETURN_IF_ERROR(CheckCall(offset));
    TDUMP_RETURN_IF_ERROR(CheckUnownedPayloads());
    if (const Result<FileFooter> footer = file_.Footer(); footer.ok()) CheckCounts(*footer);
    return Status::Ok();
  }

 private:
  // Keeps what the format says is wrong; hands on what the operating system says.
  Status Note(uint64_t offset, const Status& status) {
    if (status.ok()) return status;
    if (status.code() != StatusCode::kCorrupt && status.code() != StatusCode::kUnsupported)
      return status;
    damage_.push_back(DamageAt(file_, offset, status.message()));
    return Status::Ok();
  }
  DecodeContext Context() const {
    return {*contents_.names, file_.swapped(), file_.size(), file_.header().ordinal, file_.base()};
  }

  void CheckNumbers() {
    for (size_t i = 1; i < by_id_.size(); ++i) {
      if (by_id_[i].record != by_id_[i - 1].record) continue;
      damage_.push_back(DamageAt(file_, by_id_[i].frame_offset, RepeatedNumber(by_id_[i].record)));
    }
  }

  Result<Record> RecordAt(uint64_t offset) {
    TDUMP_ASSIGN_OR_RETURN(const Frame frame, cursor_.At(offset));
    TDUMP_ASSIGN_OR_RETURN(const auto body, cursor_.Body(frame));
    return DecodeRecord(Context(), body);
  }

  Status CheckRecord(uint64_t offset) {
    const Result<Record> record = RecordAt(offset);
    if (!record.ok()) return Note(offset, record.status());
    if (record->slice) TDUMP_RETURN_IF_ERROR(CheckOwn(SliceAsRecord(*record), offset));
    CheckHash(*record, offset);
    if (record->payload && record->payload->same_as != 0) CheckShared(*record, offset);
    if (!record->payload || record->payload->same_as != 0 || record->payload->stored_bytes == 0)
      return Status::Ok();
    // A payload of an earlier pass has its frame there; its digests are here too.
    if (record->payload->earlier == 0) CheckFrame(*record, offset);
    return ReadAll(*record);
  }

  // The payload of a slice is never another's.
  Status CheckOwn(const Record& slice, uint64_t offset) {
    CheckHash(slice, offset);
    if (slice.payload->stored_bytes == 0) return Status::Ok();
    CheckFrame(slice, offset);
    return ReadAll(slice);
  }

  // The record's hash is that of its tile digests.
  void CheckHash(const Record& record, uint64_t offset) {
    if (!record.hash || !record.payload || record.payload->same_as != 0) return;
    if (HashOfDigests(record.tile_digests) == *record.hash) return;
    damage_.push_back({file_.path(), offset,
                       fmt::format("record {}: hash is not that of its tile digests", record.id)});
  }

  // A payload that is shared belongs to a record that holds it itself, of the same size and hash.
  void CheckShared(const Record& record, uint64_t offset) {
    const uint64_t id = record.payload->same_as;
    const auto entry =
        std::lower_bound(by_id_.begin(), by_id_.end(), id,
                         [](const IndexEntry& e, uint64_t wanted) { return e.record < wanted; });
    const bool there = entry != by_id_.end() && entry->record == id;
    if (there) {
      const Result<Record> owner = RecordAt(entry->frame_offset);
      if (!owner.ok()) return;  // noted where it stands
      const bool same_hash = !record.hash || !owner->hash || *record.hash == *owner->hash;
      if (owner->payload && owner->payload->same_as == 0 && same_hash &&
          owner->payload->logical_bytes == record.payload->logical_bytes)
        return;
    }
    damage_.push_back({file_.path(), offset,
                       fmt::format("record {}: same_as: {}, which {}", record.id, id,
                                   there ? "does not hold this payload" : "is not in the file")});
  }

  // The payload lies in a frame of its own, aligned, whose checksum is
  // the low half of the tile hash.
  void CheckFrame(const Record& record, uint64_t offset) {
    const PayloadRef& payload = *record.payload;
    const auto frame =
        std::lower_bound(contents_.payloads.begin(), contents_.payloads.end(), payload.offset,
                         [](const Frame& f, uint64_t body) { return f.body() < body; });
    const auto wrong = [&](std::string what) {
      damage_.push_back({file_.path(), offset, fmt::format("record {}: {}", record.id, what)});
    };
    if (frame == contents_.payloads.end() || frame->body() != payload.offset ||
        frame->body_bytes != payload.stored_bytes) {
      return wrong(fmt::format("payload offset {}: no payload frame of {} bytes there",
                               payload.offset, payload.stored_bytes));
    }
    owned_[frame - contents_.payloads.begin()] = true;
    const uint64_t align = AlignOf(payload.stored_bytes);
    if (payload.offset % align != 0)
      wrong(fmt::format("payload offset {} is no multiple of {}", payload.offset, align));
    if (LowWord(HashOfDigests(record.tile_digests)) != frame->body_checksum) {
      wrong("the payload frame's checksum is not that of the tile digests");
    }
  }

  Status ReadAll(const Record& record) {
    const PayloadReader payloads(nullptr, file_);
    chunk_.resize(std::min(kReadChunk, record.payload->logical_bytes));
    for (uint64_t at = 0; at < record.payload->logical_bytes; at += kReadChunk) {
      const uint64_t bytes = std::min(kReadChunk, record.payload->logical_bytes - at);
      const Status status = payloads.Read(record, at, std::span(chunk_).first(bytes), true);
      TDUMP_RETURN_IF_ERROR(Note(record.payload->offset + at, status));
      if (status.code() == StatusCode::kUnsupported) break;
    }
    return Status::Ok();
  }

  Status CheckCall(uint64_t offset) {
    const Result<CallRecord> call = [&]() -> Result<CallRecord> {
      TDUMP_ASSIGN_OR_RETURN(const Frame frame, cursor_.At(offset));
      TDUMP_ASSIGN_OR_RETURN(const auto body, cursor_.Body(frame));
      return DecodeCall(Context(), body);
    }();
    return Note(offset, call.status());
  }

  // Payload frames that no readable record claims (its record frame is torn
  // or damaged) have their own checksum.
  Status CheckUnownedPayloads() {
    for (size_t i = 0; i < owned_.size(); ++i) {
      if (owned_[i]) continue;
      const Frame& frame = contents_.payloads[i];
      if ((frame.flags & kFrameCompressed) != 0)
        continue;  // its checksum is of what only its record can expand
      TileHasher hasher;
      chunk_.resize(kReadChunk);
      for (uint64_t at = 0; at < frame.body_bytes; at += kReadChunk) {
        const auto chunk = std::span(chunk_).first(std::min(kReadChunk, frame.body_bytes - at));
        TDUMP_RETURN_IF_ERROR(file_.Read(frame.body() + at, chunk));
        hasher.Update(chunk);
      }
      if (LowWord(hasher.Finish()) != frame.body_checksum) {
        damage_.push_back({file_.path(), frame.body(), "payload frame: checksum does not match"});
      }
    }
    return Status::Ok();
  }

  // The stored index is the one the frames give, and all counts agree.
  void CheckCounts(const FileFooter& footer) {
    const IndexSection& index = contents_.index;
    const Result<PassContents> stored = ReadByIndex(file_);
    if (!stored.ok()) {
      damage_.push_back(DamageAt(file_, footer.index_offset, stored.status().message()));
    } else if (EncodeSection(stored->index) != EncodeSection(index)) {
      damage_.push_back(
          {file_.path(), footer.index_offset, "index: is not the one that the frames give"});
    }
    const auto count = [&](const char* who, const char* field, uint64_t says, uint64_t found) {
      if (says != found) {
        damage_.push_back({file_.path(), footer.index_offset,
                           fmt::format("{}: {}: {}, found {}", who, field, says, found)});
      }
    };
    count("footer", "records", footer.records, index.records.size());
    count("footer", "calls", footer.calls, index.calls.size());
    if (!contents_.end) return;
    count("pass end", "records", contents_.end->records, index.records.size());
    count("pass end", "calls", contents_.end->calls, index.calls.size());
  }

  const FrameFile& file_;
  std::vector<Damage>& damage_;
  FrameCursor cursor_;
  PassContents contents_;
  std::vector<bool> owned_;        // payload frames that a record claims
  std::vector<IndexEntry> by_id_;  // of all records
  std::vector<std::byte> chunk_;
};

}  // namespace

Status VerifyPass(const FrameFile& file, std::vector<Damage>* damage) {
  return Verifier(file, damage).Run();
}

}  // namespace tdump::io
