// Payload: the bytes of one record as a Python buffer. A large one is a private mapping of its part
// of the file: nothing is read before it is looked at, and writing to it changes neither the file
// nor another Payload. A small one, or one that does not lie in the file as such (compressed, other
// byte order), is a copy.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "io/pass_reader.h"

namespace tdump::python {

class Payload {
 public:
  // Throws StatusError. `verify`: the bytes are compared with their digests.
  static std::unique_ptr<Payload> Open(const io::PassReader& pass, const io::Record& record,
                                       bool verify);
  ~Payload();
  Payload(const Payload&) = delete;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  bool mapped() const { return mapping_ != nullptr; }

 private:
  Payload() = default;
  bool Map(const std::string& path, uint64_t offset, uint64_t bytes);

  std::byte* data_ = nullptr;
  size_t size_ = 0;
  void* mapping_ = nullptr;
  size_t mapping_bytes_ = 0;
};

void BindPayload(nanobind::module_& module);

}  // namespace tdump::python
