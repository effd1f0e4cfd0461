// ByteSource: the bytes of a file of somebody else, or of a part of one, read at any offset. The
// only way in which the parsers of this folder see a file: each read is checked against what is
// there, and nothing is mapped, so that a file that shrinks meanwhile gives an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "core/env.h"
#include "core/status.h"

namespace tdump::compare::foreign {

// Thread-safe unless the maker says otherwise.
class ByteSource {
 public:
  virtual ~ByteSource() = default;

  const std::string& name() const { return name_; }  // for messages
  uint64_t size() const { return size_; }
  // Fills `out`. Error: kCorrupt where the source ends earlier; what the file says.
  Status ReadAt(uint64_t offset, std::span<std::byte> out) const;

 protected:
  ByteSource(std::string name, uint64_t size) : name_(std::move(name)), size_(size) {}
  virtual Status DoRead(uint64_t offset, std::span<std::byte> out) const = 0;

 private:
  std::string name_;
  uint64_t size_;
};
using Bytes = std::shared_ptr<const ByteSource>;
// Opens the bytes of a part of a file when they are needed.
using OpenBytes = std::function<Result<Bytes>()>;

// Files by their paths, of which at most 64 are open at once: a dump has one for each tensor. Lives
// as long as what it gave. Thread-safe.
class OpenFiles : public std::enable_shared_from_this<OpenFiles> {
 public:
  static std::shared_ptr<OpenFiles> Of(Env* env);
  // Error: what opening says. Later reads open the file again where they must; one that has another
  // length by then is kCorrupt.
  Result<Bytes> Open(const std::string& path);
  Env* env() const { return env_; }

 private:
  friend class FileSource;
  using Handle = std::shared_ptr<const ReadableFile>;
  explicit OpenFiles(Env* env) : env_(env) {}
  Result<Handle> Get(const std::string& path);

  Env* env_;
  std::mutex mutex_;
  std::list<Handle> recent_;  // the last used first
};
Bytes FromText(std::string name, std::string bytes);
// Precondition: the part lies within `whole`. `name`: empty: that of the whole.
Bytes PartOf(Bytes whole, uint64_t offset, uint64_t size, std::string name = "");

uint16_t Little16(const std::byte* at);
uint32_t Little32(const std::byte* at);
uint64_t Little64(const std::byte* at);

// Reads a source from front to back in pieces of 64 KiB. Not thread-safe.
class ByteReader {
 public:
  ByteReader(Bytes source, uint64_t begin, uint64_t end);

  uint64_t offset() const { return offset_; }
  uint64_t left() const { return end_ - offset_; }
  const std::string& name() const { return source_->name(); }
  Status Read(std::span<std::byte> out);
  Result<uint8_t> ReadByte();
  // -1 at the end.
  Result<int> Peek();
  // Error (kCorrupt), before anything is allocated: more than what is left, or than `most`.
  Result<std::string> ReadText(uint64_t bytes, uint64_t most);
  // Up to and without the next newline.
  Result<std::string> ReadLine(uint64_t most);
  // "FILE: offset 12: what"
  Status Error(const std::string& what) const;

 private:
  Status Fill();

  Bytes source_;
  uint64_t offset_, end_;
  std::string buffer_;
  size_t at_ = 0;  // in buffer_
};

}  // namespace tdump::compare::foreign
