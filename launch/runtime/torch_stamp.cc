#include "launch/runtime/torch_stamp.h"

#include <dlfcn.h>
#include <link.h>

#include <cstring>
#include <sstream>

#include <fmt/format.h>

#include "core/env.h"
#include "core/runtime.h"

namespace tdump::launch {
namespace {

constexpr uint64_t kMaxTextBytes = 64 * 1024;

std::string WithoutLocalPart(const std::string& version) {
  return version.substr(0, version.find('+'));
}

int FindTorch(dl_phdr_info* info, size_t, void* path) {
  const char* slash = std::strrchr(info->dlpi_name, '/');
  if (std::strcmp(slash != nullptr ? slash + 1 : info->dlpi_name, "libtorch_cpu.so") != 0) return 0;
  *static_cast<std::string*>(path) = info->dlpi_name;
  return 1;
}

// What stands between `before` and the next `end` character; "" when it is not there.
std::string Between(const std::string& text, const std::string& before, char end) {
  const size_t at = text.find(before);
  if (at == std::string::npos) return "";
  const size_t begin = at + before.size();
  return text.substr(begin, text.find(end, begin) - begin);
}

// libtorch_cpu itself tells since 2.9: major, minor and patch in the three highest bytes.
std::string VersionOf(void* handle) {
  auto version = reinterpret_cast<uint64_t (*)()>(dlsym(handle, "aoti_torch_abi_version"));
  if (version == nullptr) return "";
  const uint64_t packed = version();
  return fmt::format("{}.{}.{}", packed >> 56, (packed >> 48) & 0xff, (packed >> 40) & 0xff);
}

// A wheel has torch/version.py, a LibTorch archive has build-version, both one folder above lib/.
std::string VersionBeside(const std::string& library) {
  const std::string root = library.substr(0, library.rfind('/')) + "/..";
  if (auto text = ReadFile(Env::Posix(), root + "/version.py", kMaxTextBytes)) {
    return Between(*text, "__version__ = '", '\'');
  }
  if (auto text = ReadFile(Env::Posix(), root + "/build-version", kMaxTextBytes)) {
    return Between("\n" + *text + "\n", "\n", '\n');
  }
  return "";
}

}  // namespace

Result<TorchStamp> ReadTorchStamp(const std::string& info_file) {
  TDUMP_ASSIGN_OR_RETURN(const std::string text, ReadFile(Env::Posix(), info_file, kMaxTextBytes));
  TorchStamp stamp;
  std::istringstream lines(text);
  for (std::string word, value; lines >> word >> value;) {
    if (word == "torch") stamp.version = WithoutLocalPart(value);
    if (word == "abi") stamp.cxx11_abi = value == "1" ? 1 : 0;
    if (word == "stamp") stamp.build = value;
  }
  if (stamp.version.empty()) return Corrupt(fmt::format("{}: names no torch version", info_file));
  return stamp;
}

Result<TorchStamp> MappedTorch() {
  std::string library;
  dl_iterate_phdr(FindTorch, &library);
  if (library.empty()) return NotFound("no libtorch_cpu.so in this process");
  TorchStamp stamp;
  if (void* handle = dlopen(library.c_str(), RTLD_NOLOAD | RTLD_LAZY)) {
    // The name of a function that returns std::string carries the ABI.
    stamp.cxx11_abi = dlsym(handle, "_ZN2at11show_configB5cxx11Ev") != nullptr ? 1 : 0;
    stamp.version = VersionOf(handle);
    dlclose(handle);
  }
  if (stamp.version.empty()) stamp.version = WithoutLocalPart(VersionBeside(library));
  if (stamp.version.empty())
    return NotFound(fmt::format("{}: its version is not told beside it", library));
  return stamp;
}

TorchStamp PublicVersion(const std::string& version, int cxx11_abi) {
  return {WithoutLocalPart(version), cxx11_abi != 0 ? 1 : 0, ""};
}

std::string TorchMismatch(const TorchStamp& built_for, const TorchStamp& present) {
  const std::string build = fmt::format("{:016x}", kBuildStamp);
  if (built_for.build != build) {
    return fmt::format(
        "the LibTorch collector is of another build of tdump ({}, this is {}): nothing of torch is "
        "captured; install "
        "tdump again",
        built_for.build, build);
  }
  if (built_for.version == present.version && built_for.cxx11_abi == present.cxx11_abi) return "";
  const auto text = [](const TorchStamp& stamp) {
    return fmt::format("torch {} (C++11 ABI {})", stamp.version, stamp.cxx11_abi);
  };
  return fmt::format(
      "the LibTorch collector is built for {}, this process has {}: nothing of torch is captured; "
      "build tdump against "
      "this torch (pip install . in its environment)",
      text(built_for), text(present));
}

}  // namespace tdump::launch
