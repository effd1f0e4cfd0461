// Files of other tools, made byte by byte.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "compare/foreign/foreign_tensor.h"

namespace tdump::compare::foreign::test {

template <class T>
std::string Raw(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}
template <class T>
std::string RawAll(const std::vector<T>& values) {
  std::string bytes;
  for (const T value : values) bytes += Raw(value);
  return bytes;
}

// --- ZIP ---

struct ZipEntry {
  std::string name, data;
  bool deflated = false;
};

inline std::string Deflate(const std::string& data) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY);
  std::string packed(deflateBound(&stream, data.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

inline std::string Zip(const std::vector<ZipEntry>& entries) {
  std::string file, directory;
  for (const ZipEntry& entry : entries) {
    const std::string packed = entry.deflated ? Deflate(entry.data) : entry.data;
    const auto crc =
        static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(entry.data.data()),
                                    static_cast<uInt>(entry.data.size())));
    const std::string common = Raw<uint16_t>(20) + Raw<uint16_t>(0) +
                               Raw<uint16_t>(entry.deflated ? 8 : 0) + Raw<uint32_t>(0) + Raw(crc) +
                               Raw(static_cast<uint32_t>(packed.size())) +
                               Raw(static_cast<uint32_t>(entry.data.size())) +
                               Raw(static_cast<uint16_t>(entry.name.size())) + Raw<uint16_t>(0);
    // Between the lengths and the offset: comment length, disk, attributes.
    directory += "PK\x01\x02" + Raw<uint16_t>(20) + common + std::string(10, '\0') +
                 Raw(static_cast<uint32_t>(file.size())) + entry.name;
    file += "PK\x03\x04" + common + entry.name + packed;
  }
  const auto at = static_cast<uint32_t>(file.size());
  const auto count = static_cast<uint16_t>(entries.size());
  return file + directory + "PK\x05\x06" + Raw<uint32_t>(0) + Raw(count) + Raw(count) +
         Raw(static_cast<uint32_t>(directory.size())) + Raw(at) + Raw<uint16_t>(0);
}

// --- Pickles (protocol 2) ---

inline std::string Text(std::string_view text) {
  return "X" + Raw(static_cast<uint32_t>(text.size())) + std::string(text);
}
inline std::string Int(int32_t number) { return "J" + Raw(number); }
inline std::string Ints(const std::vector<int32_t>& numbers) {
  std::string tuple = "(";
  for (const int32_t number : numbers) tuple += Int(number);
  return tuple + "t";
}
inline std::string Global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
inline std::string Storage(const std::string& cls, const std::string& key, int32_t units,
                           const std::string& module = "torch") {
  return "(" + Text("storage") + Global(module, cls) + Text(key) + Text("cpu") + Int(units) + "tQ";
}
inline std::string Tensor(const std::string& storage, int32_t first,
                          const std::vector<int32_t>& sizes, const std::vector<int32_t>& strides) {
  return Global("torch._utils", "_rebuild_tensor_v2") + "(" + storage + Int(first) + Ints(sizes) +
         Ints(strides) + "\x89" + Global("collections", "OrderedDict") + ")RtR";
}
// {name: value, ...} of pickled values.
inline std::string Dict(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string dict = "}(";
  for (const auto& [name, value] : items) dict += Text(name) + value;
  return dict + "u";
}
inline std::string Pickle(const std::string& value) { return "\x80\x02" + value + "."; }

struct StorageBytes {
  std::string key, bytes;
};
inline std::string TorchZip(const std::string& pickle, const std::vector<StorageBytes>& storages) {
  std::vector<ZipEntry> entries = {{"archive/data.pkl", pickle}, {"archive/byteorder", "little"}};
  for (const StorageBytes& storage : storages)
    entries.push_back({"archive/data/" + storage.key, storage.bytes});
  return Zip(entries);
}

// --- NumPy and safetensors ---

inline std::string Npy(const std::string& header, const std::string& data, int version = 1) {
  std::string length = version == 1 ? Raw(static_cast<uint16_t>(header.size()))
                                    : Raw(static_cast<uint32_t>(header.size()));
  return std::string("\x93NUMPY") + static_cast<char>(version) + std::string(1, '\0') + length +
         header + data;
}
inline std::string NpyHeader(const std::string& descr, bool fortran, const std::string& shape) {
  return "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") +
         ", 'shape': " + shape + ", }\n";
}
inline std::string Safetensors(const std::string& header, const std::string& data) {
  return Raw(static_cast<uint64_t>(header.size())) + header + data;
}

// --- What was read ---

// The canonical payload, or the message of the error.
inline std::string Payload(const ForeignTensor& tensor) {
  auto read = OpenCanonical(tensor);
  if (!read.ok()) return read.status().message();
  std::string bytes(CanonicalBytes(tensor), '\0');
  const Status status = (*read)(0, std::as_writable_bytes(std::span(bytes)));
  return status.ok() ? bytes : status.message();
}
template <class T>
std::vector<T> Values(const ForeignTensor& tensor) {
  const std::string bytes = Payload(tensor);
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

}  // namespace tdump::compare::foreign::test
