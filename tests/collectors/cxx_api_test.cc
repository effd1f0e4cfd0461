// The public header as a program uses it, on a runtime in memory.
#include <ATen/quantized/Quantizer.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "collectors/torch/cxx_api.h"
#include "tdump/tdump.h"
#include "tests/collectors/started_rig.h"

namespace tdump::collectors {
namespace {

using Names = std::vector<std::string>;
namespace nn = torch::nn;

struct PairImpl : nn::Module {
  PairImpl() {
    first = register_module("first", nn::Linear(2, 3));
    second = register_module("second", nn::Linear(nn::LinearOptions(3, 3).bias(false)));
    register_module("again", second);
    scale = register_buffer("scale", at::ones({1}));
  }
  at::Tensor forward(const at::Tensor& x) {
    ::tdump::scope scope(this, x);
    if (x.size(0) == 0) throw std::runtime_error("empty");
    ::tdump::tap(x, "given", {"early"});
    return scope.output(at::add(x, scale));
  }
  nn::Linear first{nullptr}, second{nullptr};
  at::Tensor scale;
};
TORCH_MODULE(Pair);

class CxxApiTest : public ::testing::Test {
 protected:
  CxxApiTest() : rig(StartedRig()) {}
  Names Kept(Role role) {
    Names names;
    for (const MemorySink::Kept& kept : rig.sink.kept) {
      if (kept.role == role) names.push_back(rig.Name(kept.op) + "#" + kept.arg);
    }
    return names;
  }
  std::vector<float> Values(const MemorySink::Kept& kept) {
    std::vector<float> values(kept.data.size() / sizeof(float));
    std::memcpy(values.data(), kept.data.data(), kept.data.size());
    return values;
  }

  // Under a root of its own: the cases share a table of operators, where a name is the first one's.
  template <class M>
  static void Watch(const M& module) {
    ::tdump::watch(module, ::testing::UnitTest::GetInstance()->current_test_info()->name());
  }

  CollectorRig& rig;
};

TEST_F(CxxApiTest, AWatchedModuleHasItsNamesParametersAndBuffers) {
  Pair pair;
  ::tdump::watch(pair);
  pair->forward(at::ones({1, 1}));
  EXPECT_EQ(Kept(Role::kParam), (Names{"first#weight", "first#bias", "second#weight"}));
  EXPECT_EQ(Kept(Role::kState), Names{".#scale"});
  EXPECT_EQ(rig.Calls(), (Names{"./given", "."}));
  Names expected;
  for (OperatorId op : rig.sink.expected) expected.push_back(rig.Name(op));
  EXPECT_EQ(expected, (Names{".", "first", "second"}));
  EXPECT_EQ(rig.operators.Get(rig.sink.expected[2]).aliases, Names{"again"});
  EXPECT_TRUE(rig.operators.Get(rig.sink.expected[1]).leaf);
  EXPECT_FALSE(rig.operators.Get(rig.sink.expected[0]).leaf);
  EXPECT_EQ(rig.operators.Get(rig.sink.expected[1]).cls, "torch::nn::LinearImpl");
  EXPECT_EQ(rig.clock.kinds, (std::vector{BoundaryKind::kRootBegin, BoundaryKind::kRootEnd}));
}

TEST_F(CxxApiTest, InputsOutputsAndTapsAreSnapshots) {
  Pair pair;
  Watch(pair);
  at::Tensor x = at::full({2}, 3.0f);
  at::Tensor y = pair->forward(x);
  x.zero_();
  y.zero_();
  ASSERT_EQ(Kept(Role::kInput), Names{".#0"});
  ASSERT_EQ(Kept(Role::kOutput), (Names{"./given#", ".#"}));
  for (const MemorySink::Kept& kept : rig.sink.kept) {
    const bool is_output = kept.role == Role::kOutput && rig.Name(kept.op) == ".";
    const bool is_given = kept.role == Role::kInput || rig.Name(kept.op) == "./given";
    if (is_output) {
      EXPECT_EQ(Values(kept), (std::vector<float>{4, 4}));
    } else if (is_given) {
      EXPECT_EQ(Values(kept), (std::vector<float>{3, 3}));
    }
  }
  EXPECT_EQ(rig.sink.texts[0], "tag=early");
  EXPECT_EQ(rig.sink.calls[0].parent, rig.sink.calls[1].begin);
}

TEST_F(CxxApiTest, TheGradientOfATapIsRecordedWhenItArrives) {
  at::Tensor x = at::ones({2}).requires_grad_();
  const at::Tensor y = x * 2;
  const long uses = y.use_count();
  EXPECT_EQ(&::tdump::tap_grad(y, "late", {"g"}), &y);
  EXPECT_EQ(y.use_count(), uses);
  EXPECT_EQ(rig.Calls(), Names{"/late"});
  EXPECT_EQ(rig.sink.texts[0], "tag=g");
  EXPECT_TRUE(rig.sink.kept.empty());
  (y * 5).sum().backward();
  ASSERT_EQ(Kept(Role::kGradOutput), Names{"/late#"});
  EXPECT_EQ(rig.sink.kept.size(), 1u);
  EXPECT_EQ(Values(rig.sink.kept[0]), (std::vector<float>{5, 5}));
  EXPECT_EQ(x.grad().sum().item<float>(), 20);
}

TEST_F(CxxApiTest, ATapOfAGradientThatNeverComesIsTold) {
  ::tdump::tap_grad(at::ones({2}), "never");
  EXPECT_TRUE(rig.sink.kept.empty());
  EXPECT_EQ(rig.sink.notes,
            Names{"the gradient of the tap 'never' is not recorded: the tensor needs none"});
}

TEST_F(CxxApiTest, ParametersOncePerPass) {
  Pair pair;
  Watch(pair);
  pair->forward(at::ones({1}));
  pair->forward(at::ones({1}));
  EXPECT_EQ(Kept(Role::kParam).size(), 3u);
  ++rig.gate.pass;
  pair->forward(at::ones({1}));
  EXPECT_EQ(Kept(Role::kParam).size(), 6u);
}

TEST_F(CxxApiTest, AMetaParameterIsListedWithItsReason) {
  auto module = std::make_shared<nn::Module>();
  module->register_parameter("real", at::ones({2}));
  module->register_parameter("meta", at::empty({2}, at::kMeta));
  Watch(module);
  { ::tdump::scope scope(module.get()); }
  ASSERT_EQ(Kept(Role::kParam), (Names{".#real", ".#meta"}));
  EXPECT_EQ(rig.sink.kept[0].reason, SkipReason::kNone);
  EXPECT_EQ(rig.sink.kept[1].reason, SkipReason::kNoData);
}

TEST_F(CxxApiTest, ATensorBeyondTheFormatIsNotedOnly) {
  const int64_t side = int64_t{1} << 31;
  auto module = std::make_shared<nn::Module>();
  Watch(module);
  {
    ::tdump::scope scope(module.get(), at::ones({1, 1}).expand({side, side}));
    scope.output(at::ones({1}));
  }
  EXPECT_EQ(Kept(Role::kInput), Names{});
  EXPECT_EQ(Kept(Role::kOutput), Names{".#"});
  ASSERT_EQ(rig.sink.notes.size(), 1u);
  EXPECT_NE(rig.sink.notes[0].find("2^63 bytes"), std::string::npos);
}

// B08. LibTorch's own functions make zero points of 64 bits; a quantizer keeps what it is given.
// Four numbers of 32 bits are 16 bytes, and the address sanitizer knows where they end.
TEST_F(CxxApiTest, ZeroPointsByChannelAreReadAsWideAsTheyAre) {
  const std::vector<uint8_t> integers = {30, 32, 54, 56, 68, 70, 102, 104};
  for (const at::ScalarType wide : {at::kInt, at::kLong}) {
    rig.sink.Clear();
    const at::Tensor points = at::tensor({30, 50, 60, 90}).to(wide);
    const at::Tensor quantised = at::new_qtensor(
        {4, 2}, at::TensorOptions(at::kQUInt8),
        c10::make_intrusive<at::PerChannelAffineQuantizer>(
            at::kQUInt8, at::full({4}, 0.5, at::TensorOptions(at::kDouble)), points, /*axis=*/0));
    std::memcpy(quantised.data_ptr(), integers.data(), integers.size());
    ::tdump::tap(quantised, "quantised");
    const auto kept = std::find_if(
        rig.sink.kept.begin(), rig.sink.kept.end(),
        [](const MemorySink::Kept& component) { return component.arg == "zero_points"; });
    ASSERT_NE(kept, rig.sink.kept.end());
    EXPECT_EQ(kept->dtype, wide == at::kInt ? "int32" : "int64");
    EXPECT_EQ(kept->sizes, std::vector<int64_t>{4});
    ASSERT_EQ(kept->data.size(), points.nbytes());
    EXPECT_EQ(std::memcmp(kept->data.data(), points.data_ptr(), points.nbytes()), 0);
    ASSERT_EQ(rig.sink.kept[0].data.size(), integers.size());
    EXPECT_EQ(std::memcmp(rig.sink.kept[0].data.data(), integers.data(), integers.size()), 0);
  }
}

TEST_F(CxxApiTest, AnExceptionEndsTheCall) {
  Pair pair;
  Watch(pair);
  EXPECT_THROW(pair->forward(at::ones({0})), std::runtime_error);
  EXPECT_EQ(rig.Calls(), Names{".!"});
  pair->forward(at::ones({1}));
  EXPECT_EQ(rig.sink.calls.back().index, 1u);
  EXPECT_EQ(rig.sink.calls.back().parent, 0u);
}

// A forward that LibTorch exports, as the shim surrounds it; `raise`: its end is not reached.
[[gnu::noinline]] void Forward(const nn::Module* module, const at::Tensor& x, bool raise) {
  const void* const list[] = {&x};
  void* token = tdump_torch_forward_begin(module, list, 1);
  if (raise) throw std::runtime_error("inside");
  tdump_torch_forward_end(token, &x);
}

TEST_F(CxxApiTest, AForwardThatNeverEndedIsClosedByTheNextCall) {
  Pair pair;
  Watch(pair);
  const at::Tensor x = at::ones({2});
  EXPECT_THROW(Forward(pair->first.get(), x, true), std::runtime_error);
  EXPECT_TRUE(rig.Calls().empty());
  Forward(pair->second.get(), x, false);
  EXPECT_EQ(rig.Calls(), (Names{"first!", "second"}));
  EXPECT_EQ(rig.sink.calls[1].parent, 0u);
  EXPECT_EQ(Kept(Role::kInput), (Names{"first#0", "second#0"}));
}

TEST_F(CxxApiTest, AnUnwatchedOrDeadModuleIsNoCall) {
  const void* dead = nullptr;
  {
    Pair pair;
    Watch(pair);
    dead = static_cast<const nn::Module*>(pair.get());
  }
  EXPECT_EQ(tdump_torch_forward_begin(dead, nullptr, 0), nullptr);
  nn::Linear alone(2, 2);
  { ::tdump::scope scope(alone.get(), at::ones({2})); }
  EXPECT_TRUE(rig.Calls().empty());
}

TEST_F(CxxApiTest, NamedScopesNestBelowWhatIsOpen) {
  Pair pair;
  ::tdump::watch(pair, "actor");
  {
    ::tdump::scope outer(static_cast<const nn::Module*>(pair.get()));
    ::tdump::scope inner("mix", std::vector{at::ones({1}), at::ones({1})},
                         std::optional<at::Tensor>(), 7);
    inner.output(std::pair(at::ones({1}), at::ones({1})));
  }
  { ::tdump::scope alone("sample"); }
  EXPECT_EQ(rig.Calls(), (Names{"mix", ".", "sample"}));
  EXPECT_EQ(rig.operators.Get(rig.sink.calls[0].op).root, "actor");
  EXPECT_EQ(Kept(Role::kInput), (Names{"mix#0.0", "mix#0.1"}));
  EXPECT_EQ(Kept(Role::kOutput), (Names{"mix#0", "mix#1"}));
}

TEST_F(CxxApiTest, ThreadsDoNotMix) {
  Pair pair;
  Watch(pair);
  const auto work = [&] {
    for (int i = 0; i < 50; ++i) pair->forward(at::ones({1}));
  };
  std::thread one(work), two(work);
  one.join();
  two.join();
  std::map<uint32_t, std::vector<uint64_t>> by_lane;
  for (const Call& call : rig.sink.calls) {
    if (rig.Name(call.op) == ".") by_lane[call.lane].push_back(call.index);
  }
  ASSERT_EQ(by_lane.size(), 2u);
  for (const auto& [lane, indices] : by_lane) {
    ASSERT_EQ(indices.size(), 50u);
    for (uint64_t i = 0; i < 50; ++i) EXPECT_EQ(indices[i], i);
  }
  EXPECT_EQ(Kept(Role::kParam).size(), 3u);
}

TEST_F(CxxApiTest, NothingIsRecordedWhileNotArmed) {
  Pair pair;
  Watch(pair);
  rig.gate.state = GateState::kIdle;
  pair->forward(at::ones({1}));
  EXPECT_TRUE(rig.sink.kept.empty());
  EXPECT_TRUE(rig.Calls().empty());
  EXPECT_EQ(rig.clock.kinds.size(), 2u);  // the clock still counts steps
  rig.gate.state = GateState::kOff;
  pair->forward(at::ones({1}));
  EXPECT_EQ(rig.clock.kinds.size(), 2u);
}

TEST_F(CxxApiTest, AStepOfTheJob) {
  ::tdump::step(41);
  EXPECT_EQ(rig.clock.kinds, std::vector{BoundaryKind::kExplicit});
}

}  // namespace
}  // namespace tdump::collectors
