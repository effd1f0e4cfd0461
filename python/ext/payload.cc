#include "python/ext/payload.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <new>
#include <span>
#include <vector>

#include "io/format.h"
#include "io/hash.h"
#include "python/ext/errors.h"

namespace nb = nanobind;

namespace tdump::python {
namespace {

// Below this a copy costs less than a mapping, of which a process may have only some 65,000.
constexpr uint64_t kMapFrom = 64 * 1024;

// The record whose own bytes `record` shows. PassReader has checked
// that it exists before this is asked.
io::Record OwnerOf(const io::PassReader& pass, io::Record record) {
  while (record.payload->same_as != 0) record = ValueOf(pass.Get(record.payload->same_as));
  return record;
}

bool MatchesDigests(std::span<const std::byte> bytes, const std::vector<uint8_t>& digests) {
  std::vector<uint8_t> found;
  found.reserve(digests.size());
  io::AppendTileDigests(bytes, &found);
  return found == digests;
}

int GetBuffer(PyObject* self, Py_buffer* view, int flags) {
  const auto* payload = nb::inst_ptr<Payload>(self);
  return PyBuffer_FillInfo(view, self, payload->data(), static_cast<Py_ssize_t>(payload->size()), 0,
                           flags);
}

PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(GetBuffer)}, {0, nullptr}};

}  // namespace

Payload::~Payload() {
  if (mapping_ != nullptr)
    ::munmap(mapping_, mapping_bytes_);
  else
    std::free(data_);
}

bool Payload::Map(const std::string& path, uint64_t offset, uint64_t bytes) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  struct stat status = {};
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t start = offset / page * page;
  void* mapping = MAP_FAILED;
  if (::fstat(file, &status) == 0 && static_cast<uint64_t>(status.st_size) >= offset + bytes) {
    mapping = ::mmap(nullptr, offset - start + bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_NORESERVE, file, static_cast<off_t>(start));
  }
  ::close(file);
  if (mapping == MAP_FAILED) return false;
  mapping_ = mapping;
  mapping_bytes_ = offset - start + bytes;
  data_ = static_cast<std::byte*>(mapping) + (offset - start);
  return true;
}

std::unique_ptr<Payload> Payload::Open(const io::PassReader& pass, const io::Record& record,
                                       bool verify) {
  std::unique_ptr<Payload> payload(new Payload);
  const auto place = pass.MapPayload(record);  // says whether the bytes lie in the file as they are
  if (place.ok() && place->size() >= kMapFrom) {
    const io::Record owner = OwnerOf(pass, record);
    payload->size_ = owner.payload->logical_bytes;
    if (payload->Map(pass.path(), owner.payload->offset, payload->size_)) {
      if (!verify || MatchesDigests({payload->data_, payload->size_}, owner.tile_digests))
        return payload;
      payload = std::unique_ptr<Payload>(new Payload);  // ReadPayload below says which tile
    }
  }
  // Unsupported: of the other byte order, or compressed. Reading says what cannot be read.
  if (!place.ok() && place.status().code() != StatusCode::kUnsupported) Check(place.status());
  payload->size_ = record.payload->logical_bytes;
  payload->data_ =
      static_cast<std::byte*>(std::aligned_alloc(64, io::PadTo(payload->size_ + 1, 64)));
  if (payload->data_ == nullptr) throw std::bad_alloc();
  Check(pass.ReadPayload(record, 0, {payload->data_, payload->size_}, verify));
  return payload;
}

void BindPayload(nb::module_& module) {
  nb::class_<Payload>(module, "Payload", nb::type_slots(slots))
      .def("__len__", &Payload::size)
      .def_prop_ro("mapped", &Payload::mapped);
}

}  // namespace tdump::python
