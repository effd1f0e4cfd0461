#include "io/capture_entry.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "core/utf8.h"
#include "io/format.h"

namespace tdump::io {
namespace {

constexpr uint64_t kRoomAlignment = 64;

// Copies arrays and texts one behind the other. Arrays first: they are aligned to 8.
class Packer {
 public:
  explicit Packer(std::byte* at) : at_(at) {}
  template <class T>
  std::span<const T> Array(std::span<const T> from) {
    if (from.empty()) return {};
    auto* to = reinterpret_cast<T*>(at_);
    std::memcpy(to, from.data(), from.size_bytes());
    at_ += PadTo(from.size_bytes(), 8);
    return {to, from.size()};
  }
  template <class T>
  const T* One(const T* from) {
    if (from == nullptr) return nullptr;
    return new (At(alignof(T))) T(*from), Skip<T>();
  }
  std::string_view Text(std::string_view from) {
    if (from.empty()) return {};
    char* to = reinterpret_cast<char*>(at_);
    std::memcpy(to, from.data(), from.size());
    at_ += from.size();
    return {to, from.size()};
  }

 private:
  std::byte* At(size_t align) {
    at_ += (align - reinterpret_cast<uintptr_t>(at_) % align) % align;
    return at_;
  }
  template <class T>
  const T* Skip() {
    auto* made = reinterpret_cast<const T*>(at_);
    at_ += PadTo(sizeof(T), 8);
    return made;
  }
  std::byte* at_;
};

std::byte* PayloadBehind(std::byte* room, uint64_t bytes, uint64_t payload) {
  return room + (bytes - PadTo(payload, kRoomAlignment));
}

}  // namespace

uint64_t EntryBytes(const RecordEntry& from) {
  const Observation& seen = from.observation;
  const TensorMeta& meta = seen.meta;
  const uint64_t arrays =
      8 * (meta.sizes.size() + meta.strides.size() + seen.global_shape.size()) +
      (from.statistics == nullptr ? 0 : sizeof(Statistics) + alignof(Statistics)) +
      (from.hash == nullptr ? 0 : sizeof(Hash128));
  const uint64_t texts = seen.arg.size() + meta.device.size() + meta.dim_names.size() +
                         meta.subclass.size() + seen.dims.size() + seen.placements.size() +
                         seen.mesh.size() + std::min(from.detail.size(), kMaxReasonDetail);
  return PadTo(sizeof(CaptureEntry) + arrays + texts, AlignOf(from.payload)) +
         PadTo(from.payload, kRoomAlignment);
}

CaptureEntry* MakeEntry(const RecordEntry& from, uint64_t bytes, std::byte* room) {
  auto* entry = new (room) CaptureEntry;
  entry->room = bytes;
  entry->call = from.call;
  entry->keep = from.keep;
  entry->reason = from.reason;
  Observation& seen = entry->observation;
  seen = from.observation;
  Packer pack(room + sizeof(CaptureEntry));
  entry->statistics = pack.One(from.statistics);
  entry->hash = pack.One(from.hash);
  seen.meta.sizes = pack.Array(seen.meta.sizes);
  seen.meta.strides = pack.Array(seen.meta.strides);
  seen.global_shape = pack.Array(seen.global_shape);
  seen.arg = pack.Text(seen.arg);
  seen.dims = pack.Text(seen.dims);
  seen.placements = pack.Text(seen.placements);
  seen.mesh = pack.Text(seen.mesh);
  seen.meta.device = pack.Text(seen.meta.device);
  seen.meta.dim_names = pack.Text(seen.meta.dim_names);
  seen.meta.subclass = pack.Text(seen.meta.subclass);
  entry->detail = pack.Text(CutUtf8(from.detail, kMaxReasonDetail));
  entry->payload = PayloadBehind(room, bytes, from.payload);
  entry->bytes = from.payload;
  return entry;
}

uint64_t CallEntryBytes(std::span<const std::byte> arguments, std::span<const std::byte> text) {
  return PadTo(sizeof(CaptureEntry) + PadTo(arguments.size(), 8) + PadTo(text.size(), 8),
               kRoomAlignment);
}

CaptureEntry* MakeCallEntry(const Call& call, std::span<const std::byte> arguments,
                            std::span<const std::byte> text, uint64_t bytes, std::byte* room) {
  auto* entry = new (room) CaptureEntry;
  entry->kind = CaptureEntry::Kind::kCall;
  entry->room = bytes;
  entry->call = call;
  Packer pack(room + sizeof(CaptureEntry));
  entry->arguments = pack.Array(arguments);
  entry->text = pack.Array(text);
  entry->is_committed.store(true, std::memory_order_relaxed);
  return entry;
}

uint64_t PieceEntryBytes(uint64_t payload) {
  return PadTo(sizeof(CaptureEntry), AlignOf(payload)) + PadTo(payload, kRoomAlignment);
}

CaptureEntry* MakePieceEntry(CaptureEntry* head, uint64_t offset, uint64_t payload, uint64_t bytes,
                             std::byte* room) {
  auto* entry = new (room) CaptureEntry;
  entry->kind = CaptureEntry::Kind::kPiece;
  entry->room = bytes;
  entry->head = head;
  entry->offset = offset;
  entry->payload = PayloadBehind(room, bytes, payload);
  entry->bytes = payload;
  entry->is_committed.store(true, std::memory_order_relaxed);
  return entry;
}

}  // namespace tdump::io
