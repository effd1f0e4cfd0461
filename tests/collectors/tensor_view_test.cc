#include "collectors/torch/tensor_view.h"

#include <ATen/ATen.h>
#include <ATen/FunctionalTensorWrapper.h>
#include <gtest/gtest.h>

namespace tdump::collectors {
namespace {

TensorView Seen(const at::Tensor& tensor, std::string_view subclass = "") {
  TensorView view;
  EXPECT_TRUE(Describe(tensor, subclass, &view));
  return view;
}

std::vector<int64_t> Sizes(const TensorView& view) {
  return {view.meta.sizes.begin(), view.meta.sizes.end()};
}

TEST(TensorView, AStridedViewIsDescribedAsItLies) {
  const at::Tensor base = at::arange(24, at::kFloat).reshape({4, 6});
  const at::Tensor slice = base.slice(0, 1, 4).slice(1, 2, 6, 2);
  const TensorView view = Seen(slice);
  EXPECT_EQ(view.reason, SkipReason::kNone);
  EXPECT_EQ(Sizes(view), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ((std::vector<int64_t>(view.meta.strides.begin(), view.meta.strides.end())),
            (std::vector<int64_t>{6, 2}));
  EXPECT_EQ(view.meta.storage_offset, 8);
  EXPECT_EQ(view.meta.storage_bytes, 96u);
  EXPECT_EQ(view.meta.storage_id, Seen(base).meta.storage_id);
  EXPECT_EQ(*reinterpret_cast<const float*>(view.data), 8.0f);
  EXPECT_EQ(view.meta.device, "cpu");
}

TEST(TensorView, UndefinedIsNoTensor) {
  TensorView view;
  EXPECT_FALSE(Describe(at::Tensor(), "", &view));
}

TEST(TensorView, MetaHasAShapeAndNoData) {
  const at::Tensor tensor = at::empty({2, 3}, at::device(at::kMeta).dtype(at::kHalf));
  const TensorView view = Seen(tensor);
  EXPECT_EQ(view.reason, SkipReason::kNoData);
  EXPECT_EQ(view.detail, "meta");
  EXPECT_EQ(view.data, nullptr);
  EXPECT_EQ(Sizes(view), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(view.meta.dtype.view(), "float16");
  EXPECT_EQ(view.meta.device, "meta");
}

TEST(TensorView, FunctionalWrapperHasNoData) {
  const at::Tensor wrapped = at::functionalization::impl::to_functional_tensor(at::ones({2}));
  const TensorView view = Seen(wrapped);
  EXPECT_EQ(view.reason, SkipReason::kNoData);
  EXPECT_EQ(view.detail, "functional");
  EXPECT_EQ(view.data, nullptr);
}

TEST(TensorView, SparseLayouts) {
  const at::Tensor dense = at::eye(3).slice(0, 0, 2);
  const std::pair<at::Tensor, Layout> cases[] = {
      {dense.to_sparse(), Layout::kSparseCoo},
      {dense.to_sparse_csr(), Layout::kSparseCsr},
      {dense.to_sparse_csc(), Layout::kSparseCsc},
      {at::ones({4, 4}).to_sparse_bsr({2, 2}), Layout::kSparseBsr},
      {at::ones({4, 4}).to_sparse_bsc({2, 2}), Layout::kSparseBsc},
  };
  for (const auto& [tensor, layout] : cases) {
    const TensorView view = Seen(tensor);
    EXPECT_EQ(view.meta.layout, layout);
    EXPECT_EQ(view.reason, SkipReason::kLayout);
    EXPECT_EQ(view.detail, ToString(layout));
    EXPECT_EQ(view.data, nullptr);
    EXPECT_EQ(Sizes(view), tensor.sizes().vec());
  }
}

TEST(TensorView, QuantisedShowsItsIntegers) {
  const at::Tensor tensor = at::quantize_per_tensor(at::ones({3}), 0.5, 2, at::kQUInt8);
  const TensorView view = Seen(tensor);
  EXPECT_EQ(view.reason, SkipReason::kNone);
  EXPECT_TRUE(view.quantised);
  EXPECT_EQ(view.meta.dtype.view(), "quint8");
  EXPECT_EQ(view.meta.subclass, "per_tensor_affine");
  ASSERT_NE(view.data, nullptr);
  EXPECT_EQ(view.data[0], std::byte{4});  // 1 / 0.5 + 2
}

// torch.empty() makes these; asked for their scheme they throw.
TEST(TensorView, QuantisedWithoutAQuantizerShowsItsIntegers) {
  for (const at::ScalarType type : {at::kQInt8, at::kQUInt8, at::kQInt32}) {
    const at::Tensor tensor = at::empty({3}, type);
    const TensorView view = Seen(tensor);
    EXPECT_EQ(view.reason, SkipReason::kNone) << type;
    EXPECT_EQ(view.meta.subclass, "unknown quantizer");
    EXPECT_NE(view.data, nullptr);
  }
}

TEST(TensorView, NestedKeepsNoData) {
  const at::Tensor parts[] = {at::ones({1, 4}), at::ones({2, 4}), at::ones({0, 4})};
  const TensorView view = Seen(at::_nested_tensor_from_tensor_list(parts));
  EXPECT_EQ(view.meta.layout, Layout::kNested);
  EXPECT_EQ(view.reason, SkipReason::kLayout);
}

TEST(TensorView, MkldnnIsOpaque) {
  if (!at::hasMKLDNN()) return;
  const TensorView view = Seen(at::ones({2, 2}).to_mkldnn());
  EXPECT_EQ(view.meta.layout, Layout::kMkldnn);
  EXPECT_EQ(view.reason, SkipReason::kLayout);
}

TEST(TensorView, EmptyTensorsShareNoStorage) {
  for (c10::ScalarType type : {at::kInt, at::kLong}) {
    const TensorView view = Seen(at::empty({0, 3}, type));
    EXPECT_EQ(view.reason, SkipReason::kNone);
    EXPECT_EQ(view.meta.storage_id, 0u);
  }
  const at::Tensor floats = at::ones({4});
  const TensorView other = Seen(floats.view(at::kInt));
  EXPECT_EQ(other.meta.storage_id, Seen(floats).meta.storage_id);
  EXPECT_NE(other.meta.storage_id, 0u);
}

TEST(TensorView, AFreedStorageIsNotRead) {
  const at::Tensor tensor = at::ones({8});
  tensor.storage().unsafeGetStorageImpl()->set_nbytes(0);
  const TensorView view = Seen(tensor);
  EXPECT_EQ(view.reason, SkipReason::kNoData);
  EXPECT_EQ(view.detail, "storage freed or too small");
  const at::Tensor shrunk = at::ones({8});
  shrunk.storage().unsafeGetStorageImpl()->set_nbytes(31);
  EXPECT_EQ(Seen(shrunk).reason, SkipReason::kNoData);
  EXPECT_EQ(Seen(shrunk.slice(0, 0, 7)).reason, SkipReason::kNone);
}

TEST(TensorView, FlagsAndSubclass) {
  const at::Tensor z = at::ones({2}, at::kComplexFloat);
  EXPECT_TRUE(Seen(z.conj()).meta.conj);
  EXPECT_TRUE(Seen(at::imag(z.conj())).meta.neg);
  EXPECT_TRUE(Seen(at::ones({2}).requires_grad_()).meta.requires_grad);
  EXPECT_EQ(Seen(z, "Named").meta.subclass, "Named");
  EXPECT_TRUE(Sizes(Seen(at::scalar_tensor(1))).empty());
}

}  // namespace
}  // namespace tdump::collectors
