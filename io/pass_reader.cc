#include "io/pass_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

#include "core/text.h"
#include "io/pack_address.h"
#include "io/pack_scan.h"
#include "io/pass_scan.h"
#include "io/pass_verify.h"
#include "io/payload_reader.h"
#include "io/record_body.h"
#include "io/record_decoder.h"

namespace tdump::io {
namespace {

constexpr uint64_t kWalkWindow = 16 * 1024;
constexpr uint64_t kSingleWindow = 1024;

// Whether a record that holds bytes came without what they are checked against.
bool LacksDigests(const Record& record) {
  return record.payload && record.payload->same_as == 0 && record.payload->logical_bytes > 0 &&
         record.tile_digests.empty();
}

bool SamePlace(const PayloadRef& x, const PayloadRef& y) {
  return x.offset == y.offset && x.stored_bytes == y.stored_bytes &&
         x.logical_bytes == y.logical_bytes && x.codec == y.codec && x.same_as == y.same_as &&
         x.earlier == y.earlier;
}

class FilePassReader : public PassReader {
 public:
  FilePassReader(Env* env, std::unique_ptr<FrameFile> file, PassContents contents, bool complete)
      : file_(std::move(file)),
        contents_(std::move(contents)),
        complete_(complete),
        info_(InfoOf(file_->header(), contents_.pass)),
        payloads_(env, *file_) {
    const auto before = [](const IndexEntry& a, const IndexEntry& b) {
      return a.record < b.record;
    };
    const std::vector<IndexEntry>& records = contents_.index.records;
    if (!std::is_sorted(records.begin(), records.end(), before)) {
      sorted_ = records;
      std::stable_sort(sorted_.begin(), sorted_.end(), before);
    }
    // Read already. Of many ranks' passes open at a time every list counts.
    contents_.index.operators = {};
    contents_.index.names = {};
    contents_.index.aliases = {};
    CountFromFileStart(contents_.damage);
  }

  const std::string& path() const override { return file_->path(); }
  const PassInfo& info() const override { return info_; }
  bool complete() const override { return complete_; }
  uint64_t record_count() const override { return contents_.index.records.size(); }
  const std::vector<Damage>& damage() const override { return contents_.damage; }

  Status ForEachRecord(const std::function<bool(const Record&)>& visit) const override {
    return Walk(visit, DecodeRecord);
  }
  Status ForEachRecordMeta(const std::function<bool(const Record&)>& visit) const override {
    return Walk(visit, DecodeRecordMeta, /*with_tiles=*/false);
  }
  Status ForEachCall(const std::function<bool(const CallRecord&)>& visit) const override;
  Result<Record> Find(const Key& key) const override;
  Result<Record> Get(uint64_t record) const override;
  Result<Record> GetMeta(uint64_t record) const override;
  Status ReadPayload(const Record& record, uint64_t offset, std::span<std::byte> out,
                     bool verify) const override;
  Result<Record> PayloadOwner(const Record& record) const override;
  Result<std::span<const std::byte>> MapPayload(const Record& record) const override;
  Status Verify(std::vector<Damage>* damage) const override {
    const size_t before = damage->size();
    const Status status = VerifyPass(*file_, damage);
    CountFromFileStart(std::span(*damage).subspan(before));
    return status;
  }

 private:
  void CountFromFileStart(std::span<Damage> damage) const {
    for (Damage& item : damage) item.offset += file_->base();
  }
  DecodeContext Context() const {
    return {*contents_.names, file_->swapped(), file_->size(), info_.ordinal, file_->base()};
  }
  // Decodes the frame of `kind` at `offset`, with file and offset on any error.
  template <class Decoded>
  using Decoder = Result<Decoded> (*)(const DecodeContext&, std::span<const std::byte>);
  template <class Decoded>
  Result<Decoded> DecodeAt(FrameCursor* cursor, uint64_t offset, FrameKind kind,
                           Decoder<Decoded> decode) const;
  Status Walk(const std::function<bool(const Record&)>& visit, Decoder<Record> decode,
              bool with_tiles = true) const;
  Result<Record> RecordAt(FrameCursor* cursor, const IndexEntry& entry,
                          Decoder<Record> decode = DecodeRecord) const;
  // Without the digests of its tiles, where they are many; none: RecordAt() tells more.
  std::optional<Record> ShortRecordAt(FrameCursor* cursor, const IndexEntry& entry) const;
  // A record of ForEachRecordMeta again, with its tile digests.
  Result<Record> WithDigests(const Record& record) const;
  // Where the record with this number is.
  Result<IndexEntry> EntryOf(uint64_t record) const;
  void BuildKeyMap() const;

  std::unique_ptr<FrameFile> file_;
  PassContents contents_;
  bool complete_;
  PassInfo info_;
  PayloadReader payloads_;
  std::vector<IndexEntry> sorted_;  // by id; empty: the index is
  mutable std::once_flag key_map_built_;
  // Hash of the key's text -> where its record is.
  mutable std::unordered_multimap<uint64_t, IndexEntry> key_map_;
};

template <class Decoded>
Result<Decoded> FilePassReader::DecodeAt(FrameCursor* cursor, uint64_t offset, FrameKind kind,
                                         Decoder<Decoded> decode) const {
  TDUMP_ASSIGN_OR_RETURN(const Frame frame, cursor->At(offset));
  if (frame.kind != kind) {
    return file_->Error(offset,
                        fmt::format("kind: {}, the index says {}", int(frame.kind), int(kind)));
  }
  TDUMP_ASSIGN_OR_RETURN(const auto body, cursor->Body(frame));
  Result<Decoded> decoded = decode(Context(), body);
  if (!decoded.ok()) return file_->Error(offset, decoded.status().message());
  return decoded;
}

Result<Record> FilePassReader::RecordAt(FrameCursor* cursor, const IndexEntry& entry,
                                        Decoder<Record> decode) const {
  Result<Record> record = DecodeAt<Record>(cursor, entry.frame_offset, FrameKind::kRecord, decode);
  if (!record.ok() || record->id == entry.record) return record;
  return file_->Error(entry.frame_offset,
                      fmt::format("record: {}, the index says {}", record->id, entry.record));
}

std::optional<Record> FilePassReader::ShortRecordAt(FrameCursor* cursor,
                                                    const IndexEntry& entry) const {
  if (file_->swapped()) return std::nullopt;
  const Result<Frame> frame = cursor->At(entry.frame_offset);
  if (!frame.ok() || frame->kind != FrameKind::kRecord) return std::nullopt;
  const std::vector<std::byte> body = BodyWithoutTiles(cursor, *frame);
  if (body.empty()) return std::nullopt;
  Result<Record> record = DecodeRecordMeta(Context(), body);
  if (!record.ok() || record->id != entry.record) return std::nullopt;
  return std::move(*record);
}

Status FilePassReader::Walk(const std::function<bool(const Record&)>& visit, Decoder<Record> decode,
                            bool with_tiles) const {
  FrameCursor cursor(*file_, kWalkWindow);
  Status first;
  for (const IndexEntry& entry : contents_.index.records) {
    if (const auto record = with_tiles ? std::nullopt : ShortRecordAt(&cursor, entry)) {
      if (!visit(*record)) break;
      continue;
    }
    const Result<Record> record = RecordAt(&cursor, entry, decode);
    if (!record.ok()) {
      if (first.ok()) first = record.status();
    } else if (!visit(*record)) {
      break;
    }
  }
  return first;
}

Status FilePassReader::ForEachCall(const std::function<bool(const CallRecord&)>& visit) const {
  FrameCursor cursor(*file_, kWalkWindow);
  Status first;
  for (uint64_t offset : contents_.index.calls) {
    const Result<CallRecord> call =
        DecodeAt<CallRecord>(&cursor, offset, FrameKind::kCall, DecodeCall);
    if (!call.ok()) {
      if (first.ok()) first = call.status();
    } else if (!visit(*call)) {
      break;
    }
  }
  return first;
}

Result<IndexEntry> FilePassReader::EntryOf(uint64_t record) const {
  const std::vector<IndexEntry>& by_id = sorted_.empty() ? contents_.index.records : sorted_;
  const auto entry =
      std::lower_bound(by_id.begin(), by_id.end(), record,
                       [](const IndexEntry& e, uint64_t id) { return e.record < id; });
  if (entry == by_id.end() || entry->record != record) {
    return NotFound(fmt::format("{}: no record {}", path(), record));
  }
  if (const auto next = entry + 1; next != by_id.end() && next->record == record)
    return file_->Error(next->frame_offset, RepeatedNumber(record));
  return *entry;
}

Result<Record> FilePassReader::Get(uint64_t record) const {
  TDUMP_ASSIGN_OR_RETURN(const IndexEntry entry, EntryOf(record));
  FrameCursor cursor(*file_, kSingleWindow);
  return RecordAt(&cursor, entry);
}

Result<Record> FilePassReader::GetMeta(uint64_t record) const {
  TDUMP_ASSIGN_OR_RETURN(const IndexEntry entry, EntryOf(record));
  FrameCursor cursor(*file_, kSingleWindow);
  if (auto found = ShortRecordAt(&cursor, entry)) return std::move(*found);
  return RecordAt(&cursor, entry, DecodeRecordMeta);
}

Result<Record> FilePassReader::WithDigests(const Record& record) const {
  TDUMP_ASSIGN_OR_RETURN(Record found, Get(record.id));
  if (found.payload && SamePlace(*found.payload, *record.payload)) return found;
  return Corrupt(fmt::format("{}: record {} ('{}'): its payload is not where it was", path(),
                             record.id, ToText(record.key)));
}

void FilePassReader::BuildKeyMap() const {
  FrameCursor cursor(*file_, kWalkWindow);
  key_map_.reserve(contents_.index.records.size());
  for (const IndexEntry& entry : contents_.index.records) {
    const Result<Record> record = RecordAt(&cursor, entry);
    if (record.ok()) key_map_.emplace(std::hash<std::string>{}(ToText(record->key)), entry);
  }
}

Result<Record> FilePassReader::Find(const Key& key) const {
  std::call_once(key_map_built_, [this] { BuildKeyMap(); });
  const std::string text = ToText(key);
  const auto [first, last] = key_map_.equal_range(std::hash<std::string>{}(text));
  FrameCursor cursor(*file_, kSingleWindow);
  for (auto place = first; place != last; ++place) {
    TDUMP_ASSIGN_OR_RETURN(Record record, RecordAt(&cursor, place->second));
    if (record.key == key) return record;
  }
  return NotFound(fmt::format("{}: no record '{}'", path(), text));
}

Result<Record> FilePassReader::PayloadOwner(const Record& record) const {
  if (!record.payload) {
    return NotFound(fmt::format("{}: record {} ('{}') has no payload: kept {}", path(), record.id,
                                ToText(record.key), PartsToString(record.parts_kept)));
  }
  if (LacksDigests(record)) return WithDigests(record);
  Record owner = record;
  constexpr int kMostHops = 16;
  for (int hop = 0; owner.payload && owner.payload->same_as != 0; ++hop) {
    const uint64_t next = owner.payload->same_as;
    if (hop == kMostHops)
      return Corrupt(
          fmt::format("{}: record {}: same_as: no end of references", path(), record.id));
    Result<Record> found = Get(next);
    if (!found.ok()) {
      return Corrupt(fmt::format("{}: record {}: same_as: {}: {}", path(), record.id, next,
                                 found.status().message()));
    }
    owner = std::move(*found);
  }
  if (!owner.payload || owner.payload->logical_bytes != record.payload->logical_bytes) {
    return Corrupt(fmt::format("{}: record {}: same_as: record {} has another payload", path(),
                               record.id, owner.id));
  }
  return owner;
}

Status FilePassReader::ReadPayload(const Record& record, uint64_t offset, std::span<std::byte> out,
                                   bool verify) const {
  if (record.payload && record.payload->same_as == 0 && !LacksDigests(record))
    return payloads_.Read(record, offset, out, verify);
  TDUMP_ASSIGN_OR_RETURN(const Record owner, PayloadOwner(record));
  return payloads_.Read(owner, offset, out, verify);
}

Result<std::span<const std::byte>> FilePassReader::MapPayload(const Record& record) const {
  TDUMP_ASSIGN_OR_RETURN(const Record owner, PayloadOwner(record));
  return payloads_.Map(owner);
}

Result<std::unique_ptr<PassReader>> OpenSlice(Env* env, const std::string& path, uint64_t offset,
                                              uint64_t bytes, NameTables* names) {
  TDUMP_ASSIGN_OR_RETURN(auto file, FrameFile::Open(env, path, kPassMagic, offset, bytes));
  Result<PassContents> by_index = ReadByIndex(*file, names);
  const bool complete = by_index.ok();
  PassContents contents = complete ? std::move(*by_index) : ScanFrames(*file);
  if (!complete && contents.damage.empty()) {
    contents.damage.push_back(DamageAt(*file, file->size(), by_index.status().message()));
  }
  return std::unique_ptr<PassReader>(
      new FilePassReader(env, std::move(file), std::move(contents), complete));
}

// Which passes there are and how to name one.
Status NoSuchPass(const std::string& path, const std::vector<PackedPass>& passes,
                  std::optional<uint64_t> ordinal) {
  std::vector<uint64_t> ordinals;
  for (const PackedPass& pass : passes) ordinals.push_back(pass.info.ordinal);
  const std::string what =
      ordinal ? fmt::format("it has no pass {}", *ordinal) : "no number of a pass was given";
  return InvalidArgument(fmt::format(
      "{}: a packed file of {}, number {}, and {}; name one as '{}#{}'", path,
      Plural(passes.size(), "pass"), RangesText(ordinals), what, path, ordinals.front()));
}

// `ordinal` empty: the only one.
Result<std::unique_ptr<PassReader>> OpenPacked(Env* env, const std::string& path,
                                               std::optional<uint64_t> ordinal, NameTables* names) {
  TDUMP_ASSIGN_OR_RETURN(const auto passes, ScanPack(env, path));
  if (passes.empty()) return Corrupt(path + ": a packed file without a pass");
  for (const PackedPass& pass : passes) {
    if (ordinal ? pass.info.ordinal == *ordinal : passes.size() == 1)
      return OpenSlice(env, path, pass.offset, pass.bytes, names);
  }
  return NoSuchPass(path, passes, ordinal);
}

}  // namespace

Result<std::unique_ptr<PassReader>> PassReader::Open(Env* env, const std::string& path,
                                                     NameTables* names) {
  if (const auto packed = ParsePackAddress(path); packed && !env->Stat(path).ok())
    return OpenPacked(env, packed->file, packed->ordinal, names);
  auto reader = OpenSlice(env, path, 0, FrameFile::kToTheEnd, names);
  if (!reader.ok() && IsPackedFile(env, path)) return OpenPacked(env, path, std::nullopt, names);
  return reader;
}

Result<std::unique_ptr<PassReader>> PassReader::Open(Env* env, const std::string& path,
                                                     uint64_t offset, uint64_t bytes,
                                                     NameTables* names) {
  return OpenSlice(env, path, offset, bytes, names);
}

}  // namespace tdump::io
