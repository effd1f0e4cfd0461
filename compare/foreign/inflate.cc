#include "compare/foreign/inflate.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <vector>

#include "core/temporary_directory.h"

namespace tdump::compare::foreign {
namespace {

constexpr uint64_t kPiece = 64 * 1024;
constexpr int kMaxRestarts = 3;

// A file without a name, which goes away with its descriptor.
class TemporaryFile {
 public:
  TemporaryFile() = default;
  ~TemporaryFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  int fd() const { return fd_; }
  Status Make() {
    std::string path = JoinPath(TemporaryDirectory(), "tdump-XXXXXX");
    fd_ = ::mkostemp(path.data(), O_CLOEXEC);
    if (fd_ < 0) return ErrnoStatus(errno, "cannot make a temporary file", path);
    ::unlink(path.c_str());
    return {};
  }

 private:
  int fd_ = -1;
};

Status WriteAll(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return ErrnoStatus(errno, "cannot write", "a temporary file");
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  return {};
}

Status ReadAll(int fd, uint64_t offset, std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t count = ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return ErrnoStatus(errno, "cannot read", "a temporary file");
    out = out.subspan(static_cast<size_t>(count));
    offset += static_cast<uint64_t>(count);
  }
  return {};
}

class InflatedSource : public ByteSource {
 public:
  InflatedSource(Bytes packed, uint64_t size)
      : ByteSource(packed->name(), size), packed_(std::move(packed)), input_(kPiece) {}
  ~InflatedSource() override {
    if (started_) inflateEnd(&stream_);
  }

 private:
  Status DoRead(uint64_t offset, std::span<std::byte> out) const override {
    return const_cast<InflatedSource*>(this)->Read(offset, out);
  }

  Status Read(uint64_t offset, std::span<std::byte> out) {
    if (is_unpacked_) return ReadAll(unpacked_.fd(), offset, out);
    if (!started_ || offset < produced_) {
      if (started_ && ++restarts_ > kMaxRestarts) {
        TDUMP_RETURN_IF_ERROR(UnpackAll());
        return ReadAll(unpacked_.fd(), offset, out);
      }
      TDUMP_RETURN_IF_ERROR(Restart());
    }
    TDUMP_RETURN_IF_ERROR(Skip(offset - produced_));
    return Next(out);
  }

  Status Restart() {
    if (started_) inflateEnd(&stream_);
    stream_ = {};
    started_ = inflateInit2(&stream_, -MAX_WBITS) == Z_OK;
    consumed_ = produced_ = 0;
    return started_ ? Status::Ok() : Internal("zlib does not start");
  }

  Status Skip(uint64_t bytes) {
    std::array<std::byte, 16 * 1024> scrap;
    while (bytes > 0) {
      const auto count = std::min<uint64_t>(bytes, scrap.size());
      TDUMP_RETURN_IF_ERROR(Next(std::span(scrap).first(count)));
      bytes -= count;
    }
    return {};
  }

  // The next bytes in order. After the last one the packed data must end too.
  Status Next(std::span<std::byte> out) {
    while (!out.empty()) {
      const auto piece = static_cast<uInt>(std::min<uint64_t>(out.size(), 1u << 30));
      stream_.next_out = reinterpret_cast<Bytef*>(out.data());
      stream_.avail_out = piece;
      const int result = Step();
      const uint64_t count = piece - stream_.avail_out;
      produced_ += count;
      out = out.subspan(count);
      if (result == Z_STREAM_END) {
        if (produced_ == size() && out.empty()) return {};
        return Bad(fmt::format("it unpacks to {} bytes instead of {}", produced_, size()));
      }
      if (result != Z_OK) return Bad("the deflated data is damaged");
    }
    return {};
  }

  // Z_OK: some bytes came out, or more input was taken. All input may be taken before the last
  // bytes are out.
  int Step() {
    const uint64_t count = std::min<uint64_t>(kPiece, packed_->size() - consumed_);
    if (stream_.avail_in == 0 && count != 0) {
      if (!packed_->ReadAt(consumed_, std::span(input_).first(count)).ok()) return Z_ERRNO;
      consumed_ += count;
      stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
      stream_.avail_in = static_cast<uInt>(count);
    }
    const int result = inflate(&stream_, Z_NO_FLUSH);
    const bool more = consumed_ < packed_->size();
    return result == Z_BUF_ERROR && stream_.avail_in == 0 && more ? Z_OK : result;
  }

  Status UnpackAll() {
    if (unpacked_.fd() < 0) TDUMP_RETURN_IF_ERROR(unpacked_.Make());
    TDUMP_RETURN_IF_ERROR(Restart());
    std::vector<std::byte> piece(kPiece);
    for (uint64_t left = size(); left > 0;) {
      const auto part = std::span(piece).first(std::min<uint64_t>(left, kPiece));
      TDUMP_RETURN_IF_ERROR(Next(part));
      TDUMP_RETURN_IF_ERROR(WriteAll(unpacked_.fd(), part));
      left -= part.size();
    }
    is_unpacked_ = true;
    return {};
  }

  Status Bad(const std::string& what) const {
    return Corrupt(fmt::format("'{}': {}", name(), what));
  }

  Bytes packed_;
  std::vector<std::byte> input_;
  z_stream stream_{};
  bool started_ = false;
  uint64_t consumed_ = 0, produced_ = 0;
  int restarts_ = 0;
  TemporaryFile unpacked_;
  bool is_unpacked_ = false;
};

}  // namespace

Bytes Inflate(Bytes packed, uint64_t size) {
  return std::make_shared<InflatedSource>(std::move(packed), size);
}

}  // namespace tdump::compare::foreign
