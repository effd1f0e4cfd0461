// torch::autograd::Engine::execute under its exported name, through which every backward of Python
// and C++ goes, so that one that an exception left is seen: the job may catch it and go on. The
// real function does all the work; nothing of its arguments is read.
//
// No torch header is needed, as in optimizer.cc: the result, a std::vector, is passed by address.
// The collector is told by the function's personality routine, as in forward.cc.
#include "launch/shim/shim.h"

struct Gradients {  // std::vector<at::Tensor>, never constructed or destroyed here
  ~Gradients();
  void* bytes[3];
};

namespace {

using Execute = Gradients (*)(void* self, const void* roots, const void* inputs, bool keep_graph,
                              bool create_graph, bool accumulate_grad, const void* outputs);

// What the unwinder asks of a frame that it passes (Itanium C++ ABI, exception handling, 2.5.2).
enum Phase { kCleanup = 2 };
enum Answer { kContinueUnwind = 8 };

}  // namespace

extern "C" __attribute__((visibility("hidden"), used)) int tdump_shim_backward_personality(
    int, int actions, unsigned long, void*, void*) {
  using Left = void (*)() noexcept;
  if ((actions & kCleanup) == 0) return kContinueUnwind;
  if (const auto tell = reinterpret_cast<Left>(tdump_shim_torch("tdump_torch_backward_left")))
    tell();
  return kContinueUnwind;
}

#define TDUMP_EXECUTE                                                                        \
  "_ZN5torch8autograd6Engine7executeERKSt6vectorINS0_4EdgeESaIS3_EERKS2_IN2at6TensorESaIS9_" \
  "EEbbbS7_"
TDUMP_SHIM_EXPORT Gradients EngineExecute(void* self, const void* roots, const void* inputs,
                                          bool keep_graph, bool create_graph, bool accumulate_grad,
                                          const void* outputs) __asm__(TDUMP_EXECUTE);
Gradients EngineExecute(void* self, const void* roots, const void* inputs, bool keep_graph,
                        bool create_graph, bool accumulate_grad, const void* outputs) {
  __asm__ volatile(".cfi_personality 0x1b, tdump_shim_backward_personality");
  static void* real;
  const auto next = reinterpret_cast<Execute>(tdump_shim_next_torch(TDUMP_EXECUTE, &real));
  Gradients result = next(self, roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
  __asm__ volatile("" ::: "memory");  // no tail call: it is this frame that an exception passes
  return result;
}
