// E16: operators of each calling convention, called from C++ so that AddressSanitizer sees what the
// collector reads and when. Values of records are compared byte by byte with what was written here
// by hand.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <functional>
#include <optional>
#include <ostream>
#include <stdexcept>

#include "tests/collectors/started_rig.h"

namespace tdump::collectors {
namespace {

using torch::jit::Stack;

// ---- operators whose kernels are called boxed ----

// lists(Tensor[] xs, Tensor? shift, int factor) -> (Tensor[], Tensor)
// Each of xs times `factor` plus `shift`, and the first one of xs itself.
void Lists(const c10::OperatorHandle&, Stack* stack) {
  const int64_t factor = torch::jit::pop(*stack).toInt();
  const auto shift = torch::jit::pop(*stack).toOptional<at::Tensor>();
  const std::vector<at::Tensor> xs = torch::jit::pop(*stack).toTensorVector();
  std::vector<at::Tensor> made;
  for (const at::Tensor& x : xs) {
    const at::Tensor product = x.mul(factor);
    made.push_back(shift ? product.add(*shift) : product);
  }
  torch::jit::push(*stack, std::move(made), xs.front());
}

// fill_(Tensor(a!)[] xs) -> ()
void Fill(const c10::OperatorHandle&, Stack* stack) {
  for (at::Tensor& x : torch::jit::pop(*stack).toTensorVector()) x.fill_(7);
}

// raises(Tensor(a!) x) -> Tensor
void Raises(const c10::OperatorHandle&, Stack* stack) {
  torch::jit::pop(*stack).toTensor().fill_(7);
  throw std::runtime_error("raises");
}

// last(Tensor(a!) x) -> Tensor: nobody else may have x, which is gone at the end.
void Last(const c10::OperatorHandle&, Stack* stack) {
  at::Tensor result;
  {
    const at::Tensor x = torch::jit::pop(*stack).toTensor();
    result = x.add(1);
  }
  torch::jit::push(*stack, std::move(result));
}

// other_storage(Tensor(a!) x) -> (): x has three elements afterwards, in memory of their own.
void OtherStorage(const c10::OperatorHandle&, Stack* stack) {
  torch::jit::pop(*stack).toTensor().set_(at::full({3}, 8.0f));
}

// As a key of the dispatcher that stands above all backends: any operator arrives here boxed.
void Above(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  c10::impl::ExcludeDispatchKeyGuard guard(c10::DispatchKey::TESTING_ONLY_GenericMode);
  op.callBoxed(stack);
}

template <auto* kKernel>
torch::CppFunction Boxed() {
  return torch::CppFunction::makeFromBoxedFunction<kKernel>();
}

TORCH_LIBRARY(tdump_test, library) {
  library.def("lists(Tensor[] xs, Tensor? shift, int factor) -> (Tensor[], Tensor)");
  library.def("fill_(Tensor(a!)[] xs) -> ()");
  library.def("raises(Tensor(a!) x) -> Tensor");
  library.def("last(Tensor(a!) x) -> Tensor");
  library.def("other_storage(Tensor(a!) x) -> ()");
}
TORCH_LIBRARY_IMPL(tdump_test, CPU, library) {
  library.impl("lists", Boxed<&Lists>());
  library.impl("fill_", Boxed<&Fill>());
  library.impl("raises", Boxed<&Raises>());
  library.impl("last", Boxed<&Last>());
  library.impl("other_storage", Boxed<&OtherStorage>());
}
TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) { library.fallback(Boxed<&Above>()); }

c10::OperatorHandle Operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
}

// ---- what is expected ----

template <class T>
constexpr std::string_view kDType = "";
template <>
constexpr std::string_view kDType<float> = "float32";
template <>
constexpr std::string_view kDType<int64_t> = "int64";
template <>
constexpr std::string_view kDType<bool> = "bool";

struct Value {
  Role role;
  std::string arg;
  std::string dtype;
  std::vector<int64_t> sizes;
  std::vector<uint8_t> bytes;
  SkipReason reason = SkipReason::kNone;
  bool operator==(const Value&) const = default;
};
using Values = std::vector<Value>;

void PrintTo(const Value& value, std::ostream* out) {
  *out << "role " << static_cast<int>(value.role) << " '" << value.arg << "' " << value.dtype << " "
       << testing::PrintToString(value.sizes) << " " << testing::PrintToString(value.bytes)
       << " reason " << static_cast<int>(value.reason);
}

template <class T = float>
Value Is(Role role, std::string arg, std::vector<int64_t> sizes,
         std::initializer_list<T> elements) {
  Value value{role, std::move(arg), std::string(kDType<T>), std::move(sizes), {}};
  for (const T element : elements) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&element);
    value.bytes.insert(value.bytes.end(), bytes, bytes + sizeof(T));
  }
  return value;
}

Value NoData(Role role, std::string arg, std::vector<int64_t> sizes) {
  return {role, std::move(arg), "float32", std::move(sizes), {}, SkipReason::kNoData};
}

// A tensor whose making nobody observes.
template <class T = float>
at::Tensor Make(std::vector<int64_t> sizes, std::vector<T> elements) {
  at::DisableRecordFunctionGuard guard;
  const at::TensorOptions options(c10::CppTypeToScalarType<T>::value);
  return at::from_blob(elements.data(), sizes, options).clone();
}

class AtenCollectorTest : public ::testing::Test {
 protected:
  AtenCollectorTest() : rig(StartedRig()) { rig.plan.aten = true; }
  ~AtenCollectorTest() override { rig.plan.aten = false; }

  // Records of the `nth` call of an operator, in their order.
  Values Of(std::string_view name, size_t nth = 0) const {
    const Call* call = CallOf(name, nth);
    Values values;
    for (const MemorySink::Kept& kept : rig.sink.kept) {
      if (call == nullptr || kept.call != call->begin) continue;
      Value& value =
          values.emplace_back(Value{kept.role, kept.arg, kept.dtype, kept.sizes, {}, kept.reason});
      for (const std::byte byte : kept.data) value.bytes.push_back(static_cast<uint8_t>(byte));
    }
    return values;
  }
  std::string TextOf(std::string_view name) const {
    const Call* call = CallOf(name, 0);
    return call == nullptr ? "no call" : rig.sink.texts.at(call - rig.sink.calls.data());
  }
  const Call* CallOf(std::string_view name, size_t nth) const {
    for (const Call& call : rig.sink.calls) {
      if (rig.operators.Get(call.op).op == name && nth-- == 0) return &call;
    }
    ADD_FAILURE() << "no call of " << name << " among " << testing::PrintToString(rig.Calls());
    return nullptr;
  }

  CollectorRig& rig;
};

constexpr Role kIn = Role::kInput, kOut = Role::kOutput, kBefore = Role::kBefore,
               kAfter = Role::kAfter;

// ---- LibTorch's own operators: called unboxed ----
// Results are dropped where they are made, so what is recorded must have been read in time.

TEST_F(AtenCollectorTest, ListsOfTensorsAsArguments) {
  const at::Tensor a = Make({2}, {1.0f, 2.0f}), b = Make({1}, {3.0f}), c = Make({2}, {4.0f, 5.0f});
  at::cat({a, b});
  EXPECT_EQ(Of("aten::cat"), (Values{Is(kIn, "0.0", {2}, {1.0f, 2.0f}), Is(kIn, "0.1", {1}, {3.0f}),
                                     Is(kOut, "", {3}, {1.0f, 2.0f, 3.0f})}));
  at::stack({a, c}, 1);
  EXPECT_EQ(Of("aten::stack"),
            (Values{Is(kIn, "0.0", {2}, {1.0f, 2.0f}), Is(kIn, "0.1", {2}, {4.0f, 5.0f}),
                    Is(kOut, "", {2, 2}, {1.0f, 4.0f, 2.0f, 5.0f})}));
  EXPECT_EQ(TextOf("aten::stack"), "dim=1");
}

TEST_F(AtenCollectorTest, ListsOfTensorsAsResults) {
  const at::Tensor x = Make({2, 2}, {1.0f, 2.0f, 3.0f, 4.0f});
  at::unbind(x, 1);
  EXPECT_EQ(Of("aten::unbind"),
            (Values{Is(kIn, "0", {2, 2}, {1.0f, 2.0f, 3.0f, 4.0f}),
                    Is(kOut, "0", {2}, {1.0f, 3.0f}), Is(kOut, "1", {2}, {2.0f, 4.0f})}));
  at::split(Make({3}, {1.0f, 2.0f, 3.0f}), 2);
  EXPECT_EQ(Of("aten::split"),
            (Values{Is(kIn, "0", {3}, {1.0f, 2.0f, 3.0f}), Is(kOut, "0", {2}, {1.0f, 2.0f}),
                    Is(kOut, "1", {1}, {3.0f})}));
}

TEST_F(AtenCollectorTest, AListThatIsWritten) {
  const at::Tensor a = Make({1}, {1.0f}), b = Make({2}, {2.0f, 3.0f});
  at::_foreach_add_({a, b}, 1.5);
  EXPECT_EQ(Of("aten::_foreach_add_"),
            (Values{Is(kBefore, "0.0", {1}, {1.0f}), Is(kBefore, "0.1", {2}, {2.0f, 3.0f}),
                    Is(kAfter, "0.0", {1}, {2.5f}), Is(kAfter, "0.1", {2}, {3.5f, 4.5f})}));
}

TEST_F(AtenCollectorTest, Tuples) {
  const at::Tensor x = Make({2, 2}, {1.0f, 5.0f, 4.0f, 2.0f});
  const Value given = Is(kIn, "0", {2, 2}, {1.0f, 5.0f, 4.0f, 2.0f});
  at::max(x, 1);
  EXPECT_EQ(Of("aten::max"),
            (Values{given, Is(kOut, "0", {2}, {5.0f, 4.0f}), Is<int64_t>(kOut, "1", {2}, {1, 0})}));
  at::sort(x, /*stable=*/true, 0, /*descending=*/true);
  EXPECT_EQ(Of("aten::sort"), (Values{given, Is(kOut, "0", {2, 2}, {4.0f, 5.0f, 1.0f, 2.0f}),
                                      Is<int64_t>(kOut, "1", {2, 2}, {1, 0, 0, 1})}));
}

TEST_F(AtenCollectorTest, OptionalTensors) {
  // The mean is 2, the variance 1.
  const at::Tensor x = Make({1, 2}, {1.0f, 3.0f});
  const Value given = Is(kIn, "0", {1, 2}, {1.0f, 3.0f});
  const Value mean = Is(kOut, "1", {1, 1}, {2.0f}), rstd = Is(kOut, "2", {1, 1}, {1.0f});
  at::native_layer_norm(x, {2}, {}, {}, 0);
  EXPECT_EQ(Of("aten::native_layer_norm"),
            (Values{given, Is(kOut, "0", {1, 2}, {-1.0f, 1.0f}), mean, rstd}));
  at::native_layer_norm(x, {2}, Make({2}, {2.0f, 3.0f}), Make({2}, {0.0f, 1.0f}), 0);
  EXPECT_EQ(Of("aten::native_layer_norm", 1),
            (Values{given, Is(kIn, "2", {2}, {2.0f, 3.0f}), Is(kIn, "3", {2}, {0.0f, 1.0f}),
                    Is(kOut, "0", {1, 2}, {-2.0f, 4.0f}), mean, rstd}));
}

TEST_F(AtenCollectorTest, AListOfOptionalTensors) {
  const at::Tensor x = Make({2, 2}, {1.0f, 2.0f, 3.0f, 4.0f});
  at::index(x, {std::nullopt, Make<int64_t>({1}, {1})});
  EXPECT_EQ(Of("aten::index"),
            (Values{Is(kIn, "0", {2, 2}, {1.0f, 2.0f, 3.0f, 4.0f}),
                    Is<int64_t>(kIn, "1.1", {1}, {1}), Is(kOut, "", {2, 1}, {2.0f, 4.0f})}));
}

TEST_F(AtenCollectorTest, UndefinedResultsAreNamed) {
  const at::Tensor x = Make({1, 2}, {1.0f, 3.0f}), one = Make({1, 1}, {1.0f});
  const at::Tensor mean = Make({1, 1}, {2.0f}), gradient = Make({1, 2}, {1.0f, 1.0f});
  at::native_layer_norm_backward(gradient, x, {2}, mean, one, {}, {}, {true, false, false});
  const Values values = Of("aten::native_layer_norm_backward");
  ASSERT_EQ(values.size(), 5u);
  EXPECT_EQ(values[4], Is(kOut, "0", {1, 2}, {0.0f, 0.0f}));  // of a sum that is always 0
  EXPECT_THAT(TextOf("aten::native_layer_norm_backward"),
              testing::HasSubstr("1=undefined; 2=undefined"));
}

TEST_F(AtenCollectorTest, AResultThatOutgrowsTheGivenTensor) {
  at::Tensor out = Make<float>({0}, {});
  at::add_out(out, Make({2}, {1.0f, 2.0f}), Make({2}, {3.0f, 4.0f}));
  EXPECT_EQ(Of("aten::add"),
            (Values{Is(kIn, "0", {2}, {1.0f, 2.0f}), Is(kIn, "1", {2}, {3.0f, 4.0f}),
                    Is(kBefore, "kwargs.out", {0}, {}), Is(kOut, "", {2}, {4.0f, 6.0f}),
                    Is(kAfter, "kwargs.out", {2}, {4.0f, 6.0f})}));
}

TEST_F(AtenCollectorTest, AMetaTensorHasAShapeOnly) {
  at::Tensor x, y;
  {
    at::DisableRecordFunctionGuard guard;
    x = at::empty({2, 3}, at::kMeta);
    y = at::empty({3}, at::kMeta);
  }
  at::add(x, y);
  EXPECT_EQ(Of("aten::add"),
            (Values{NoData(kIn, "0", {2, 3}), NoData(kIn, "1", {3}), NoData(kOut, "", {2, 3})}));
  at::cat({x, x}).chunk(2);
  EXPECT_EQ(Of("aten::cat"), (Values{NoData(kIn, "0.0", {2, 3}), NoData(kIn, "0.1", {2, 3}),
                                     NoData(kOut, "", {4, 3})}));
  x.add_(1);
  EXPECT_EQ(Of("aten::add_"), (Values{NoData(kBefore, "0", {2, 3}), NoData(kOut, "", {2, 3}),
                                      NoData(kAfter, "0", {2, 3})}));
}

// ---- operators with a boxed kernel ----

const Values kListsRecords{
    Is(kIn, "0.0", {2}, {1.0f, 2.0f}), Is(kIn, "0.1", {1}, {3.0f}),
    Is(kIn, "1", {1}, {10.0f}),        Is(kOut, "0.0", {2}, {12.0f, 14.0f}),
    Is(kOut, "0.1", {1}, {16.0f}),     Is(kOut, "1", {2}, {1.0f, 2.0f}),
};

TEST_F(AtenCollectorTest, BoxedListsCalledUnboxed) {
  using Schema = std::tuple<std::vector<at::Tensor>, at::Tensor>(
      at::TensorList, const std::optional<at::Tensor>&, int64_t);
  const auto lists = Operator("tdump_test::lists").typed<Schema>();
  lists.call({Make({2}, {1.0f, 2.0f}), Make({1}, {3.0f})}, Make({1}, {10.0f}), 2);
  EXPECT_EQ(Of("tdump_test::lists"), kListsRecords);
  EXPECT_EQ(TextOf("tdump_test::lists"), "factor=2");
  lists.call({Make({1}, {5.0f})}, std::nullopt, 3);
  EXPECT_EQ(Of("tdump_test::lists", 1),
            (Values{Is(kIn, "0.0", {1}, {5.0f}), Is(kOut, "0.0", {1}, {15.0f}),
                    Is(kOut, "1", {1}, {5.0f})}));
  EXPECT_EQ(rig.sink.calls.size(), 2u);  // not what the kernel called
}

TEST_F(AtenCollectorTest, BoxedListsCalledBoxed) {
  Stack stack;
  torch::jit::push(stack, std::vector{Make({2}, {1.0f, 2.0f}), Make({1}, {3.0f})},
                   Make({1}, {10.0f}), 2);
  Operator("tdump_test::lists").callBoxed(&stack);
  stack.clear();
  EXPECT_EQ(Of("tdump_test::lists"), kListsRecords);
}

TEST_F(AtenCollectorTest, BoxedWithoutResults) {
  const auto fill = Operator("tdump_test::fill_").typed<void(at::TensorList)>();
  const Values expected{Is(kBefore, "0.0", {1}, {1.0f}), Is(kBefore, "0.1", {2}, {2.0f, 3.0f}),
                        Is(kAfter, "0.0", {1}, {7.0f}), Is(kAfter, "0.1", {2}, {7.0f, 7.0f})};
  const at::Tensor a = Make({1}, {1.0f}), b = Make({2}, {2.0f, 3.0f});
  fill.call({a, b});
  EXPECT_EQ(Of("tdump_test::fill_"), expected);
}

TEST_F(AtenCollectorTest, BoxedThatRaises) {
  const at::Tensor x = Make({1}, {1.0f});
  EXPECT_THROW(Operator("tdump_test::raises").typed<at::Tensor(const at::Tensor&)>().call(x),
               std::runtime_error);
  EXPECT_TRUE(CallOf("tdump_test::raises", 0)->threw);
  EXPECT_EQ(Of("tdump_test::raises"), Values{Is(kBefore, "0", {1}, {1.0f})});
  at::neg(x);  // what follows is as ever
  EXPECT_FALSE(CallOf("aten::neg", 0)->threw);
  EXPECT_EQ(Of("aten::neg"), (Values{Is(kIn, "0", {1}, {7.0f}), Is(kOut, "", {1}, {-7.0f})}));
}

TEST_F(AtenCollectorTest, AWrittenArgumentThatIsGone) {
  Stack stack;
  torch::jit::push(stack, Make({1}, {1.0f}));
  Operator("tdump_test::last").callBoxed(&stack);
  EXPECT_EQ(Of("tdump_test::last"),
            (Values{Is(kBefore, "0", {1}, {1.0f}), Is(kOut, "", {1}, {2.0f})}));
}

TEST_F(AtenCollectorTest, AWrittenArgumentWhoseMemoryIsGone) {
  const at::Tensor x = Make({1}, {1.0f});
  Operator("tdump_test::other_storage").typed<void(const at::Tensor&)>().call(x);
  EXPECT_EQ(Of("tdump_test::other_storage"),
            (Values{Is(kBefore, "0", {1}, {1.0f}), Is(kAfter, "0", {3}, {8.0f, 8.0f, 8.0f})}));
}

TEST_F(AtenCollectorTest, BoxedFallback) {
  const at::Tensor a = Make({2}, {1.0f, 2.0f}), b = Make({2}, {4.0f, 3.0f});
  {
    c10::impl::IncludeDispatchKeyGuard guard(c10::DispatchKey::TESTING_ONLY_GenericMode);
    at::max(at::stack({a, b}), 0);
    at::_foreach_add_({a, b}, 1.0);
  }
  EXPECT_EQ(rig.sink.calls.size(), 3u) << testing::PrintToString(rig.Calls());
  const std::initializer_list<float> stacked{1.0f, 2.0f, 4.0f, 3.0f};
  EXPECT_EQ(Of("aten::stack"),
            (Values{Is(kIn, "0.0", {2}, {1.0f, 2.0f}), Is(kIn, "0.1", {2}, {4.0f, 3.0f}),
                    Is(kOut, "", {2, 2}, stacked)}));
  EXPECT_EQ(Of("aten::max"),
            (Values{Is(kIn, "0", {2, 2}, stacked), Is(kOut, "0", {2}, {4.0f, 3.0f}),
                    Is<int64_t>(kOut, "1", {2}, {1, 1})}));
  EXPECT_EQ(Of("aten::_foreach_add_"),
            (Values{Is(kBefore, "0.0", {2}, {1.0f, 2.0f}), Is(kBefore, "0.1", {2}, {4.0f, 3.0f}),
                    Is(kAfter, "0.0", {2}, {2.0f, 3.0f}), Is(kAfter, "0.1", {2}, {5.0f, 4.0f})}));
}

// ---- operators inside callbacks ----

// An observer of the job that computes by itself in its callbacks, which come after those of tdump.
class ComputingObserver {
 public:
  ComputingObserver(const char* op, const at::Tensor& tensor) {
    observed = op;
    given = tensor;
    handle_ = at::addGlobalCallback(at::RecordFunctionCallback(&Begin, &End));
  }
  ~ComputingObserver() {
    at::removeCallback(handle_);
    observed = nullptr;
    given.reset();
  }
  static inline std::vector<float> sums;

 private:
  struct Context final : at::ObserverContext {};
  static std::unique_ptr<at::ObserverContext> Begin(const at::RecordFunction& range) {
    if (observed == nullptr || std::string_view(range.name()) != observed) return nullptr;
    Compute();
    return std::make_unique<Context>();
  }
  static void End(const at::RecordFunction&, at::ObserverContext* context) {
    if (context != nullptr) Compute();
  }
  static void Compute() { sums.push_back(*at::sum(given).const_data_ptr<float>()); }

  static inline const char* observed = nullptr;
  static inline at::Tensor given;
  at::CallbackHandle handle_;
};

TEST_F(AtenCollectorTest, AnObserverOfTheJobThatComputes) {
  const at::Tensor x = Make({2}, {1.0f, 2.0f});
  ComputingObserver::sums.clear();
  {
    const ComputingObserver observer("aten::mul_", x);
    x.mul_(2);
  }
  EXPECT_EQ(ComputingObserver::sums, (std::vector<float>{3.0f, 6.0f}));
  EXPECT_EQ(Of("aten::mul_"),
            (Values{Is(kBefore, "0", {2}, {1.0f, 2.0f}), Is(kOut, "", {2}, {2.0f, 4.0f}),
                    Is(kAfter, "0", {2}, {2.0f, 4.0f})}));
  at::neg(x);
  EXPECT_EQ(Of("aten::neg"),
            (Values{Is(kIn, "0", {2}, {2.0f, 4.0f}), Is(kOut, "", {2}, {-2.0f, -4.0f})}));
}

TEST_F(AtenCollectorTest, WhatASinkComputesIsNoOperatorOfTheJob) {
  const at::Tensor x = Make({1}, {1.0f}), other = Make({1}, {5.0f});
  int computed = 0;
  rig.sink.inside = [&] {
    ++computed;
    at::cat({other, other}).sum();
  };
  at::neg(x);
  rig.sink.inside = nullptr;
  EXPECT_EQ(computed, 2);
  EXPECT_EQ(Of("aten::neg"), (Values{Is(kIn, "0", {1}, {1.0f}), Is(kOut, "", {1}, {-1.0f})}));
  EXPECT_EQ(rig.sink.calls.size(), 1u) << testing::PrintToString(rig.Calls());
}

}  // namespace
}  // namespace tdump::collectors
