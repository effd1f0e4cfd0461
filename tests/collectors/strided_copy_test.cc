// CopyStrided and ResolveSigns against torch's own contiguous(), resolve_conj() and resolve_neg().
#include "collectors/torch/strided_copy.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <random>

#include "collectors/torch/dtype_table.h"
#include "collectors/torch/tensor_view.h"

namespace tdump::collectors {
namespace {

using Bytes = std::vector<std::byte>;

// A tensor of any scalar type over `bytes`, without asking an operator for it.
at::Tensor Over(const at::Tensor& bytes, c10::ScalarType type) {
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(bytes.storage()), c10::DispatchKeySet(c10::DispatchKey::CPU),
      c10::scalarTypeToTypeMeta(type));
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(
      {bytes.numel() / static_cast<int64_t>(c10::elementSize(type))});
  return tensor;
}

void View(const at::Tensor& tensor, at::IntArrayRef sizes, at::IntArrayRef strides,
          int64_t offset) {
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
}

Bytes Captured(const at::Tensor& tensor) {
  TensorView view;
  EXPECT_TRUE(Describe(tensor, "", &view));
  EXPECT_EQ(view.reason, SkipReason::kNone) << view.detail;
  uint64_t size = 0;
  EXPECT_TRUE(PayloadBytes(view.meta, &size));
  Bytes out(size, std::byte{0xEE});
  const uint32_t unit = view.meta.dtype.unit_bytes();
  CopyStrided({view.data, view.meta.sizes, view.meta.strides, unit}, out.data());
  EXPECT_TRUE(ResolveSigns(out, unit, view.kind, view.meta.conj, view.meta.neg));
  return out;
}

Bytes BytesOf(const at::Tensor& contiguous) {
  const auto* data = static_cast<const std::byte*>(contiguous.const_data_ptr());
  return {data, data + contiguous.nbytes()};
}

// An integer (or complex) type of the same width, which every operator of torch knows.
c10::ScalarType Plain(size_t bytes) {
  switch (bytes) {
    case 1:
      return at::kByte;
    case 2:
      return at::kShort;
    case 4:
      return at::kInt;
    case 8:
      return at::kLong;
    default:
      return at::kComplexDouble;
  }
}

struct Shape {
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;
};

// Permuted, stepped, expanded and overlapping views of a store of `units`.
Shape RandomShape(std::mt19937* random, int64_t units) {
  const auto pick = [&](int64_t first, int64_t last) {
    return std::uniform_int_distribution<int64_t>(first, last)(*random);
  };
  Shape shape;
  int64_t reach = 1;
  const int64_t dims = pick(0, 5);
  for (int64_t d = 0; d < dims; ++d) {
    const int64_t size = pick(0, 9) == 0 ? pick(0, 1) : pick(1, 7);
    const int64_t stride = pick(0, 5) == 0 ? 0 : pick(1, 40);
    if (reach + (std::max<int64_t>(size, 1) - 1) * stride > units) continue;
    reach += (std::max<int64_t>(size, 1) - 1) * stride;
    shape.sizes.push_back(size);
    shape.strides.push_back(stride);
  }
  shape.offset = pick(0, units - reach);
  return shape;
}

// What is expected: the same view over the plain type, dimensions of stride 0 cut to one element.
Bytes Expected(const at::Tensor& bytes, c10::ScalarType type, Shape shape) {
  for (size_t d = 0; d < shape.sizes.size(); ++d) {
    if (shape.strides[d] == 0 && shape.sizes[d] > 1) shape.sizes[d] = 1;
  }
  const at::Tensor plain = bytes.view(Plain(c10::elementSize(type)));
  return BytesOf(plain.as_strided(shape.sizes, shape.strides, shape.offset).contiguous());
}

void CompareRandomViews(c10::ScalarType type) {
  at::manual_seed(static_cast<uint64_t>(type));
  const at::Tensor bytes = at::randint(256, {16 * 512}, at::kByte);
  const int64_t units = bytes.numel() / static_cast<int64_t>(c10::elementSize(type));
  std::mt19937 random(static_cast<unsigned>(type));
  for (int i = 0; i < 200; ++i) {
    const Shape shape = RandomShape(&random, units);
    const at::Tensor tensor = Over(bytes, type);
    View(tensor, shape.sizes, shape.strides, shape.offset);
    EXPECT_EQ(Captured(tensor), Expected(bytes, type, shape))
        << type << " sizes " << at::IntArrayRef(shape.sizes) << " strides "
        << at::IntArrayRef(shape.strides) << " offset " << shape.offset;
  }
}

TEST(StridedCopy, RandomViewsOfEveryScalarTypeAreTheBytesOfContiguous) {
  for (int i = 0; i < static_cast<int>(c10::ScalarType::NumOptions); ++i) {
    const auto type = static_cast<c10::ScalarType>(i);
    if (type != c10::ScalarType::Undefined && !InfoOf(type).quantised) CompareRandomViews(type);
  }
}

TEST(StridedCopy, LargeTransposedAndChannelsLast) {
  at::manual_seed(1);
  for (c10::ScalarType type : {at::kByte, at::kHalf, at::kFloat, at::kDouble, at::kComplexDouble}) {
    const at::Tensor matrix = at::randint(100, {129, 257}, at::kFloat).to(type);
    EXPECT_EQ(Captured(matrix.t()), BytesOf(matrix.t().contiguous()));
    EXPECT_EQ(Captured(matrix.flip(0).t()), BytesOf(matrix.flip(0).t().contiguous()));
    EXPECT_EQ(Captured(matrix.slice(1, 3, 250, 7)),
              BytesOf(matrix.slice(1, 3, 250, 7).contiguous()));
    EXPECT_EQ(Captured(matrix.diagonal()), BytesOf(matrix.diagonal().contiguous()));
    const at::Tensor image = matrix.slice(0, 0, 128).slice(1, 0, 256).reshape({4, 16, 16, 32});
    const at::Tensor last = image.contiguous(at::MemoryFormat::ChannelsLast);
    EXPECT_EQ(last.strides()[1], 1);
    EXPECT_EQ(Captured(last), BytesOf(image));
  }
}

TEST(StridedCopy, MoreDimensionsThanFitInline) {
  const at::Tensor base = at::arange(1 << 20, at::kInt);
  std::vector<int64_t> sizes(20, 2), order(20);
  for (int64_t i = 0; i < 20; ++i) order[i] = (i * 7) % 20;  // nothing can be merged
  const at::Tensor view = base.reshape(sizes).permute(order);
  EXPECT_EQ(Captured(view), BytesOf(view.contiguous()));
}

TEST(StridedCopy, ASliceCostsItsOwnBytesOnly) {
  EXPECT_EQ(Captured(at::zeros({1'000'000}).slice(0, 10, 20)).size(), 40u);
  EXPECT_EQ(Captured(at::zeros({1}).expand({1000, 1000})).size(), 4u);
}

TEST(ResolveSigns, ComplexViewsAreThoseOfTorch) {
  at::manual_seed(2);
  for (c10::ScalarType type : {at::kComplexFloat, at::kComplexDouble}) {  // torch has no half one
    const at::Tensor z = at::randn({5, 7}, at::kComplexDouble).to(type);
    for (const at::Tensor& view : {z.conj(), z.conj().t(), z.t(), at::_neg_view(z),
                                   at::_neg_view(z.conj()), z.conj().slice(1, 0, 7, 3)}) {
      EXPECT_EQ(Captured(view), BytesOf(view.resolve_conj().resolve_neg().contiguous())) << type;
    }
    const at::Tensor imaginary = at::imag(z.conj());
    EXPECT_TRUE(imaginary.is_neg());
    EXPECT_EQ(Captured(imaginary), BytesOf(imaginary.resolve_neg().contiguous()));
  }
}

TEST(ResolveSigns, NegativeViewsOfRealTypes) {
  at::manual_seed(3);
  for (c10::ScalarType type : {at::kByte, at::kChar, at::kShort, at::kInt, at::kLong, at::kHalf,
                               at::kBFloat16, at::kFloat, at::kDouble}) {
    const at::Tensor x = at::randint(-100, 100, {6, 5}, at::kDouble).to(type);
    const at::Tensor view = at::_neg_view(x.t());
    EXPECT_EQ(Captured(view), BytesOf(view.resolve_neg().contiguous())) << type;
  }
}

TEST(ResolveSigns, FlipsSignBitsByHand) {
  Bytes pair = {std::byte{1}, std::byte{0}, std::byte{2}, std::byte{0x80}};  // complex32
  ASSERT_TRUE(ResolveSigns(pair, 4, NumberKind::kComplex, /*conj=*/true, /*neg=*/false));
  EXPECT_EQ(pair, (Bytes{std::byte{1}, std::byte{0}, std::byte{2}, std::byte{0}}));
  ASSERT_TRUE(ResolveSigns(pair, 4, NumberKind::kComplex, /*conj=*/true, /*neg=*/true));
  EXPECT_EQ(pair, (Bytes{std::byte{1}, std::byte{0x80}, std::byte{2}, std::byte{0}}));
  Bytes odd(3);
  EXPECT_FALSE(ResolveSigns(odd, 3, NumberKind::kInteger, false, true));
}

}  // namespace
}  // namespace tdump::collectors
