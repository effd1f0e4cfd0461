// ForeignTensor: a tensor of somebody else's file: what its file says of it, and its elements in
// canonical order (docs/design.md, "Files": row-major, stride-0 dimensions stored once).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compare/foreign/byte_source.h"
#include "compare/payload_view.h"
#include "core/types.h"

namespace tdump::compare::foreign {

// Sizes, strides and `first` are in units of the dtype.
struct ForeignTensor {
  // Where it stands in its file: the key of the dictionary, then indices and keys below.
  std::vector<std::string> place;
  DType dtype;
  std::vector<int64_t> sizes, strides;
  uint64_t first = 0;
  uint64_t storage_bytes = 0;
  uint64_t storage = 0;  // which one of its file
  bool big_endian = false;
  bool parameter = false, requires_grad = false;
  OpenBytes open;  // the storage
};

// Error (kCorrupt): negative sizes or strides, elements outside the storage, more than can be
// counted.
Status CheckView(const ForeignTensor& tensor);

// The bytes of its canonical payload. Precondition: CheckView(tensor).ok().
uint64_t CanonicalBytes(const ForeignTensor& tensor);

// Little-endian. The result does not refer to `tensor`; for one thread at a time. A tensor that is
// not contiguous is gathered in blocks of 4 MiB at most.
Result<ReadBytes> OpenCanonical(const ForeignTensor& tensor);

// What a file holds.
struct ForeignFile {
  std::vector<ForeignTensor> tensors;
  std::vector<std::string> skipped;          // "'name': why it is not read"
  std::map<std::string, std::string> texts;  // of a pickle, by "key.key"
};

}  // namespace tdump::compare::foreign
