#include "compare/foreign/byte_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace tdump::compare::foreign {
namespace {

constexpr uint64_t kPiece = 64 * 1024;
constexpr size_t kMostOpen = 64;

class TextSource : public ByteSource {
 public:
  TextSource(std::string name, std::string bytes)
      : ByteSource(std::move(name), bytes.size()), bytes_(std::move(bytes)) {}

 private:
  Status DoRead(uint64_t offset, std::span<std::byte> out) const override {
    std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return {};
  }

  std::string bytes_;
};

class PartSource : public ByteSource {
 public:
  PartSource(Bytes whole, uint64_t offset, uint64_t size, std::string name)
      : ByteSource(std::move(name), size), whole_(std::move(whole)), offset_(offset) {}

 private:
  Status DoRead(uint64_t offset, std::span<std::byte> out) const override {
    return whole_->ReadAt(offset_ + offset, out);
  }

  Bytes whole_;
  uint64_t offset_;
};

template <class T>
T Little(const std::byte* at) {
  T value = 0;
  for (size_t i = sizeof value; i-- > 0;)
    value = static_cast<T>(value << 8 | std::to_integer<T>(at[i]));
  return value;
}

}  // namespace

Status ByteSource::ReadAt(uint64_t offset, std::span<std::byte> out) const {
  if (offset > size_ || out.size() > size_ - offset) {
    return Corrupt(fmt::format("'{}': {} bytes are needed at offset {}, the end is at {}", name_,
                               out.size(), offset, size_));
  }
  return out.empty() ? Status::Ok() : DoRead(offset, out);
}

class FileSource : public ByteSource {
 public:
  FileSource(std::shared_ptr<OpenFiles> files, const std::string& path, uint64_t size)
      : ByteSource(path, size), files_(std::move(files)) {}

 private:
  Status DoRead(uint64_t offset, std::span<std::byte> out) const override {
    TDUMP_ASSIGN_OR_RETURN(const OpenFiles::Handle file, files_->Get(name()));
    if (file->Size() != size())
      return Corrupt(fmt::format("'{}' changed while it was read", name()));
    TDUMP_ASSIGN_OR_RETURN(const size_t count, file->ReadAt(offset, out));
    if (count == out.size()) return {};
    return Corrupt(fmt::format("'{}' became shorter while it was read", name()));
  }

  std::shared_ptr<OpenFiles> files_;
};

std::shared_ptr<OpenFiles> OpenFiles::Of(Env* env) {
  return std::shared_ptr<OpenFiles>(new OpenFiles(env));
}

Result<OpenFiles::Handle> OpenFiles::Get(const std::string& path) {
  std::lock_guard lock(mutex_);
  const auto found = std::find_if(recent_.begin(), recent_.end(),
                                  [&](const Handle& file) { return file->path() == path; });
  if (found != recent_.end()) {
    recent_.splice(recent_.begin(), recent_, found);
    return recent_.front();
  }
  TDUMP_ASSIGN_OR_RETURN(Handle file, env_->OpenRead(path));
  recent_.push_front(std::move(file));
  if (recent_.size() > kMostOpen) recent_.pop_back();
  return recent_.front();
}

Result<Bytes> OpenFiles::Open(const std::string& path) {
  TDUMP_ASSIGN_OR_RETURN(const Handle file, Get(path));
  return Bytes(std::make_shared<FileSource>(shared_from_this(), path, file->Size()));
}

Bytes FromText(std::string name, std::string bytes) {
  return std::make_shared<TextSource>(std::move(name), std::move(bytes));
}

Bytes PartOf(Bytes whole, uint64_t offset, uint64_t size, std::string name) {
  if (name.empty()) name = whole->name();
  return std::make_shared<PartSource>(std::move(whole), offset, size, std::move(name));
}

uint16_t Little16(const std::byte* at) { return Little<uint16_t>(at); }
uint32_t Little32(const std::byte* at) { return Little<uint32_t>(at); }
uint64_t Little64(const std::byte* at) { return Little<uint64_t>(at); }

ByteReader::ByteReader(Bytes source, uint64_t begin, uint64_t end)
    : source_(std::move(source)),
      offset_(std::min(begin, source_->size())),
      end_(std::clamp(end, offset_, source_->size())) {}

Status ByteReader::Fill() {
  buffer_.resize(std::min(kPiece, left()));
  at_ = 0;
  const Status status = source_->ReadAt(offset_, std::as_writable_bytes(std::span(buffer_)));
  if (!status.ok()) buffer_.clear();
  return status;
}

Status ByteReader::Read(std::span<std::byte> out) {
  if (out.size() > left())
    return Error(fmt::format("{} bytes are needed, {} are left", out.size(), left()));
  while (!out.empty()) {
    if (at_ == buffer_.size()) TDUMP_RETURN_IF_ERROR(Fill());
    const size_t count = std::min(out.size(), buffer_.size() - at_);
    std::memcpy(out.data(), buffer_.data() + at_, count);
    out = out.subspan(count);
    at_ += count;
    offset_ += count;
  }
  return {};
}

Result<uint8_t> ByteReader::ReadByte() {
  std::byte byte{};
  TDUMP_RETURN_IF_ERROR(Read({&byte, 1}));
  return std::to_integer<uint8_t>(byte);
}

Result<int> ByteReader::Peek() {
  if (left() == 0) return -1;
  if (at_ == buffer_.size()) TDUMP_RETURN_IF_ERROR(Fill());
  return static_cast<unsigned char>(buffer_[at_]);
}

Result<std::string> ByteReader::ReadText(uint64_t bytes, uint64_t most) {
  if (bytes > left()) return Error(fmt::format("{} bytes are needed, {} are left", bytes, left()));
  if (bytes > most)
    return Error(fmt::format("a text of {} bytes, at most {} are read", bytes, most));
  std::string text(bytes, '\0');
  TDUMP_RETURN_IF_ERROR(Read(std::as_writable_bytes(std::span(text))));
  return text;
}

Result<std::string> ByteReader::ReadLine(uint64_t most) {
  std::string line;
  while (true) {
    TDUMP_ASSIGN_OR_RETURN(const uint8_t byte, ReadByte());
    if (byte == '\n') return line;
    if (line.size() == most) return Error(fmt::format("a line of more than {} bytes", most));
    line += static_cast<char>(byte);
  }
}

Status ByteReader::Error(const std::string& what) const {
  return Corrupt(fmt::format("'{}', offset {}: {}", name(), offset_, what));
}

}  // namespace tdump::compare::foreign
