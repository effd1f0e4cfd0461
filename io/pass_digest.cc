#include "io/pass_digest.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "io/record_body.h"
#include "io/sections.h"

namespace tdump::io {
namespace {

constexpr uint64_t kWindow = 256 * 1024;

class Digest {
 public:
  Digest() { XXH3_128bits_reset(&state_); }
  void Add(std::span<const std::byte> bytes) {
    XXH3_128bits_update(&state_, bytes.data(), bytes.size());
  }
  template <class T>
  void AddValue(const T& value) {
    Add(std::as_bytes(std::span(&value, 1)));
  }
  Hash128 Finish() {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&state_));
    Hash128 hash;
    std::memcpy(hash.data(), canonical.digest, sizeof(hash));
    return hash;
  }

 private:
  XXH3_state_t state_;
};

// The bytes of an archive, front to back. After a read beyond the end nothing is read.
class Bytes {
 public:
  explicit Bytes(std::span<const std::byte> bytes) : rest_(bytes) {}
  bool ok() const { return ok_; }
  bool empty() const { return rest_.empty(); }
  std::span<const std::byte> Take(uint64_t count) {
    if (count > rest_.size()) {
      ok_ = false;
      rest_ = {};
      return {};
    }
    const auto taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }
  template <class T>
  T Value() {
    T value{};
    if (const auto bytes = Take(sizeof(T)); !bytes.empty())
      std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  // A vector of u64, its count among the bytes.
  std::span<const std::byte> Words() {
    const std::span<const std::byte> whole = rest_;
    const auto count = Value<uint64_t>();
    if (count > rest_.size() / 8) return Take(rest_.size() + 1);
    Take(count * 8);
    return ok_ ? whole.first((count + 1) * 8) : whole.first(0);
  }

 private:
  std::span<const std::byte> rest_;
  bool ok_ = true;
};

class PassWalk {
 public:
  // False: of this frame nothing can be said.
  bool AddName(const Frame& frame, std::span<const std::byte> body) {
    keys_.AddValue(frame.kind);
    keys_.AddValue(frame.body_bytes);
    keys_.Add(body);
    return true;
  }

  bool AddRecord(std::span<const std::byte> body) {
    ++digest_.records;
    bool record = false, hash = false;
    Bytes rest(body);
    while (!rest.empty() && rest.ok()) {
      const auto header = rest.Value<SectionHeader>();
      const auto archive = rest.Take(header.bytes);
      if (header.id == RecordSection::kId) record = AddFields(archive);
      if (header.id == HashSection::kId) {
        values_.Add(archive);
        hash = true;
      }
      const uint64_t padding = (8 - header.bytes % 8) % 8;
      if (!rest.empty()) rest.Take(padding);
    }
    return rest.ok() && record && hash;
  }

  PassDigest Finish() {
    digest_.keys = keys_.Finish();
    digest_.values = values_.Finish();
    return digest_;
  }

 private:
  // The fields of RecordSection, in its order.
  bool AddFields(std::span<const std::byte> archive) {
    Bytes fields(archive);
    fields.Take(sizeof(uint64_t));          // record
    keys_.Add(fields.Take(4));              // op_id
    fields.Take(8);                         // call_begin
    keys_.Add(fields.Take(8 + 3 * 4 + 2));  // call_index, micro, chunk, lane, phase, role
    const auto flags = fields.Value<uint8_t>();
    keys_.AddValue(static_cast<uint8_t>(flags & 1));           // recompute
    values_.AddValue(static_cast<uint8_t>(flags & (8 | 16)));  // conj, neg
    values_.Add(fields.Take(1));                               // layout
    keys_.Add(fields.Take(4));                                 // arg_name
    values_.Add(fields.Take(4 + 2 + 2));  // dtype_name, bits_per_element, elements_per_unit
    fields.Take(4);                       // device_name
    values_.Add(fields.Words());          // sizes
    values_.Add(fields.Words());          // strides
    fields.Take(4 * 8 + 4);               // storage_*, seen, parts_asked
    values_.Add(fields.Take(4));          // parts_kept
    return fields.ok();
  }

  Digest keys_, values_;
  PassDigest digest_;
};

Status NothingSaid(const FrameFile& file, uint64_t offset) {
  return Unsupported(file.Error(offset, "the pass is not told by its hashes alone").message());
}

}  // namespace

Result<PassDigest> DigestPass(Env* env, const std::string& path, uint64_t offset, uint64_t bytes) {
  TDUMP_ASSIGN_OR_RETURN(const auto file, FrameFile::Open(env, path, kPassMagic, offset, bytes));
  const Result<FileFooter> footer = file->Footer();
  if (!footer.ok() || file->swapped()) return NothingSaid(*file, 0);
  FrameCursor cursor(*file, kWindow);
  PassWalk walk;
  for (uint64_t at = sizeof(FileHeader); at < footer->index_offset;) {
    TDUMP_ASSIGN_OR_RETURN(const Frame frame, cursor.At(at));
    at = frame.end();
    const bool name = frame.kind == FrameKind::kName || frame.kind == FrameKind::kOperator ||
                      frame.kind == FrameKind::kAlias;
    if (!name && frame.kind != FrameKind::kRecord) continue;
    const std::vector<std::byte> parts =
        name ? std::vector<std::byte>() : BodyWithoutTiles(&cursor, frame);
    std::span<const std::byte> body(parts);
    if (parts.empty()) {
      TDUMP_ASSIGN_OR_RETURN(body, cursor.Body(frame));
    }
    if (!(name ? walk.AddName(frame, body) : walk.AddRecord(body)))
      return NothingSaid(*file, frame.offset);
  }
  const PassDigest digest = walk.Finish();
  if (digest.records != footer->records) return NothingSaid(*file, 0);
  return digest;
}

}  // namespace tdump::io
