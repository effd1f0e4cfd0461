#include "compare/foreign/safetensors_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "compare/foreign/dtypes.h"
#include "compare/foreign/json_reader.h"

namespace tdump::compare::foreign {
namespace {

constexpr uint64_t kMaxHeader = 100'000'000;
constexpr uint64_t kLengthBytes = 8;
constexpr size_t kMaxDims = 64;

struct Entry {
  std::string name, dtype;
  std::vector<int64_t> shape, offsets;
};

Status ReadIntegers(JsonReader* json, std::vector<int64_t>* numbers) {
  return json->ReadArray([&]() -> Status {
    if (numbers->size() == kMaxDims) return json->Error("more than 64 numbers");
    TDUMP_ASSIGN_OR_RETURN(const int64_t number, json->ReadInteger());
    if (number < 0) return json->Error("a negative number");
    numbers->push_back(number);
    return {};
  });
}

Status ReadEntry(JsonReader* json, Entry* entry) {
  std::set<std::string> seen;
  TDUMP_RETURN_IF_ERROR(json->ReadObject([&](const std::string& key) -> Status {
    if (!seen.insert(key).second)
      return json->Error(fmt::format("'{}' of '{}' a second time", key, entry->name));
    if (key == "shape") return ReadIntegers(json, &entry->shape);
    if (key == "data_offsets") return ReadIntegers(json, &entry->offsets);
    if (key != "dtype") return json->Skip();
    TDUMP_ASSIGN_OR_RETURN(entry->dtype, json->ReadText());
    return {};
  }));
  if (!entry->dtype.empty() && entry->offsets.size() == 2 && entry->offsets[0] <= entry->offsets[1])
    return {};
  return json->Error(
      fmt::format("'{}' has no dtype, or no data_offsets [begin, end]", entry->name));
}

Result<std::vector<Entry>> ReadHeader(const Bytes& file, uint64_t bytes) {
  JsonReader json(file, kLengthBytes, kLengthBytes + bytes);
  std::vector<Entry> entries;
  std::set<std::string> names;
  TDUMP_RETURN_IF_ERROR(json.ReadObject([&](const std::string& key) -> Status {
    if (key == "__metadata__") return json.Skip();
    if (!names.insert(key).second)
      return json.Error(fmt::format("two tensors are named '{}'", key));
    entries.push_back({.name = key});
    return ReadEntry(&json, &entries.back());
  }));
  TDUMP_RETURN_IF_ERROR(json.ExpectEnd());
  return entries;
}

Status CheckPlaces(const Bytes& file, const std::vector<Entry>& entries, uint64_t data_bytes) {
  std::vector<const Entry*> order;
  for (const Entry& entry : entries) order.push_back(&entry);
  std::sort(order.begin(), order.end(),
            [](const Entry* a, const Entry* b) { return a->offsets < b->offsets; });
  int64_t end = 0;
  for (const Entry* entry : order) {
    if (entry->offsets[0] < end)
      return Corrupt(fmt::format("'{}': the bytes of '{}' overlap those of another tensor",
                                 file->name(), entry->name));
    end = entry->offsets[1];
    if (static_cast<uint64_t>(end) > data_bytes)
      return Corrupt(fmt::format("'{}': the bytes of '{}' reach beyond the end of the file",
                                 file->name(), entry->name));
  }
  return {};
}

// A unit of a packed dtype holds several elements of the last dimension.
bool ShapeInUnits(const DType& dtype, std::vector<int64_t>* shape) {
  if (dtype.elements_per_unit == 1) return true;
  if (shape->empty() || shape->back() % dtype.elements_per_unit != 0) return false;
  shape->back() /= dtype.elements_per_unit;
  return true;
}

Status AddTensor(const Bytes& file, uint64_t data, const Entry& entry, ForeignFile* all) {
  ForeignTensor tensor{.place = {entry.name}, .sizes = entry.shape};
  const std::optional<DType> dtype = SafetensorsDType(entry.dtype);
  if (!dtype || !ShapeInUnits(*dtype, &tensor.sizes)) {
    all->skipped.push_back(
        fmt::format("'{}': dtype {} is not known to this version", entry.name, entry.dtype));
    return {};
  }
  tensor.dtype = *dtype;
  tensor.strides = ContiguousStrides(tensor.sizes);
  const auto begin = static_cast<uint64_t>(entry.offsets[0]);
  tensor.storage = all->tensors.size();
  tensor.storage_bytes = static_cast<uint64_t>(entry.offsets[1]) - begin;
  const Status fits = CheckView(tensor);
  if (!fits.ok() || CanonicalBytes(tensor) != tensor.storage_bytes)
    return Corrupt(fmt::format("'{}': '{}' has {} bytes, which its dtype {} and shape do not need",
                               file->name(), entry.name, tensor.storage_bytes, entry.dtype));
  tensor.open = [bytes = PartOf(file, data + begin, tensor.storage_bytes)] {
    return Result<Bytes>(bytes);
  };
  all->tensors.push_back(std::move(tensor));
  return {};
}

}  // namespace

bool LooksLikeSafetensors(const ByteSource& file) {
  std::array<std::byte, kLengthBytes + 1> start;
  if (!file.ReadAt(0, start).ok()) return false;
  const uint64_t bytes = Little64(start.data());
  return bytes <= kMaxHeader && bytes <= file.size() - kLengthBytes && start[8] == std::byte{'{'};
}

Result<ForeignFile> ReadSafetensors(Bytes file) {
  std::array<std::byte, kLengthBytes> length;
  TDUMP_RETURN_IF_ERROR(file->ReadAt(0, length));
  const uint64_t bytes = Little64(length.data());
  if (bytes > kMaxHeader || bytes > file->size() - kLengthBytes)
    return Corrupt(fmt::format("'{}': a header of {} bytes in a file of {}", file->name(), bytes,
                               file->size()));
  TDUMP_ASSIGN_OR_RETURN(const std::vector<Entry> entries, ReadHeader(file, bytes));
  const uint64_t data = kLengthBytes + bytes;
  TDUMP_RETURN_IF_ERROR(CheckPlaces(file, entries, file->size() - data));
  ForeignFile all;
  for (const Entry& entry : entries) TDUMP_RETURN_IF_ERROR(AddTensor(file, data, entry, &all));
  return all;
}

}  // namespace tdump::compare::foreign
