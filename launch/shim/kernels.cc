// What code that Inductor compiled with its debug printer calls before and after each kernel, and
// the run of an AOTInductor model, under their exported names. A preloaded object comes first for
// every model, however late and locally it is opened. Where the configuration does not ask for
// kernels, or the collector is not in the process, the real functions do what they always do.
//
// No torch header is needed, as in optimizer.cc: the result of a run, a std::vector, is passed by
// address. That an exception leaves a run is told by the personality routine, as in backward.cc.
#include <stddef.h>

#include "launch/shim/shim.h"

struct Tensors {  // std::vector<at::Tensor>, never constructed or destroyed here
  ~Tensors();
  void* bytes[3];
};

namespace {

using Save = void (*)(void* tensor, const char* arg, const char* stage, const char* kernel);
using Print = void (*)(void* tensor, const char* message);
using Run = Tensors (*)(void* self, void* inputs, void* stream);

// Of libtdump.so (core/kernels.h). Null: not asked for, which stays so once it is known, or nothing
// to ask yet.
void* Reports() {
  static void* reports;
  static int none;
  void* known = __atomic_load_n(&reports, __ATOMIC_RELAXED);
  if (known != nullptr || __atomic_load_n(&none, __ATOMIC_RELAXED) != 0) return known;
  using Ask = void* (*)(int* answered);
  const auto ask = reinterpret_cast<Ask>(tdump_shim_runtime("tdump_runtime_kernels"));
  if (ask == nullptr) return nullptr;
  int answered = 0;
  known = ask(&answered);
  if (known != nullptr)
    __atomic_store_n(&reports, known, __ATOMIC_RELAXED);
  else if (answered != 0)
    __atomic_store_n(&none, 1, __ATOMIC_RELAXED);
  return known;
}

void* Collector(const char* function, void** found) {
  return tdump_shim_found(tdump_shim_torch, function, found);
}

// What the unwinder asks of a frame that it passes (Itanium C++ ABI, exception handling, 2.5.2).
enum Phase { kCleanup = 2 };
enum Answer { kContinueUnwind = 8 };

void EndRun(int threw) {
  using End = void (*)(int threw) noexcept;
  static void* found;
  if (Reports() == nullptr) return;
  if (const auto end = reinterpret_cast<End>(Collector("tdump_torch_model_end", &found)))
    end(threw);
}

}  // namespace

TDUMP_SHIM_EXPORT void SaveTensor(void* tensor, const char* arg, const char* stage,
                                  const char* kernel) __asm__("aoti_torch_save_tensor_handle");
void SaveTensor(void* tensor, const char* arg, const char* stage, const char* kernel) {
  using Take = int (*)(void* reports, const void* tensor, const char* arg, const char* stage,
                       const char* kernel, const void* site) noexcept;
  static void* found;
  if (void* reports = Reports()) {
    const auto take = reinterpret_cast<Take>(Collector("tdump_torch_kernel_argument", &found));
    if (take != nullptr &&
        take(reports, tensor, arg, stage, kernel, __builtin_return_address(0)) != 0)
      return;
  }
  static void* real;
  if (const auto next =
          reinterpret_cast<Save>(tdump_shim_next_torch("aoti_torch_save_tensor_handle", &real)))
    next(tensor, arg, stage, kernel);
}

TDUMP_SHIM_EXPORT void PrintTensor(void* tensor,
                                   const char* message) __asm__("aoti_torch_print_tensor_handle");
void PrintTensor(void* tensor, const char* message) {
  using Take =
      int (*)(void* reports, const void* tensor, const char* message, const void* site) noexcept;
  static void* found;
  if (void* reports = Reports()) {
    const auto take = reinterpret_cast<Take>(Collector("tdump_torch_kernel_message", &found));
    if (take != nullptr && take(reports, tensor, message, __builtin_return_address(0)) != 0) return;
  }
  static void* real;
  if (const auto next =
          reinterpret_cast<Print>(tdump_shim_next_torch("aoti_torch_print_tensor_handle", &real)))
    next(tensor, message);
}

extern "C" __attribute__((visibility("hidden"), used)) int tdump_shim_model_personality(
    int, int actions, unsigned long, void*, void*) {
  if ((actions & kCleanup) != 0) EndRun(/*threw=*/1);
  return kContinueUnwind;
}

// A virtual function: run() and boxed_run() of every device come here.
#define TDUMP_RUN_MODEL                                                                          \
  "_ZN5torch8inductor24AOTIModelContainerRunner8run_implERSt6vectorIP16AtenTensorOpaqueSaIS4_EE" \
  "Pv"
TDUMP_SHIM_EXPORT Tensors RunModel(void* self, void* inputs, void* stream) __asm__(TDUMP_RUN_MODEL);
Tensors RunModel(void* self, void* inputs, void* stream) {
  __asm__ volatile(".cfi_personality 0x1b, tdump_shim_model_personality");
  using Begin = void (*)() noexcept;
  static void *found, *real;
  const auto next = reinterpret_cast<Run>(tdump_shim_next_torch(TDUMP_RUN_MODEL, &real));
  if (next == nullptr) __builtin_trap();  // the job has no such function to call
  if (Reports() != nullptr) {
    if (const auto begin = reinterpret_cast<Begin>(Collector("tdump_torch_model_begin", &found)))
      begin();
  }
  Tensors result = next(self, inputs, stream);
  EndRun(/*threw=*/0);
  return result;
}
