#include "coordinator/slot_file.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>

#include "coordinator/hash64.h"

namespace tdump::coordinator {
namespace {

constexpr uint64_t kPulseAt = sizeof(SlotHeader);
constexpr uint64_t kRingAt = kPulseAt + sizeof(SlotPulse);
constexpr uint64_t kFileBytes = kRingAt + uint64_t{kSlotCount} * sizeof(SlotEntry);

template <class Part>
uint64_t ChecksumOf(const Part& part) {
  return Hash64({reinterpret_cast<const char*>(&part), offsetof(Part, checksum)});
}

template <class Part>
void Seal(Part* part) {
  part->checksum = ChecksumOf(*part);
}

template <class Part>
std::span<const std::byte> Bytes(const Part& part) {
  return std::as_bytes(std::span(&part, 1));
}

// False: short or torn.
template <class Part>
Result<bool> ReadPart(const ReadableFile& file, uint64_t offset, Part* part) {
  Part read;
  TDUMP_ASSIGN_OR_RETURN(const size_t bytes,
                         file.ReadAt(offset, std::as_writable_bytes(std::span(&read, 1))));
  if (bytes != sizeof(Part) || read.checksum != ChecksumOf(read)) return false;
  *part = read;
  return true;
}

}  // namespace

std::string SlotPath(const std::string& run, const std::string& directory) {
  return JoinPath(JoinPath(run, "clock"), directory + ".slot");
}

SlotHeader MakeSlotHeader(const Identity& identity, uint32_t generation, int64_t now_ns) {
  SlotHeader header;
  header.rank = identity.rank;
  header.world = identity.world;
  header.generation = generation;
  header.pid = identity.pid;
  header.start_time = identity.start_time;
  header.job_hash = Hash64(identity.job_key);
  header.started_ns = now_ns;
  std::strncpy(header.host, identity.host.c_str(), sizeof header.host - 1);
  Seal(&header);
  return header;
}

SlotWriter::SlotWriter(Env* env, std::unique_ptr<WritableFile> file, const SlotHeader& header)
    : env_(env), file_(std::move(file)), header_(header) {
  waiting_.reserve(kSlotCount + 1);
  (void)file_->Preallocate(0, kFileBytes, true);
  (void)file_->WriteAt(0, Bytes(header_));
  (void)WritePulse();
}

void SlotWriter::Add(const AgreementMessage& message) {
  const uint64_t number = waiting_.empty() ? pulse_.messages + 1 : waiting_.back().number + 1;
  waiting_.push_back({.number = number, .message = message});
  Seal(&waiting_.back());
  if (waiting_.size() > kSlotCount) waiting_.erase(waiting_.begin());
}

// Runs of slots that lie beside each other are one write.
Status SlotWriter::WriteEntries() {
  for (size_t i = 0; i < waiting_.size();) {
    const uint64_t slot = (waiting_[i].number - 1) % kSlotCount;
    const size_t run = std::min<size_t>(waiting_.size() - i, kSlotCount - slot);
    TDUMP_RETURN_IF_ERROR(file_->WriteAt(kRingAt + slot * sizeof(SlotEntry),
                                         std::as_bytes(std::span(&waiting_[i], run))));
    i += run;
  }
  if (!waiting_.empty()) pulse_.messages = waiting_.back().number;
  waiting_.clear();
  return {};
}

Status SlotWriter::WritePulse() {
  pulse_.time_ns = env_->WallNs();
  Seal(&pulse_);
  return file_->WriteAt(kPulseAt, Bytes(pulse_));
}

Status SlotWriter::Flush(uint64_t steps, uint64_t settled) {
  TDUMP_RETURN_IF_ERROR(WriteEntries());
  pulse_.steps = steps;
  pulse_.settled = settled;
  return WritePulse();
}

Status SlotWriter::SetState(SlotState state) {
  pulse_.state = state;
  TDUMP_RETURN_IF_ERROR(WriteEntries());
  return WritePulse();
}

Result<SlotReader> SlotReader::Open(Env* env, const std::string& path) {
  SlotReader reader(env, path);
  TDUMP_RETURN_IF_ERROR(reader.EnsureOpen());
  TDUMP_ASSIGN_OR_RETURN(const bool whole, ReadPart(*reader.file_, 0, &reader.header_));
  const SlotHeader expected;
  if (!whole || std::memcmp(reader.header_.magic, expected.magic, sizeof expected.magic) != 0 ||
      reader.header_.slots != kSlotCount) {
    return Corrupt("'" + path + "' at byte 0: expected the header of a slot file");
  }
  TDUMP_RETURN_IF_ERROR(reader.Refresh());
  return reader;
}

Status SlotReader::EnsureOpen() {
  if (file_ != nullptr) return {};
  TDUMP_ASSIGN_OR_RETURN(file_, env_->OpenRead(path_));
  return {};
}

Status SlotReader::Refresh() {
  TDUMP_RETURN_IF_ERROR(EnsureOpen());
  return ReadPart(*file_, kPulseAt, &pulse_).status();
}

Status SlotReader::Read(std::vector<AgreementMessage>* messages) {
  TDUMP_RETURN_IF_ERROR(Refresh());
  if (pulse_.messages > read_ + kSlotCount) read_ = pulse_.messages - kSlotCount;
  while (read_ < pulse_.messages) {
    const uint64_t slot = read_ % kSlotCount;
    entries_.resize(std::min<uint64_t>(pulse_.messages - read_, kSlotCount - slot));
    TDUMP_ASSIGN_OR_RETURN(const size_t bytes,
                           file_->ReadAt(kRingAt + slot * sizeof(SlotEntry),
                                         std::as_writable_bytes(std::span(entries_))));
    entries_.resize(bytes / sizeof(SlotEntry));
    if (entries_.empty()) return {};
    for (const SlotEntry& entry : entries_) {
      ++read_;
      // Torn, or overwritten by a later one: lost.
      if (entry.number == read_ && entry.checksum == ChecksumOf(entry))
        messages->push_back(entry.message);
    }
  }
  return {};
}

}  // namespace tdump::coordinator
