// PassWriter: writes one pass (io/format.h) to its place. Knows frames, names, operators and the
// index; decides nothing about what is kept.
//
//   1. Create() writes header and pass frame.
//   2. AddPayload() then AddRecord(), AddCall(), AddAlias(): each frame is preceded by the frames
//      of the names and the operator it uses for the first time.
//   3. Finish() writes the end frame, index and footer, and finishes the place.
// Frames are gathered in a buffer; what Flush() has written survives a kill. After the first error
// everything is refused with that error, and records() counts the records that stand in the file.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/env.h"
#include "core/operator_table.h"
#include "core/status.h"
#include "io/codec.h"
#include "io/format.h"
#include "io/hash.h"
#include "io/pass_place.h"
#include "io/records.h"
#include "io/sections.h"
#include "io/value_parts.h"

namespace tdump::io {

std::string PassFileName(uint64_t ordinal);  // "pass00012.tdp"
inline constexpr std::string_view kPartSuffix = ".part";

// Companions of a record, and the texts that RecordSection has ids for.
struct RecordParts {
  std::string_view arg;
  std::string_view dtype;
  std::string_view device;
  const PayloadSection* payload = nullptr;
  const EarlierPayloadSection* earlier = nullptr;  // beside `payload`
  const Hash128* hash = nullptr;
  const std::vector<uint8_t>* tile_digests = nullptr;
  const ShardSection* shard = nullptr;
  const ValueParts* values = nullptr;
};

// Not thread-safe.
class PassWriter {
 public:
  // `operators` outlives the writer. `job_hash`: see FileHeader.
  static Result<std::unique_ptr<PassWriter>> Create(Env* env, const OperatorTable* operators,
                                                    std::unique_ptr<PassPlace> place,
                                                    const PassInfo& info, uint64_t job_hash);
  // In a file of its own in `directory`.
  static Result<std::unique_ptr<PassWriter>> Create(Env* env, const OperatorTable* operators,
                                                    const std::string& directory,
                                                    const PassInfo& info, uint64_t job_hash);
  ~PassWriter();

  // A payload frame; `hash` is of `logical`. `width`: bytes of a number, for the codec. The result
  // says where it lies; `same_as` is 0.
  Result<PayloadSection> AddPayload(std::span<const std::byte> logical, const Hash128& hash,
                                    Codec codec, uint32_t width = 1);
  // A payload whose bytes come in pieces, with other frames added in between. Until EndPayload()
  // its frame counts as padding.
  Result<PayloadSection> BeginPayload(uint64_t bytes);
  Status AddPiece(const PayloadSection& payload, uint64_t offset, std::span<const std::byte> bytes);
  Status EndPayload(const PayloadSection& payload, const Hash128& hash);
  // The *_name fields of `record` are filled in from `parts`.
  Status AddRecord(RecordSection* record, const RecordParts& parts);
  // `text` longer than 1 KiB is cut.
  Status AddCall(const Call& call, std::span<const ArgumentMeta> arguments, std::string_view text);
  Status AddAlias(OperatorId op, std::string_view path);
  Status Flush();
  // `end.records`, `calls`, `payload_bytes` and `ended_ns` are filled in here.
  Status Finish(PassEndSection end);

  // The final one after Finish(), else the .part.
  const std::string& file_name() const { return place_->file_name(); }
  const PassPlace& place() const { return *place_; }
  EarlierPayloads* earlier() { return place_->earlier(); }
  // Of the pass, buffered frames included.
  uint64_t bytes() const { return base_ + buffer_.size(); }
  uint64_t records() const { return index_.records.size(); }
  uint64_t calls() const { return index_.calls.size(); }
  uint64_t payload_bytes() const { return payload_bytes_; }

 private:
  PassWriter(Env* env, const OperatorTable* operators, std::unique_ptr<PassPlace> place);

  Status Start(const PassInfo& info, uint64_t job_hash);
  uint32_t Name(std::string_view text);
  void Operator(OperatorId op);
  template <class Section>
  void AddFrame(FrameKind kind, const Section& section);
  void AlignPayload(uint64_t payload_bytes);
  Status WriteThrough(std::span<const std::byte> bytes);
  Status FlushIfLarge();
  Status Fail(Status status);

  struct TextHash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };

  Env* const env_;
  const OperatorTable* const operators_;
  const std::unique_ptr<PassPlace> place_;
  Status status_;
  std::string buffer_;
  uint64_t base_ = 0;  // offset in the pass of the buffer's first byte
  std::unordered_map<std::string, uint32_t, TextHash, std::equal_to<>> names_;
  std::vector<bool> operators_written_;
  IndexSection index_;
  CallSection call_;  // reused
  uint64_t payload_bytes_ = 0;
};

}  // namespace tdump::io
