// The border between LibTorch versions: the collector is built for one torch and must not be opened
// in another, whose structures have other layouts. Compared before it is opened: torch's version,
// its C++ ABI, and tdump's own build stamp.
#pragma once

#include <optional>
#include <string>

#include "core/status.h"

namespace tdump::launch {

struct TorchStamp {
  std::string version;  // "2.15.0"; a local part ("+cu130") is cut off
  int cxx11_abi = 1;
  std::string build;  // kBuildStamp in hexadecimal; "" for the process's torch, which has none
};

// What libtdump_torch.so was built for, from the text file beside it ("torch
// 2.15.0", "abi 1", "stamp 7464...").
Result<TorchStamp> ReadTorchStamp(const std::string& info_file);
// The torch this process has mapped: libtorch_cpu tells, an older one by version.py or
// build-version beside its folder. Error: no libtorch_cpu is mapped, or it tells no version.
Result<TorchStamp> MappedTorch();
// The same from what Python says: torch.__version__, torch._C._GLIBCXX_USE_CXX11_ABI.
TorchStamp PublicVersion(const std::string& version, int cxx11_abi);
// Empty: they match. Else one sentence that says what differs and what to do.
std::string TorchMismatch(const TorchStamp& built_for, const TorchStamp& present);

}  // namespace tdump::launch
