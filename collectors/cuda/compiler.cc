#include "collectors/cuda/compiler.h"

#include <dlfcn.h>
#include <link.h>

#include <cstring>
#include <vector>

namespace tdump::collectors::cuda {
namespace {

using Program = struct _nvrtcProgram*;

// The functions of NVRTC, as nvrtc.h declares them.
struct Nvrtc {
  int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*);
  int (*destroy)(Program*);
  int (*compile)(Program, int, const char* const*);
  int (*cubin_size)(Program, size_t*);
  int (*cubin)(Program, char*);
  int (*ptx_size)(Program, size_t*);
  int (*ptx)(Program, char*);
  int (*log_size)(Program, size_t*);
  int (*log)(Program, char*);
  int (*arch_count)(int*);
  int (*archs)(int*);
  const char* (*error_text)(int);
};

template <class F>
bool Find(void* library, const char* name, F** function) {
  *function = reinterpret_cast<F*>(dlsym(library, name));
  return *function != nullptr;
}

bool Fill(void* library, Nvrtc* nvrtc) {
  return Find(library, "nvrtcCreateProgram", &nvrtc->create) &&
         Find(library, "nvrtcDestroyProgram", &nvrtc->destroy) &&
         Find(library, "nvrtcCompileProgram", &nvrtc->compile) &&
         Find(library, "nvrtcGetCUBINSize", &nvrtc->cubin_size) &&
         Find(library, "nvrtcGetCUBIN", &nvrtc->cubin) &&
         Find(library, "nvrtcGetPTXSize", &nvrtc->ptx_size) &&
         Find(library, "nvrtcGetPTX", &nvrtc->ptx) &&
         Find(library, "nvrtcGetProgramLogSize", &nvrtc->log_size) &&
         Find(library, "nvrtcGetProgramLog", &nvrtc->log) &&
         Find(library, "nvrtcGetNumSupportedArchs", &nvrtc->arch_count) &&
         Find(library, "nvrtcGetSupportedArchs", &nvrtc->archs) &&
         Find(library, "nvrtcGetErrorString", &nvrtc->error_text);
}

int FindTorch(dl_phdr_info* info, size_t, void* folder) {
  const char* slash = std::strrchr(info->dlpi_name, '/');
  if (slash == nullptr || std::strcmp(slash, "/libtorch_cpu.so") != 0) return 0;
  static_cast<std::string*>(folder)->assign(info->dlpi_name, slash - info->dlpi_name);
  return 1;
}

// Names under which NVRTC may be found, the one that the job has mapped first. libcaffe2_nvrtc is
// torch's own link to the right one.
void* OpenLibrary(const std::string& library) {
  if (!library.empty()) return dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);
  std::string torch;
  dl_iterate_phdr(FindTorch, &torch);
  const char* const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
  for (const char* name : names) {
    if (void* mapped = dlopen(name, RTLD_NOLOAD | RTLD_LAZY)) return mapped;
  }
  if (!torch.empty()) {
    if (void* own = dlopen((torch + "/libcaffe2_nvrtc.so").c_str(), RTLD_LAZY | RTLD_LOCAL))
      return own;
  }
  for (const char* name : names) {
    if (void* found = dlopen(name, RTLD_LAZY | RTLD_LOCAL)) return found;
  }
  return nullptr;
}

std::string LogOf(const Nvrtc& nvrtc, Program program) {
  size_t size = 0;
  if (nvrtc.log_size(program, &size) != 0 || size < 2) return "";
  std::string log(size, '\0');
  if (nvrtc.log(program, log.data()) != 0) return "";
  log.resize(size - 1);
  return log;
}

// The option that names the device; `exact`: machine code for it, else PTX of the newest known one.
std::string ArchitectureOption(const Nvrtc& nvrtc, int wanted, bool* exact) {
  int count = 0;
  std::vector<int> known;
  if (nvrtc.arch_count(&count) == 0 && count > 0) {
    known.resize(count);
    if (nvrtc.archs(known.data()) != 0) known.clear();
  }
  int newest = 0;
  *exact = false;
  for (int arch : known) {
    *exact |= arch == wanted;
    if (arch <= wanted) newest = arch > newest ? arch : newest;
  }
  return *exact ? "--gpu-architecture=sm_" + std::to_string(wanted)
                : "--gpu-architecture=compute_" + std::to_string(newest);
}

Result<std::string> Compile(const Nvrtc& nvrtc, Program program, int architecture) {
  bool exact = false;
  const std::string option = ArchitectureOption(nvrtc, architecture, &exact);
  const char* const options[] = {option.c_str(), "--std=c++17", "--fmad=false"};
  if (const int error = nvrtc.compile(program, 3, options); error != 0) {
    return Internal(std::string("NVRTC: ") + nvrtc.error_text(error) + ": " +
                    LogOf(nvrtc, program));
  }
  size_t size = 0;
  const int sized = exact ? nvrtc.cubin_size(program, &size) : nvrtc.ptx_size(program, &size);
  if (sized != 0 || size == 0) return Internal("NVRTC made no code");
  std::string code(size, '\0');
  const int got = exact ? nvrtc.cubin(program, code.data()) : nvrtc.ptx(program, code.data());
  if (got != 0) return Internal("NVRTC gave no code");
  return code;
}

}  // namespace

Result<std::string> CompileKernels(int major, int minor, const std::string& library) {
  void* handle = OpenLibrary(library);
  Nvrtc nvrtc{};
  if (handle == nullptr) return NotFound("no libnvrtc beside torch or on the library path");
  if (!Fill(handle, &nvrtc)) return Unsupported("this libnvrtc lacks a function");
  const char* names[std::size(kKernelHeaders)];
  const char* texts[std::size(kKernelHeaders)];
  for (size_t i = 0; i < std::size(kKernelHeaders); ++i) {
    names[i] = kKernelHeaders[i].name;
    texts[i] = kKernelHeaders[i].text;
  }
  Program program = nullptr;
  if (const int error = nvrtc.create(&program, kKernelSource.text, kKernelSource.name,
                                     static_cast<int>(std::size(kKernelHeaders)), texts, names);
      error != 0) {
    return Internal(std::string("NVRTC: ") + nvrtc.error_text(error));
  }
  Result<std::string> code = Compile(nvrtc, program, major * 10 + minor);
  (void)nvrtc.destroy(&program);
  return code;
}

}  // namespace tdump::collectors::cuda
