// Sections as bytes: SectionHeader, cereal archive, padding to 8 (io/format.h).
//
//   std::string body = EncodeSection(record) + EncodeSection(hash);     // the body of a frame
//   for (SectionCursor cursor(body_bytes, swap); cursor.Next();)        // and back
//     if (cursor.id() == RecordSection::kId) {
//       TDUMP_ASSIGN_OR_RETURN(record, cursor.Decode<RecordSection>());
//     }
//
// The archives know fixed-width integers, strings (u64 count, bytes) and vectors (u64 count,
// elements); anything else does not compile. SectionReader trusts nothing: a count is checked
// against the bytes left before anything is allocated. It throws inside cereal; DecodeSection and
// SectionCursor catch and return a Status, so nothing throws beyond this header.
#pragma once

#include <array>
#include <cereal/cereal.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "core/status.h"
#include "io/byte_order.h"
#include "io/format.h"

namespace tdump::io {

// Integers whose width is the same on every platform. `long long`, `wchar_t`, bool and floating
// point are not among them.
template <class T>
concept FixedWidth = std::is_same_v<T, uint8_t> || std::is_same_v<T, int8_t> ||
    std::is_same_v<T, uint16_t> || std::is_same_v<T, int16_t> || std::is_same_v<T, uint32_t> ||
    std::is_same_v<T, int32_t> || std::is_same_v<T, uint64_t> || std::is_same_v<T, int64_t>;

// Appends an archive in host byte order to a string.
class SectionWriter : public cereal::OutputArchive<SectionWriter, cereal::AllowEmptyClassElision> {
 public:
  explicit SectionWriter(std::string* out)
      : cereal::OutputArchive<SectionWriter, cereal::AllowEmptyClassElision>(this), out_(out) {}
  void Bytes(const void* data, size_t bytes) {
    out_->append(static_cast<const char*>(data), bytes);
  }

 private:
  std::string* out_;
};

// Why an archive cannot be read; `offset` is within the archive.
struct ArchiveError : cereal::Exception {
  ArchiveError(const std::string& what, size_t at) : cereal::Exception(what), offset(at) {}
  size_t offset;
};

// Reads an archive from memory it does not own, swapping bytes when the
// file is of the other byte order.
class SectionReader : public cereal::InputArchive<SectionReader, cereal::AllowEmptyClassElision> {
 public:
  SectionReader(std::span<const std::byte> bytes, bool swap)
      : cereal::InputArchive<SectionReader, cereal::AllowEmptyClassElision>(this),
        bytes_(bytes),
        swap_(swap) {}

  size_t left() const { return bytes_.size() - position_; }
  void Bytes(void* out, size_t bytes) {
    if (bytes > left())
      Fail("ends after " + std::to_string(left()) + " of " + std::to_string(bytes) + " bytes");
    if (bytes != 0) std::memcpy(out, bytes_.data() + position_, bytes);
    position_ += bytes;
  }
  template <FixedWidth T>
  void Value(T& value) {
    Bytes(&value, sizeof(T));
    if (swap_) value = SwapBytes(value);
  }
  // A count of elements that take at least `minimum` bytes each.
  uint64_t Count(size_t minimum) {
    uint64_t count = 0;
    Value(count);
    if (count > left() / minimum) {
      Fail("count " + std::to_string(count) + " is more than the " + std::to_string(left()) +
           " bytes left can hold");
    }
    return count;
  }
  bool swap() const { return swap_; }

 private:
  [[noreturn]] void Fail(const std::string& what) const { throw ArchiveError(what, position_); }

  std::span<const std::byte> bytes_;
  size_t position_ = 0;
  bool swap_;
};

// What cereal calls for each kind of field; found through the archive's namespace.
template <FixedWidth T>
void CEREAL_SAVE_FUNCTION_NAME(SectionWriter& archive, const T& value) {
  archive.Bytes(&value, sizeof(T));
}
template <FixedWidth T>
void CEREAL_LOAD_FUNCTION_NAME(SectionReader& archive, T& value) {
  archive.Value(value);
}
inline void CEREAL_SAVE_FUNCTION_NAME(SectionWriter& archive, const std::string& text) {
  const uint64_t count = text.size();
  archive.Bytes(&count, sizeof(count));
  archive.Bytes(text.data(), text.size());
}
inline void CEREAL_LOAD_FUNCTION_NAME(SectionReader& archive, std::string& text) {
  text.resize(archive.Count(1));
  archive.Bytes(text.data(), text.size());
}
template <size_t N>
void CEREAL_SAVE_FUNCTION_NAME(SectionWriter& archive, const std::array<uint8_t, N>& bytes) {
  archive.Bytes(bytes.data(), N);
}
template <size_t N>
void CEREAL_LOAD_FUNCTION_NAME(SectionReader& archive, std::array<uint8_t, N>& bytes) {
  archive.Bytes(bytes.data(), N);
}
template <class T>
void CEREAL_SAVE_FUNCTION_NAME(SectionWriter& archive, const std::vector<T>& items) {
  const uint64_t count = items.size();
  archive.Bytes(&count, sizeof(count));
  if constexpr (FixedWidth<T>) {
    archive.Bytes(items.data(), items.size() * sizeof(T));
  } else {
    for (const T& item : items) archive(item);
  }
}
template <class T>
void CEREAL_LOAD_FUNCTION_NAME(SectionReader& archive, std::vector<T>& items) {
  items.clear();
  if constexpr (FixedWidth<T>) {
    items.resize(archive.Count(sizeof(T)));
    archive.Bytes(items.data(), items.size() * sizeof(T));
    if (archive.swap()) {
      for (T& item : items) item = SwapBytes(item);
    }
  } else {
    // Grown element by element: a struct may be larger in memory than in the archive.
    for (uint64_t count = archive.Count(1); count > 0; --count) archive(items.emplace_back());
  }
}

// XXH3-64, the checksum of headers and sections.
uint64_t Checksum(const void* data, size_t bytes);

// Fills header and padding around an archive that begins at `start` +
// sizeof(SectionHeader) in `body`.
void FinishSection(uint32_t id, size_t start, std::string* body);

// Appends one section to a frame's body.
template <class T>
void AppendSection(const T& section, std::string* body) {
  const size_t start = body->size();
  body->append(sizeof(SectionHeader), '\0');
  SectionWriter archive(body);
  archive(section);
  FinishSection(T::kId, start, body);
}

template <class T>
std::string EncodeSection(const T& section) {
  std::string body;
  AppendSection(section, &body);
  return body;
}

// Decodes one archive (without its header). Bytes left over are an error: a section never changes.
template <class T>
Result<T> DecodeSection(std::span<const std::byte> bytes, bool swap = false) {
  T section;
  try {
    SectionReader archive(bytes, swap);
    archive(section);
    if (archive.left() != 0) {
      return Corrupt("section " + std::to_string(T::kId) + " has " +
                     std::to_string(archive.left()) + " bytes too many");
    }
  } catch (const ArchiveError& error) {
    return Corrupt("section " + std::to_string(T::kId) + " at byte " +
                   std::to_string(error.offset) + " of its archive: " + error.what());
  } catch (const std::exception& error) {
    return Corrupt("section " + std::to_string(T::kId) + ": " + error.what());
  }
  return section;
}

// Walks the sections of a frame's body. Stops at the end or at the first section that is not valid;
// status() tells which.
class SectionCursor {
 public:
  SectionCursor(std::span<const std::byte> body, bool swap) : body_(body), swap_(swap) {}

  bool Next();
  uint32_t id() const { return header_.id; }
  std::span<const std::byte> archive() const { return archive_; }
  size_t offset() const { return offset_; }  // of the section's header within the body
  const Status& status() const { return status_; }
  template <class T>
  Result<T> Decode() const {
    return DecodeSection<T>(archive_, swap_);
  }

 private:
  std::span<const std::byte> body_;
  bool swap_;
  size_t offset_ = 0;
  size_t next_ = 0;
  SectionHeader header_;
  std::span<const std::byte> archive_;
  Status status_;
};

}  // namespace tdump::io
