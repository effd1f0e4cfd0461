// What driver.h declares is what cuda.h declares.
#include "collectors/cuda/driver.h"

#include <cuda.h>
#include <gtest/gtest.h>

#include <type_traits>

#include "core/status.h"

namespace tdump::collectors::cuda {
namespace {

// Enumerations are ints of the same size to a caller.
template <class T>
using Plain = std::conditional_t<std::is_enum_v<T>, int, T>;
template <class T>
struct Parameter {
  using Type = Plain<T>;
};
template <class T>
struct Parameter<T*> {
  using Type = std::conditional_t<std::is_enum_v<T>, int, T>*;
};
template <class F>
struct Signature;
template <class R, class... A>
struct Signature<R (*)(A...)> {
  using Type = Plain<R> (*)(typename Parameter<A>::Type...);
};

template <class Ours, class Theirs>
constexpr bool kSame =
    std::is_same_v<typename Signature<Ours>::Type, typename Signature<Theirs>::Type>;

TEST(Driver, DeclaresWhatTheHeaderDeclares) {
#define TDUMP_CUDA_COMPARE(member, name, parameters) \
  EXPECT_TRUE((kSame<decltype(Driver::member), decltype(&::name)>)) << #name;
  TDUMP_CUDA_DRIVER(TDUMP_CUDA_COMPARE)
#undef TDUMP_CUDA_COMPARE
  EXPECT_EQ(kNotReady, CUDA_ERROR_NOT_READY);
  EXPECT_EQ(kStreamNonBlocking, CU_STREAM_NON_BLOCKING);
  EXPECT_EQ(kEventDisableTiming, CU_EVENT_DISABLE_TIMING);
  EXPECT_EQ(kHostPortable, CU_MEMHOSTALLOC_PORTABLE);
  EXPECT_EQ(kCaptureRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(kCaptureNone, CU_STREAM_CAPTURE_STATUS_NONE);
  EXPECT_EQ(kComputeMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  EXPECT_EQ(kComputeMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
}

TEST(Driver, WithoutCudaInTheProcessThereIsNone) {
  const auto driver = Driver::Get();
  ASSERT_FALSE(driver.ok());
  EXPECT_EQ(driver.status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace tdump::collectors::cuda
