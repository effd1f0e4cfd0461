#include "compare/foreign/torch_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "compare/foreign/pickle_machine.h"
#include "compare/foreign/pickle_walk.h"

namespace tdump::compare::foreign {
namespace {

constexpr std::string_view kPickle = "data.pkl";

// The pickle of 0x1950a86a20f9469cfc6c, with which the older form begins.
constexpr std::array<std::byte, 10> kLegacyMagic = {
    std::byte{0x6c}, std::byte{0xfc}, std::byte{0x9c}, std::byte{0x46}, std::byte{0xf9},
    std::byte{0x20}, std::byte{0x6a}, std::byte{0xa8}, std::byte{0x50}, std::byte{0x19}};

const ZipMember* FindPickle(const ZipArchive& archive) {
  for (const ZipMember& member : archive.members()) {
    const size_t slash = member.name.find('/');
    if (slash != std::string::npos && member.name.substr(slash + 1) == kPickle) return &member;
  }
  return nullptr;
}

// Of a storage: how to open it, and how long it is.
struct StoragePlace {
  uint64_t bytes = 0;
  OpenBytes open;
};
using FindStorage = std::function<Result<StoragePlace>(const PickleStorage&)>;

// Tensors of the heap -> tensors of the file.
Result<ForeignFile> Collect(const PickleHeap& heap, PickleRef root, const std::string& file,
                            bool big_endian, const FindStorage& find) {
  TDUMP_ASSIGN_OR_RETURN(const PickleContents contents, WalkPickle(heap, root, file));
  ForeignFile all{.skipped = contents.skipped, .texts = contents.texts};
  for (const PickledTensor& found : contents.tensors) {
    const PickleTensor& pickled = heap.tensor(found.tensor);
    const auto of_tensor = [&] { return fmt::format("'{}': '{}'", file, TextOf(found.place)); };
    Result<StoragePlace> storage = find(heap.storages()[pickled.storage]);
    if (!storage.ok()) return std::move(storage).status().Annotate(of_tensor());
    if (pickled.lazy_sign) {
      all.skipped.push_back(
          fmt::format("'{}': a conjugate or negative view; save x.resolve_conj().resolve_neg()",
                      TextOf(found.place)));
      continue;
    }
    ForeignTensor tensor{.place = found.place,
                         .dtype = pickled.dtype,
                         .sizes = pickled.sizes,
                         .strides = pickled.strides,
                         .first = pickled.first,
                         .storage_bytes = storage->bytes,
                         .storage = pickled.storage,
                         .big_endian = big_endian,
                         .parameter = pickled.parameter,
                         .requires_grad = pickled.requires_grad,
                         .open = storage->open};
    TDUMP_RETURN_IF_ERROR(CheckView(tensor).Annotate(of_tensor()));
    all.tensors.push_back(std::move(tensor));
  }
  return all;
}

Result<bool> IsBigEndian(const ZipArchive& archive, const std::string& prefix) {
  const ZipMember* member = archive.Find(prefix + "byteorder");
  if (member == nullptr) return false;
  TDUMP_ASSIGN_OR_RETURN(const Bytes bytes, archive.OpenMember(*member));
  ByteReader reader(bytes, 0, bytes->size());
  TDUMP_ASSIGN_OR_RETURN(const std::string order, reader.ReadText(bytes->size(), 16));
  if (order == "little" || order == "big") return order == "big";
  return Corrupt(fmt::format("'{}' says '{}' instead of little or big", bytes->name(), order));
}

// Storages follow one another at the end of the file: the number of units, then the units.
Result<std::map<std::string, StoragePlace>> PlaceStorages(const Bytes& file, ByteReader* reader,
                                                          const PickleHeap& heap) {
  std::map<std::string, uint64_t> unit_bytes;
  for (const PickleStorage& storage : heap.storages())
    unit_bytes.emplace(storage.key, storage.dtype ? storage.dtype->unit_bytes() : 1);
  PickleHeap keys_heap;
  TDUMP_ASSIGN_OR_RETURN(const PickleRef keys, PickleMachine(reader, &keys_heap).Run());
  if (keys_heap.kind(keys) != PickleKind::kList)
    return reader->Error("expected the storages' keys");
  std::map<std::string, StoragePlace> places;
  uint64_t offset = reader->offset();
  for (const PickleRef key : keys_heap.items(keys)) {
    if (keys_heap.kind(key) != PickleKind::kText || !unit_bytes.contains(keys_heap.text(key)))
      return reader->Error("a storage that no tensor uses");
    std::array<std::byte, 8> count;
    TDUMP_RETURN_IF_ERROR(file->ReadAt(offset, count));
    offset += count.size();
    const uint64_t units = Little64(count.data());
    const uint64_t each = unit_bytes[keys_heap.text(key)];
    if (units > (file->size() - offset) / each)
      return Corrupt(fmt::format("'{}', offset {}: a storage of {} units reaches beyond the end",
                                 file->name(), offset - count.size(), units));
    places[keys_heap.text(key)] = {units * each, [bytes = PartOf(file, offset, units * each)] {
                                     return Result<Bytes>(bytes);
                                   }};
    offset += units * each;
  }
  return places;
}

// {'little_endian': True, ...}
bool SaysBigEndian(const PickleHeap& heap, PickleRef info) {
  if (heap.kind(info) != PickleKind::kDict) return false;
  const std::vector<PickleRef>& items = heap.items(info);
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    if (heap.kind(items[i]) == PickleKind::kText && heap.text(items[i]) == "little_endian")
      return heap.kind(items[i + 1]) == PickleKind::kBool && heap.at(items[i + 1]).number == 0;
  }
  return false;
}

}  // namespace

bool LooksLikeLegacyTorch(const ByteSource& file) {
  std::array<std::byte, 40> start{};
  const auto part = std::span(start).first(std::min<uint64_t>(start.size(), file.size()));
  if (!file.ReadAt(0, part).ok() || start[0] != std::byte{0x80}) return false;
  return std::search(part.begin(), part.end(), kLegacyMagic.begin(), kLegacyMagic.end()) !=
         part.end();
}

bool IsTorchArchive(const ZipArchive& archive) { return FindPickle(archive) != nullptr; }

Result<ForeignFile> ReadTorchArchive(std::shared_ptr<const ZipArchive> archive, Bytes file) {
  const ZipMember* pickle = FindPickle(*archive);
  if (pickle == nullptr)
    return Unsupported(fmt::format("'{}' is a ZIP file without a {}", file->name(), kPickle));
  const std::string prefix = pickle->name.substr(0, pickle->name.size() - kPickle.size());
  TDUMP_ASSIGN_OR_RETURN(const bool big_endian, IsBigEndian(*archive, prefix));
  TDUMP_ASSIGN_OR_RETURN(const Bytes bytes, archive->OpenMember(*pickle));
  ByteReader reader(bytes, 0, bytes->size());
  PickleHeap heap;
  TDUMP_ASSIGN_OR_RETURN(const PickleRef root, PickleMachine(&reader, &heap).Run());
  const auto find = [&](const PickleStorage& storage) -> Result<StoragePlace> {
    const ZipMember* member = archive->Find(prefix + "data/" + storage.key);
    if (member == nullptr) return Corrupt(fmt::format("storage '{}' is missing", storage.key));
    return StoragePlace{member->bytes, [archive, member] { return archive->OpenMember(*member); }};
  };
  return Collect(heap, root, file->name(), big_endian, find);
}

Result<ForeignFile> ReadLegacyTorch(Bytes file) {
  ByteReader reader(file, 0, file->size());
  PickleHeap head;  // the magic number, the protocol's version, facts of the machine
  PickleRef info = 0;
  for (int i = 0; i < 3; ++i) {
    TDUMP_ASSIGN_OR_RETURN(info, PickleMachine(&reader, &head).Run());
  }
  PickleHeap heap;
  TDUMP_ASSIGN_OR_RETURN(const PickleRef root, PickleMachine(&reader, &heap).Run());
  TDUMP_ASSIGN_OR_RETURN(const auto places, PlaceStorages(file, &reader, heap));
  const auto find = [&](const PickleStorage& storage) -> Result<StoragePlace> {
    const auto found = places.find(storage.key);
    if (found == places.end()) return Corrupt(fmt::format("storage '{}' is missing", storage.key));
    return found->second;
  };
  return Collect(heap, root, file->name(), SaysBigEndian(head, info), find);
}

}  // namespace tdump::compare::foreign
