// Script modules as a C++ program calls them, on a runtime in memory.
#include "collectors/torch/cxx_scripts.h"

#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>

#include "tests/collectors/started_rig.h"

namespace tdump::collectors {
namespace {

using Names = std::vector<std::string>;
using torch::jit::Module;

class CxxScriptsTest : public ::testing::Test {
 protected:
  CxxScriptsTest() : rig(StartedRig()) {}
  ~CxxScriptsTest() override { rig.runtime.collect_compiled = false; }

  static Module Scale(const at::Tensor& by) {
    Module scale("__torch__.Scale");
    scale.register_parameter("by", by, /*is_buffer=*/false);
    scale.define(R"(
      def forward(self, x):
        return x * self.by
    )");
    return scale;
  }

  // As the shim surrounds it.
  static at::Tensor Call(const Module& module, const at::Tensor& x) {
    const torch::jit::Method method = module.get_method("forward");
    tdump_torch_script_begin(&method);
    return method({x}).toTensor();
  }

  CollectorRig& rig;
};

TEST_F(CxxScriptsTest, PartsOfOneBufferAreOneModuleWhereTheyAreTheSamePart) {
  rig.runtime.collect_compiled = true;
  const at::Tensor flat = at::arange(1, 5, at::kFloat);
  Module root("__torch__.Root");
  root.register_module("left", Scale(flat.narrow(0, 0, 2)));
  root.register_module("right", Scale(flat.narrow(0, 2, 2)));
  root.register_module("again", Scale(flat.narrow(0, 0, 2)));
  root.register_module("wide", Scale(flat.narrow(0, 0, 2).view({1, 2})));
  root.define(R"(
    def forward(self, x):
      h = self.right.forward(self.left.forward(x))
      return self.wide.forward(self.again.forward(h))
  )");
  EXPECT_TRUE(Call(root, at::ones({2})).equal(at::tensor({3.F, 32.F}).view({1, 2})));
  EXPECT_EQ(rig.Calls(), (Names{"left", "right", "left", "wide", "."}));
}

TEST_F(CxxScriptsTest, WithoutTapsTheNoteIsSaidOnce) {
  const Module scale = Scale(at::ones({2}));
  for (int i = 0; i < 3; ++i) Call(scale, at::ones({2}));
  EXPECT_EQ(rig.sink.notes.size(), 1U);
  EXPECT_TRUE(rig.Calls().empty());
}

}  // namespace
}  // namespace tdump::collectors
