// The safetensors format: eight bytes with the length of a JSON header, the header (for each tensor
// dtype, shape and where its bytes lie), the bytes.
#pragma once

#include "compare/foreign/foreign_tensor.h"

namespace tdump::compare::foreign {

bool LooksLikeSafetensors(const ByteSource& file);
// In the order of the header. Errors (kCorrupt): a header that is longer than the file or than
// 100 MB (the format's limit) or not JSON; a name twice; bytes that overlap, lie outside the file
// or are not what dtype and shape need. A dtype that is not known is skipped.
Result<ForeignFile> ReadSafetensors(Bytes file);

}  // namespace tdump::compare::foreign
