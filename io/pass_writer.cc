#include "io/pass_writer.h"

#include <fmt/format.h>

#include <cstring>
#include <optional>

#include "core/call_text.h"
#include "core/utf8.h"
#include "io/archive.h"
#include "io/frame_builder.h"

namespace tdump::io {
namespace {

constexpr size_t kBufferBytes = 1 << 20;
constexpr size_t kWriteThrough = 256 << 10;  // longer payloads go to the file from where they lie

void AppendValues(const ValueParts& values, std::string* body) {
  if (values.statistics) AppendSection(*values.statistics, body);
  if (values.sample) AppendSection(*values.sample, body);
  if (values.slice) AppendSection(*values.slice, body);
}

PassSection ToSection(const PassInfo& info) {
  PassSection section;
  section.ordinal = info.ordinal;
  section.local_step = info.local_step;
  section.mode_step = info.mode_step;
  section.job_step = info.job_step;
  section.mode = static_cast<uint8_t>(info.mode);
  section.generation = info.generation;
  section.rank = info.rank;
  section.world = info.world;
  section.pid = info.pid;
  section.started_ns = info.started_ns;
  section.host = info.host;
  return section;
}

}  // namespace

std::string PassFileName(uint64_t ordinal) { return fmt::format("pass{:05d}.tdp", ordinal); }

Result<std::unique_ptr<PassWriter>> PassWriter::Create(Env* env, const OperatorTable* operators,
                                                       std::unique_ptr<PassPlace> place,
                                                       const PassInfo& info, uint64_t job_hash) {
  std::unique_ptr<PassWriter> writer(new PassWriter(env, operators, std::move(place)));
  TDUMP_RETURN_IF_ERROR(writer->Start(info, job_hash));
  return writer;
}

Result<std::unique_ptr<PassWriter>> PassWriter::Create(Env* env, const OperatorTable* operators,
                                                       const std::string& directory,
                                                       const PassInfo& info, uint64_t job_hash) {
  TDUMP_ASSIGN_OR_RETURN(
      auto place, NewFileOfOnePass(env, directory, info.ordinal, Durability::kNone, nullptr));
  return Create(env, operators, std::move(place), info, job_hash);
}

PassWriter::PassWriter(Env* env, const OperatorTable* operators, std::unique_ptr<PassPlace> place)
    : env_(env), operators_(operators), place_(std::move(place)) {}

PassWriter::~PassWriter() = default;

Status PassWriter::Start(const PassInfo& info, uint64_t job_hash) {
  names_.emplace("", 0);
  buffer_.reserve(kBufferBytes + kWriteThrough);
  FileHeader header;
  header.magic = kPassMagic;
  header.ordinal = info.ordinal;
  header.rank = info.rank;
  header.generation = info.generation;
  header.pid = info.pid;
  header.job_hash = job_hash;
  header.created_ns = static_cast<uint64_t>(env_->WallNs());
  AppendStruct(Sealed(header), &buffer_);
  AddFrame(FrameKind::kPass, ToSection(info));
  return Flush();
}

template <class Section>
void PassWriter::AddFrame(FrameKind kind, const Section& section) {
  FrameBuilder frame(kind, &buffer_);
  AppendSection(section, &buffer_);
  frame.Finish();
}

uint32_t PassWriter::Name(std::string_view text) {
  if (auto it = names_.find(text); it != names_.end()) return it->second;
  NameSection section;
  section.name = static_cast<uint32_t>(names_.size());
  section.text = text;
  names_.emplace(section.text, section.name);
  index_.names.push_back(bytes());
  AddFrame(FrameKind::kName, section);
  return section.name;
}

void PassWriter::Operator(OperatorId op) {
  if (op < operators_written_.size() && operators_written_[op]) return;
  if (op >= operators_written_.size()) operators_written_.resize(op + 1);
  operators_written_[op] = true;
  const OperatorInfo& info = operators_->Get(op);
  OperatorSection section;
  section.op_id = op;
  section.kind = static_cast<uint8_t>(info.kind);
  section.leaf = info.leaf ? 1 : 0;
  section.root_name = Name(info.root);
  section.path_name = Name(info.path);
  section.op_name = Name(info.op);
  section.class_name = Name(info.cls);
  for (const std::string& alias : info.aliases) section.alias_names.push_back(Name(alias));
  index_.operators.push_back(bytes());
  AddFrame(FrameKind::kOperator, section);
}

// A pad frame, so that the payload behind the next frame header starts
// at a multiple of its alignment.
void PassWriter::AlignPayload(uint64_t payload_bytes) {
  const uint64_t align = AlignOf(payload_bytes);
  const uint64_t start = bytes() + sizeof(FrameHeader);
  if (start % align == 0) return;
  const uint64_t pad = PadTo(start + sizeof(FrameHeader), align) - start - sizeof(FrameHeader);
  FrameBuilder frame(FrameKind::kPad, &buffer_);
  buffer_.append(pad, '\0');
  frame.Finish();
}

Result<PayloadSection> PassWriter::AddPayload(std::span<const std::byte> logical,
                                              const Hash128& hash, Codec codec, uint32_t width) {
  if (!status_.ok()) return status_;
  PayloadSection section;
  section.stored_bytes = section.logical_bytes = logical.size();
  std::optional<BlockCompressor> blocks;
  if (codec == Codec::kBlocks && blocks.emplace(logical, width).Shrinks()) {
    section.stored_bytes = blocks->stored_bytes();
    section.codec = static_cast<uint8_t>(Codec::kBlocks);
  }
  const uint64_t stored = section.stored_bytes;
  AlignPayload(stored);
  FrameHeader header = MakeFrameHeader(FrameKind::kPayload, stored, LowWord(hash));
  if (section.codec != 0) header = WithFlags(header, kFrameCompressed);
  AppendStruct(header, &buffer_);
  section.offset = bytes();
  if (stored > kWriteThrough) TDUMP_RETURN_IF_ERROR(Flush());
  const auto write = [&](std::span<const std::byte> piece) {
    if (stored > kWriteThrough) return WriteThrough(piece);
    buffer_.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    return Status();
  };
  TDUMP_RETURN_IF_ERROR(section.codec != 0 ? blocks->Write(write) : write(logical));
  buffer_.append(PadTo(stored, 8) - stored, '\0');
  payload_bytes_ += stored;
  TDUMP_RETURN_IF_ERROR(FlushIfLarge());
  return section;
}

Result<PayloadSection> PassWriter::BeginPayload(uint64_t bytes_in_all) {
  if (!status_.ok()) return status_;
  AlignPayload(bytes_in_all);
  AppendStruct(MakeFrameHeader(FrameKind::kPad, bytes_in_all, 0), &buffer_);
  PayloadSection section;
  section.offset = bytes();
  section.stored_bytes = section.logical_bytes = bytes_in_all;
  TDUMP_RETURN_IF_ERROR(Flush());
  base_ += PadTo(bytes_in_all, 8);
  return section;
}

Status PassWriter::AddPiece(const PayloadSection& payload, uint64_t offset,
                            std::span<const std::byte> bytes) {
  if (!status_.ok()) return status_;
  Status written = place_->WriteAt(payload.offset + offset, bytes);
  return written.ok() ? written : Fail(std::move(written));
}

Status PassWriter::EndPayload(const PayloadSection& payload, const Hash128& hash) {
  if (!status_.ok()) return status_;
  std::string header;
  AppendStruct(MakeFrameHeader(FrameKind::kPayload, payload.stored_bytes, LowWord(hash)), &header);
  Status written =
      place_->WriteAt(payload.offset - header.size(), std::as_bytes(std::span(header)));
  if (!written.ok()) return Fail(std::move(written));
  payload_bytes_ += payload.stored_bytes;
  return Status();
}

Status PassWriter::AddRecord(RecordSection* record, const RecordParts& parts) {
  if (!status_.ok()) return status_;
  Operator(record->op_id);
  record->arg_name = Name(parts.arg);
  record->dtype_name = Name(parts.dtype);
  record->device_name = Name(parts.device);
  index_.records.push_back({record->record, bytes()});
  FrameBuilder frame(FrameKind::kRecord, &buffer_);
  AppendSection(*record, &buffer_);
  if (parts.payload != nullptr) AppendSection(*parts.payload, &buffer_);
  if (parts.earlier != nullptr) AppendSection(*parts.earlier, &buffer_);
  if (parts.hash != nullptr) AppendSection(HashSection{*parts.hash}, &buffer_);
  if (parts.tile_digests != nullptr) AppendSection(TilesSection{*parts.tile_digests}, &buffer_);
  if (parts.shard != nullptr) AppendSection(*parts.shard, &buffer_);
  if (parts.values != nullptr) AppendValues(*parts.values, &buffer_);
  frame.Finish();
  return FlushIfLarge();
}

Status PassWriter::AddCall(const Call& call, std::span<const ArgumentMeta> arguments,
                           std::string_view text) {
  if (!status_.ok()) return status_;
  Operator(call.op);
  call_.op_id = call.op;
  call_.begin = call.begin;
  call_.end = call.end;
  call_.parent = call.parent;
  call_.index = call.index;
  call_.micro = call.micro;
  call_.chunk = call.chunk;
  call_.lane = call.lane;
  call_.thread = call.thread;
  call_.stream = call.stream;
  call_.phase = static_cast<uint8_t>(call.phase);
  call_.flags = static_cast<uint8_t>((call.recompute ? 1 : 0) | (call.compiled ? 2 : 0) |
                                     (call.threw ? 4 : 0));
  call_.text = CutUtf8(text, CallText::kMaxBytes);
  call_.arguments.resize(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    ArgumentEntry& entry = call_.arguments[i];
    entry.role = static_cast<uint8_t>(arguments[i].role);
    entry.arg_name = Name(arguments[i].arg);
    entry.dtype_name = Name(arguments[i].dtype);
    entry.sizes = arguments[i].sizes;
  }
  index_.calls.push_back(bytes());
  AddFrame(FrameKind::kCall, call_);
  return FlushIfLarge();
}

Status PassWriter::AddAlias(OperatorId op, std::string_view path) {
  if (!status_.ok()) return status_;
  Operator(op);
  AliasSection section;
  section.op_id = op;
  section.path_name = Name(path);
  index_.aliases.push_back(bytes());
  AddFrame(FrameKind::kAlias, section);
  return FlushIfLarge();
}

Status PassWriter::FlushIfLarge() { return buffer_.size() >= kBufferBytes ? Flush() : Status(); }

Status PassWriter::Flush() {
  if (!status_.ok() || buffer_.empty()) return status_;
  Status written = place_->WriteAt(base_, std::as_bytes(std::span(buffer_)));
  if (!written.ok()) return Fail(std::move(written));
  base_ += buffer_.size();
  buffer_.clear();
  return Status();
}

Status PassWriter::WriteThrough(std::span<const std::byte> bytes) {
  Status written = place_->WriteAt(base_, bytes);
  if (!written.ok()) return Fail(std::move(written));
  base_ += bytes.size();
  return Status();
}

// Keeps in the count only what stands in the file: frames of the buffer that were written whole.
Status PassWriter::Fail(Status status) {
  status_ = std::move(status);
  const uint64_t end = place_->Size();
  const auto stands = [&](uint64_t frame) {
    if (frame < base_) return true;
    FrameHeader header;
    if (frame - base_ + sizeof(header) > buffer_.size()) return false;
    std::memcpy(&header, buffer_.data() + (frame - base_), sizeof(header));
    return frame + sizeof(header) + PadTo(header.body_bytes, 8) <= end;
  };
  while (!index_.records.empty() && !stands(index_.records.back().frame_offset))
    index_.records.pop_back();
  while (!index_.calls.empty() && !stands(index_.calls.back())) index_.calls.pop_back();
  base_ = std::max(base_, end);
  buffer_.clear();
  place_->Fail();
  return status_;
}

Status PassWriter::Finish(PassEndSection end) {
  if (!status_.ok()) return status_;
  end.ended_ns = static_cast<uint64_t>(env_->WallNs());
  end.records = records();
  end.calls = calls();
  end.payload_bytes = payload_bytes_;
  AddFrame(FrameKind::kPassEnd, end);
  FileFooter footer;
  footer.index_offset = bytes();
  AddFrame(FrameKind::kIndex, index_);
  footer.index_bytes = bytes() - footer.index_offset;
  footer.records = records();
  footer.calls = calls();
  footer.payload_bytes = payload_bytes_;
  AppendStruct(Sealed(footer), &buffer_);
  TDUMP_RETURN_IF_ERROR(Flush());
  if (Status finished = place_->Finish(); !finished.ok()) return Fail(std::move(finished));
  return Status();
}

}  // namespace tdump::io
