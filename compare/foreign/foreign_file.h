// A file of tensors of any kind that is understood, told by its first bytes.
#pragma once

#include <string_view>

#include "compare/foreign/foreign_tensor.h"

namespace tdump::compare::foreign {

// Of torch.save, NumPy, safetensors. Errors: kCorrupt; kUnsupported, naming what was looked for.
Result<ForeignFile> ReadForeignFile(Bytes file);

// Whether it begins as one of those.
bool LooksLikeTensors(const ByteSource& file);

// By its ending: ".pt", ".pth", ".npy", ".npz", ".safetensors".
bool HasTensorSuffix(std::string_view name);
std::string_view WithoutTensorSuffix(std::string_view name);

}  // namespace tdump::compare::foreign
