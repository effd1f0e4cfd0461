// torch::nn::*Impl::forward under their exported names, so that a call of a watched C++ module is
// seen without a line in its forward. Only those that take one to four tensors and return one;
// what LibTorch defines in headers (Sequential, BatchNorm) has no name to take over.
//
// No torch header is needed, as in optimizer.cc: tensors are passed and returned by address, by
// reference as well as by value. The collector is told before and after, and by the functions'
// personality routine when an exception passes through them: these have no landing pads, which
// would need the C++ library.
#include <dlfcn.h>
#include <stddef.h>

#include "launch/shim/shim.h"

struct Tensor {  // at::Tensor, as far as calling sequences go; never constructed or destroyed here
  ~Tensor();
  void* bytes;
};

namespace {

using Begin = void* (*)(const void* module, const void* const* tensors, size_t count);
using End = void (*)(void* token, const void* result);

// Null while, or where, the LibTorch collector is not in the process.
void* Collector(const char* function, void** found) {
  return tdump_shim_found(tdump_shim_torch, function, found);
}

template <class... Tensors>
inline void* Before(const void* module, const Tensors*... tensors) {
  static void* found;
  const auto begin = reinterpret_cast<Begin>(Collector("tdump_torch_forward_begin", &found));
  if (begin == nullptr) return nullptr;
  const void* const list[] = {tensors...};
  return begin(module, list, sizeof...(tensors));
}

inline void After(void* token, const void* result) {
  static void* found;
  if (token == nullptr) return;
  if (const auto end = reinterpret_cast<End>(Collector("tdump_torch_forward_end", &found)))
    end(token, result);
}

// torch::jit::Method::operator()(std::vector<c10::IValue>, const Kwargs&) const
#define TDUMP_SCRIPT                                                                              \
  "_ZNK5torch3jit6MethodclESt6vectorIN3c106IValueESaIS4_EERKSt13unordered_mapINSt7__cxx1112basic" \
  "_stringIcSt11char_traitsIcESaIcEEES4_St4hashISD_ESt8equal_toISD_ESaISt4pairIKSD_S4_EEE"

// What the unwinder asks of a frame that it passes (Itanium C++ ABI, exception handling, 2.5.2).
enum Phase { kCleanup = 2 };
enum Answer { kContinueUnwind = 8 };

void* Unwinder(const char* function) {
  void* found = dlsym(RTLD_DEFAULT, function);
  if (found != nullptr) return found;
  void* handle = dlopen("libgcc_s.so.1", RTLD_NOLOAD | RTLD_LAZY);
  if (handle == nullptr) return nullptr;
  found = dlsym(handle, function);
  dlclose(handle);
  return found;
}

}  // namespace

extern "C" __attribute__((visibility("hidden"), used)) int tdump_shim_forward_personality(
    int, int actions, unsigned long, void*, void* context) {
  static void *place, *unwound;
  using Place = const void* (*)(void* context);
  using Unwound = void (*)(const void* frame);
  if ((actions & kCleanup) == 0) return kContinueUnwind;
  const auto place_of =
      reinterpret_cast<Place>(tdump_shim_found(Unwinder, "_Unwind_GetCFA", &place));
  const auto tell = reinterpret_cast<Unwound>(Collector("tdump_torch_forward_unwound", &unwound));
  if (place_of != nullptr && tell != nullptr) tell(place_of(context));
  return kContinueUnwind;
}

// Before a method of TorchScript that a C++ program calls; what it calls in turn TorchScript runs
// by itself. `stack` is a std::vector that is passed by value, and so by address.
TDUMP_SHIM_EXPORT Tensor CallScript(void* method, void* stack, void* named) __asm__(TDUMP_SCRIPT);
Tensor CallScript(void* method, void* stack, void* named) {
  __asm__ volatile(".cfi_personality 0x1b, tdump_shim_forward_personality");
  static void *found, *real;
  using Prepare = void (*)(const void* method);
  const auto prepare = reinterpret_cast<Prepare>(Collector("tdump_torch_script_begin", &found));
  const auto next = (Tensor(*)(void*, void*, void*))tdump_shim_next_torch(TDUMP_SCRIPT, &real);
  if (prepare != nullptr) prepare(method);
  return next(method, stack, named);
}

#define TDUMP_FORWARD(cls, mangled, parameters, arguments)                         \
  TDUMP_SHIM_EXPORT Tensor Forward##cls parameters __asm__(mangled);               \
  Tensor Forward##cls parameters {                                                 \
    __asm__ volatile(".cfi_personality 0x1b, tdump_shim_forward_personality");     \
    static void* real;                                                             \
    const auto next = (Tensor(*) parameters)tdump_shim_next_torch(mangled, &real); \
    void* token = Before arguments;                                                \
    Tensor result = next arguments;                                                \
    After(token, &result);                                                         \
    return result;                                                                 \
  }
#define TDUMP_FORWARD_1(cls, mangled) TDUMP_FORWARD(cls, mangled, (void* self, void* a), (self, a))
#define TDUMP_FORWARD_2(cls, mangled) \
  TDUMP_FORWARD(cls, mangled, (void* self, void* a, void* b), (self, a, b))
#define TDUMP_FORWARD_3(cls, mangled) \
  TDUMP_FORWARD(cls, mangled, (void* self, void* a, void* b, void* c), (self, a, b, c))
#define TDUMP_FORWARD_4(cls, mangled) \
  TDUMP_FORWARD(cls, mangled, (void* self, void* a, void* b, void* c, void* d), (self, a, b, c, d))

// clang-format off
TDUMP_FORWARD_1(AdaptiveAvgPool1d, "_ZN5torch2nn21AdaptiveAvgPool1dImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(AdaptiveAvgPool2d, "_ZN5torch2nn21AdaptiveAvgPool2dImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(AdaptiveAvgPool3d, "_ZN5torch2nn21AdaptiveAvgPool3dImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(AdaptiveMaxPool1d, "_ZN5torch2nn21AdaptiveMaxPool1dImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(AdaptiveMaxPool2d, "_ZN5torch2nn21AdaptiveMaxPool2dImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(AdaptiveMaxPool3d, "_ZN5torch2nn21AdaptiveMaxPool3dImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(AlphaDropout, "_ZN5torch2nn16AlphaDropoutImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(AvgPool1d, "_ZN5torch2nn13AvgPool1dImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(AvgPool2d, "_ZN5torch2nn13AvgPool2dImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(AvgPool3d, "_ZN5torch2nn13AvgPool3dImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(CELU, "_ZN5torch2nn8CELUImpl7forwardEN2at6TensorE")
TDUMP_FORWARD_1(Conv1d, "_ZN5torch2nn10Conv1dImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(Conv2d, "_ZN5torch2nn10Conv2dImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(Conv3d, "_ZN5torch2nn10Conv3dImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(CrossMapLRN2d, "_ZN5torch2nn17CrossMapLRN2dImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(Dropout2d, "_ZN5torch2nn13Dropout2dImpl7forwardEN2at6TensorE")
TDUMP_FORWARD_1(Dropout3d, "_ZN5torch2nn13Dropout3dImpl7forwardEN2at6TensorE")
TDUMP_FORWARD_1(Dropout, "_ZN5torch2nn11DropoutImpl7forwardEN2at6TensorE")
TDUMP_FORWARD_1(ELU, "_ZN5torch2nn7ELUImpl7forwardEN2at6TensorE")
TDUMP_FORWARD_1(Embedding, "_ZN5torch2nn13EmbeddingImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(FeatureAlphaDropout, "_ZN5torch2nn23FeatureAlphaDropoutImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(Flatten, "_ZN5torch2nn11FlattenImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(Fold, "_ZN5torch2nn8FoldImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(FractionalMaxPool2d, "_ZN5torch2nn23FractionalMaxPool2dImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(FractionalMaxPool3d, "_ZN5torch2nn23FractionalMaxPool3dImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(Functional, "_ZN5torch2nn14FunctionalImpl7forwardEN2at6TensorE")
TDUMP_FORWARD_1(GELU, "_ZN5torch2nn8GELUImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(GLU, "_ZN5torch2nn7GLUImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(GroupNorm, "_ZN5torch2nn13GroupNormImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(Hardshrink, "_ZN5torch2nn14HardshrinkImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(Hardtanh, "_ZN5torch2nn12HardtanhImpl7forwardEN2at6TensorE")
TDUMP_FORWARD_1(Identity, "_ZN5torch2nn12IdentityImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(LPPool1d, "_ZN5torch2nn12LPPool1dImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(LPPool2d, "_ZN5torch2nn12LPPool2dImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(LPPool3d, "_ZN5torch2nn12LPPool3dImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(LayerNorm, "_ZN5torch2nn13LayerNormImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(LeakyReLU, "_ZN5torch2nn13LeakyReLUImpl7forwardEN2at6TensorE")
TDUMP_FORWARD_1(Linear, "_ZN5torch2nn10LinearImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(LocalResponseNorm, "_ZN5torch2nn21LocalResponseNormImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(LogSigmoid, "_ZN5torch2nn14LogSigmoidImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(LogSoftmax, "_ZN5torch2nn14LogSoftmaxImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(MaxPool1d, "_ZN5torch2nn13MaxPool1dImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(MaxPool2d, "_ZN5torch2nn13MaxPool2dImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(MaxPool3d, "_ZN5torch2nn13MaxPool3dImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(Mish, "_ZN5torch2nn8MishImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(PReLU, "_ZN5torch2nn9PReLUImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(PixelShuffle, "_ZN5torch2nn16PixelShuffleImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(PixelUnshuffle, "_ZN5torch2nn18PixelUnshuffleImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(RReLU, "_ZN5torch2nn9RReLUImpl7forwardEN2at6TensorE")
TDUMP_FORWARD_1(ReLU6, "_ZN5torch2nn9ReLU6Impl7forwardEN2at6TensorE")
TDUMP_FORWARD_1(ReLU, "_ZN5torch2nn8ReLUImpl7forwardEN2at6TensorE")
TDUMP_FORWARD_1(SELU, "_ZN5torch2nn8SELUImpl7forwardEN2at6TensorE")
TDUMP_FORWARD_1(SiLU, "_ZN5torch2nn8SiLUImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(Sigmoid, "_ZN5torch2nn11SigmoidImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(Softmax2d, "_ZN5torch2nn13Softmax2dImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(Softmax, "_ZN5torch2nn11SoftmaxImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(Softmin, "_ZN5torch2nn11SoftminImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(Softplus, "_ZN5torch2nn12SoftplusImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(Softshrink, "_ZN5torch2nn14SoftshrinkImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(Softsign, "_ZN5torch2nn12SoftsignImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(Tanh, "_ZN5torch2nn8TanhImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(Tanhshrink, "_ZN5torch2nn14TanhshrinkImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(Threshold, "_ZN5torch2nn13ThresholdImpl7forwardEN2at6TensorE")
TDUMP_FORWARD_1(Unflatten, "_ZN5torch2nn13UnflattenImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(Unfold, "_ZN5torch2nn10UnfoldImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_1(Upsample, "_ZN5torch2nn12UpsampleImpl7forwardERKN2at6TensorE")
TDUMP_FORWARD_2(BCELoss, "_ZN5torch2nn11BCELossImpl7forwardERKN2at6TensorES5_")
TDUMP_FORWARD_2(BCEWithLogitsLoss, "_ZN5torch2nn21BCEWithLogitsLossImpl7forwardERKN2at6TensorES5_")
TDUMP_FORWARD_2(Bilinear, "_ZN5torch2nn12BilinearImpl7forwardERKN2at6TensorES5_")
TDUMP_FORWARD_2(CosineSimilarity, "_ZN5torch2nn20CosineSimilarityImpl7forwardERKN2at6TensorES5_")
TDUMP_FORWARD_2(CrossEntropyLoss, "_ZN5torch2nn20CrossEntropyLossImpl7forwardERKN2at6TensorES5_")
TDUMP_FORWARD_2(GRUCell, "_ZN5torch2nn11GRUCellImpl7forwardERKN2at6TensorES5_")
TDUMP_FORWARD_2(HingeEmbeddingLoss, "_ZN5torch2nn22HingeEmbeddingLossImpl7forwardERKN2at6TensorES5_")
TDUMP_FORWARD_2(HuberLoss, "_ZN5torch2nn13HuberLossImpl7forwardERKN2at6TensorES5_")
TDUMP_FORWARD_2(KLDivLoss, "_ZN5torch2nn13KLDivLossImpl7forwardERKN2at6TensorES5_")
TDUMP_FORWARD_2(L1Loss, "_ZN5torch2nn10L1LossImpl7forwardERKN2at6TensorES5_")
TDUMP_FORWARD_2(MSELoss, "_ZN5torch2nn11MSELossImpl7forwardERKN2at6TensorES5_")
TDUMP_FORWARD_2(MultiLabelMarginLoss, "_ZN5torch2nn24MultiLabelMarginLossImpl7forwardERKN2at6TensorES5_")
TDUMP_FORWARD_2(MultiLabelSoftMarginLoss, "_ZN5torch2nn28MultiLabelSoftMarginLossImpl7forwardERKN2at6TensorES5_")
TDUMP_FORWARD_2(MultiMarginLoss, "_ZN5torch2nn19MultiMarginLossImpl7forwardERKN2at6TensorES5_")
TDUMP_FORWARD_2(NLLLoss, "_ZN5torch2nn11NLLLossImpl7forwardERKN2at6TensorES5_")
TDUMP_FORWARD_2(PairwiseDistance, "_ZN5torch2nn20PairwiseDistanceImpl7forwardERKN2at6TensorES5_")
TDUMP_FORWARD_2(PoissonNLLLoss, "_ZN5torch2nn18PoissonNLLLossImpl7forwardERKN2at6TensorES5_")
TDUMP_FORWARD_2(RNNCell, "_ZN5torch2nn11RNNCellImpl7forwardERKN2at6TensorES5_")
TDUMP_FORWARD_2(SmoothL1Loss, "_ZN5torch2nn16SmoothL1LossImpl7forwardERKN2at6TensorES5_")
TDUMP_FORWARD_2(SoftMarginLoss, "_ZN5torch2nn18SoftMarginLossImpl7forwardERKN2at6TensorES5_")
TDUMP_FORWARD_3(CosineEmbeddingLoss, "_ZN5torch2nn23CosineEmbeddingLossImpl7forwardERKN2at6TensorES5_S5_")
TDUMP_FORWARD_3(EmbeddingBag, "_ZN5torch2nn16EmbeddingBagImpl7forwardERKN2at6TensorES5_S5_")
TDUMP_FORWARD_3(MarginRankingLoss, "_ZN5torch2nn21MarginRankingLossImpl7forwardERKN2at6TensorES5_S5_")
TDUMP_FORWARD_3(TransformerEncoder, "_ZN5torch2nn22TransformerEncoderImpl7forwardERKN2at6TensorES5_S5_")
TDUMP_FORWARD_3(TransformerEncoderLayer, "_ZN5torch2nn27TransformerEncoderLayerImpl7forwardERKN2at6TensorES5_S5_")
TDUMP_FORWARD_3(TripletMarginLoss, "_ZN5torch2nn21TripletMarginLossImpl7forwardERKN2at6TensorES5_S5_")
TDUMP_FORWARD_3(TripletMarginWithDistanceLoss, "_ZN5torch2nn33TripletMarginWithDistanceLossImpl7forwardERKN2at6TensorES5_S5_")
TDUMP_FORWARD_4(CTCLoss, "_ZN5torch2nn11CTCLossImpl7forwardERKN2at6TensorES5_S5_S5_")
// clang-format on
