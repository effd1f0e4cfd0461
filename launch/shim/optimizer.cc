// torch::optim::*::step and Optimizer::add_param_group under their exported names, so that a step
// of a C++ optimizer is seen without a line in the program. The real functions run first or next;
// nothing of their arguments is read.
//
// No torch header is needed. step() takes std::function by value and returns at::Tensor: under the
// Itanium C++ ABI both are passed by address, because they are not trivially copyable. `Opaque` has
// the same property, so the compiler makes the same calling sequence on every architecture; it is
// never constructed or destroyed here.
#include "launch/shim/shim.h"

// Not in the unnamed namespace: a function that returns it must have external linkage.
struct Opaque {
  ~Opaque();
  void* bytes;
};

namespace {

using Step = Opaque (*)(void* self, void* closure);
using AddParamGroup = void (*)(void* self, const void* group);

void Stepped(const void* self, const char* cls) noexcept {
  using Tell = void (*)(const void*, const char*) noexcept;
  if (auto tell = reinterpret_cast<Tell>(tdump_shim_loaded("tdump_on_optimizer_step")))
    tell(self, cls);
}

// What the optimizer keeps of watched parameters, while the step is still the open one.
void Kept(const void* self) noexcept {
  using Tell = void (*)(const void*);
  if (auto tell = reinterpret_cast<Tell>(tdump_shim_torch_loaded("tdump_torch_optimizer_stepped")))
    tell(self);
}

void Created(const void* self) noexcept {
  using Tell = void (*)(const void*) noexcept;
  if (auto tell = reinterpret_cast<Tell>(tdump_shim_loaded("tdump_on_optimizer_created")))
    tell(self);
}

}  // namespace

#define TDUMP_STEP(cls, mangled)                                                     \
  TDUMP_SHIM_EXPORT Opaque Step##cls(void* self, void* closure) __asm__(mangled);    \
  Opaque Step##cls(void* self, void* closure) {                                      \
    static void* real;                                                               \
    const auto next = reinterpret_cast<Step>(tdump_shim_next_torch(mangled, &real)); \
    Opaque result = next(self, closure);                                             \
    Kept(self);                                                                      \
    Stepped(self, "torch::optim::" #cls);                                            \
    return result;                                                                   \
  }

TDUMP_STEP(SGD, "_ZN5torch5optim3SGD4stepESt8functionIFN2at6TensorEvEE")
TDUMP_STEP(Adam, "_ZN5torch5optim4Adam4stepESt8functionIFN2at6TensorEvEE")
TDUMP_STEP(AdamW, "_ZN5torch5optim5AdamW4stepESt8functionIFN2at6TensorEvEE")
TDUMP_STEP(Adagrad, "_ZN5torch5optim7Adagrad4stepESt8functionIFN2at6TensorEvEE")
TDUMP_STEP(RMSprop, "_ZN5torch5optim7RMSprop4stepESt8functionIFN2at6TensorEvEE")
TDUMP_STEP(LBFGS, "_ZN5torch5optim5LBFGS4stepESt8functionIFN2at6TensorEvEE")

#define TDUMP_ADD_PARAM_GROUP \
  "_ZN5torch5optim9Optimizer15add_param_groupERKNS0_19OptimizerParamGroupE"
TDUMP_SHIM_EXPORT void OptimizerAddParamGroup(void* self,
                                              const void* group) __asm__(TDUMP_ADD_PARAM_GROUP);
void OptimizerAddParamGroup(void* self, const void* group) {
  static void* real;
  const auto next =
      reinterpret_cast<AddParamGroup>(tdump_shim_next_torch(TDUMP_ADD_PARAM_GROUP, &real));
  next(self, group);
  Created(self);
}
