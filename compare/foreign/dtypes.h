// The dtypes of other people's files, by the names these files use. Where a name is not listed
// there is no value, and the tensor is not read.
#pragma once

#include <optional>
#include <string_view>

#include "core/types.h"

namespace tdump::compare::foreign {

// "float32", "float8_e4m3fn": torch's, without "torch.".
std::optional<DType> TorchDType(std::string_view name);
// The dtype of a class torch saves storages as: "FloatStorage", "BFloat16Storage".
std::optional<DType> StorageDType(std::string_view cls);
// "F32", "F8_E4M3", "BF16", as safetensors writes them. A unit of "F4" is two elements.
std::optional<DType> SafetensorsDType(std::string_view code);

// Of a NumPy type string: "<f4", "|b1", ">c8".
struct NumpyDType {
  DType dtype;
  bool big_endian = false;
};
std::optional<NumpyDType> ParseNumpyDType(std::string_view descr);
// The same of a type of which a file says besides what torch calls it: NumPy has no bfloat16 and no
// float8, whose units are then unsigned integers ("<u2") or raw bytes ("|V2"). Another name, or one
// of another width, says nothing.
std::optional<NumpyDType> ParseNumpyDType(std::string_view descr, std::string_view torch_name);

}  // namespace tdump::compare::foreign
