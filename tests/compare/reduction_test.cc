#include "compare/reduction.h"

#include <gtest/gtest.h>

namespace tdump::compare {
namespace {

using Sizes = std::vector<int64_t>;

std::vector<ArgumentMeta> Call(const std::vector<Sizes>& in, const std::vector<Sizes>& out) {
  std::vector<ArgumentMeta> arguments;
  for (size_t i = 0; i < in.size(); ++i)
    arguments.push_back({Role::kInput, std::to_string(i), "float32", in[i]});
  for (size_t i = 0; i < out.size(); ++i)
    arguments.push_back({Role::kOutput, std::to_string(i), "float32", out[i]});
  return arguments;
}

struct OpCase {
  const char* op;
  std::vector<Sizes> in, out;
  OperatorClass kind;
  uint64_t length;
};

TEST(ReductionOfAnOp, IsTheLengthOfItsSums) {
  const OpCase cases[] = {
      {"aten::mm", {{8, 384}, {384, 96}}, {{8, 96}}, OperatorClass::kProduct, 384},
      {"aten::addmm", {{96}, {8, 384}, {384, 96}}, {{8, 96}}, OperatorClass::kProduct, 384},
      {"aten::bmm", {{4, 8, 32}, {4, 32, 8}}, {{4, 8, 8}}, OperatorClass::kProduct, 32},
      {"aten::baddbmm",
       {{4, 8, 8}, {4, 8, 32}, {4, 32, 8}},
       {{4, 8, 8}},
       OperatorClass::kProduct,
       32},
      {"aten::linear", {{2, 8, 384}, {96, 384}}, {{2, 8, 96}}, OperatorClass::kProduct, 384},
      {"aten::dot", {{1000}, {1000}}, {{}}, OperatorClass::kProduct, 1000},
      // 3 channels of a group, kernel 5 x 7.
      {"aten::convolution",
       {{2, 6, 9, 9}, {4, 3, 5, 7}},
       {{2, 4, 5, 3}},
       OperatorClass::kProduct,
       105},
      // Scores are sums over 64, the output is one over 512 keys.
      {"aten::scaled_dot_product_attention",
       {{1, 8, 128, 64}, {1, 8, 512, 64}, {1, 8, 512, 64}},
       {{1, 8, 128, 64}},
       OperatorClass::kProduct,
       512},
      {"aten::native_layer_norm",
       {{2, 8, 384}, {}, {384}, {384}},
       {{2, 8, 384}},
       OperatorClass::kNormalisation,
       384},
      {"aten::layer_norm", {{2, 4, 8}, {}, {4, 8}}, {{2, 4, 8}}, OperatorClass::kNormalisation, 32},
      {"aten::rms_norm", {{2, 4, 8}}, {{2, 4, 8}}, OperatorClass::kNormalisation, 8},
      {"aten::native_batch_norm",
       {{4, 16, 5, 5}},
       {{4, 16, 5, 5}},
       OperatorClass::kNormalisation,
       100},
      {"aten::native_group_norm",
       {{4, 16, 5, 5}},
       {{4, 16, 5, 5}},
       OperatorClass::kNormalisation,
       400},
      {"aten::_softmax", {{2, 12, 77, 77}}, {{2, 12, 77, 77}}, OperatorClass::kSoftmax, 77},
      {"aten::_log_softmax", {{2, 30522}}, {{2, 30522}}, OperatorClass::kSoftmax, 30522},
      {"aten::sum", {{4, 5, 6}}, {{4, 6}}, OperatorClass::kReduction, 5},
      {"aten::sum.dim_IntList", {{4, 5, 6}}, {{6}}, OperatorClass::kReduction, 20},
      {"aten::mean", {{4, 5, 6}}, {{}}, OperatorClass::kReduction, 120},
      {"aten::cumsum", {{4, 100}}, {{4, 100}}, OperatorClass::kReduction, 100},
      {"aten::linalg_vector_norm", {{300}}, {{}}, OperatorClass::kReduction, 300},
      {"aten::embedding", {{30522, 384}, {2, 8}}, {{2, 8, 384}}, OperatorClass::kLookup, 1},
      // A row that every one of the 16 tokens picks is a sum of 16.
      {"aten::embedding_dense_backward",
       {{2, 8, 384}, {2, 8}},
       {{30522, 384}},
       OperatorClass::kReduction,
       16},
      {"aten::add", {{2, 8}, {2, 8}}, {{2, 8}}, OperatorClass::kElementwise, 1},
      {"aten::gelu", {{2, 1536}}, {{2, 1536}}, OperatorClass::kElementwise, 1},
      {"aten::mul_", {{2, 1536}}, {{2, 1536}}, OperatorClass::kElementwise, 1},
  };
  for (const OpCase& c : cases) {
    const std::vector<ArgumentMeta> arguments = Call(c.in, c.out);
    const Reduction reduction =
        ReductionOf({.op = c.op, .cls = "", .arguments = arguments, .weight = {}}, Role::kOutput);
    EXPECT_EQ(ToString(reduction.kind), ToString(c.kind)) << c.op;
    EXPECT_EQ(reduction.length, c.length) << c.op;
    EXPECT_TRUE(reduction.exact) << c.op;
  }
}

struct ModuleCase {
  const char* cls;
  Sizes in, weight;
  OperatorClass kind;
  uint64_t length;
};

TEST(ReductionOfAModule, FollowsItsClass) {
  const ModuleCase cases[] = {
      {"torch.nn.modules.linear.Linear", {2, 8, 384}, {}, OperatorClass::kProduct, 384},
      {"torch::nn::LinearImpl", {2, 8, 384}, {1536, 384}, OperatorClass::kProduct, 384},
      {"ColumnParallelLinear", {2, 8, 96}, {}, OperatorClass::kProduct, 96},
      {"torch.nn.modules.conv.Conv2d", {1, 3, 32, 32}, {8, 3, 5, 5}, OperatorClass::kProduct, 75},
      {"torch.nn.modules.conv.ConvTranspose2d",
       {1, 8, 9, 9},
       {8, 3, 5, 5},
       OperatorClass::kProduct,
       200},
      {"transformers.pytorch_utils.Conv1D", {2, 8, 768}, {768, 2304}, OperatorClass::kProduct, 768},
      {"torch.nn.modules.normalization.LayerNorm",
       {2, 8, 384},
       {},
       OperatorClass::kNormalisation,
       384},
      {"torch.nn.modules.normalization.LayerNorm",
       {2, 4, 8},
       {4, 8},
       OperatorClass::kNormalisation,
       32},
      {"LlamaRMSNorm", {2, 8, 4096}, {4096}, OperatorClass::kNormalisation, 4096},
      {"torch.nn.modules.batchnorm.BatchNorm2d",
       {4, 16, 5, 5},
       {16},
       OperatorClass::kNormalisation,
       100},
      {"torch.nn.modules.activation.Softmax", {2, 77}, {}, OperatorClass::kSoftmax, 77},
      {"torch.nn.modules.sparse.Embedding", {2, 8}, {30522, 384}, OperatorClass::kLookup, 1},
      {"transformers.activations.GELUActivation", {2, 1536}, {}, OperatorClass::kElementwise, 1},
      {"torch.nn.modules.dropout.Dropout", {2, 1536}, {}, OperatorClass::kElementwise, 1},
      {"LlamaRotaryEmbedding", {2, 8, 64}, {}, OperatorClass::kElementwise, 1},
  };
  for (const ModuleCase& c : cases) {
    const std::vector<ArgumentMeta> arguments = Call({c.in}, {});
    const Reduction reduction = ReductionOf(
        {.op = "", .cls = c.cls, .arguments = arguments, .weight = c.weight}, Role::kOutput);
    EXPECT_EQ(ToString(reduction.kind), ToString(c.kind)) << c.cls;
    EXPECT_EQ(reduction.length, c.length) << c.cls;
    EXPECT_TRUE(reduction.exact) << c.cls;
  }
}

TEST(ReductionOfAModule, GradientsAreSumsOverOtherDimensions) {
  const std::vector<ArgumentMeta> arguments = {{Role::kGradOutput, "0", "float32", {2, 8, 1536}}};
  const OperatorFacts linear{
      .op = "", .cls = "torch.nn.Linear", .arguments = arguments, .weight = {}};
  EXPECT_EQ(ReductionOf(linear, Role::kGradInput).length, 1536u);
  EXPECT_EQ(ReductionOf(linear, Role::kParamGrad).length, 16u);
  const OperatorFacts gelu{.op = "", .cls = "GELU", .arguments = arguments, .weight = {}};
  EXPECT_EQ(ReductionOf(gelu, Role::kGradInput).length, 1u);
}

struct GradientCase {
  const char* cls;
  Sizes in, out, parameter;
  uint64_t rows;
};

// Seen where it is added up: the shapes are those of the calls in the forward.
TEST(ReductionOfAModule, OfAParametersGradientIsOverAllThatMeetsIt) {
  const GradientCase cases[] = {
      {"torch.nn.modules.linear.Linear", {2, 8, 384}, {2, 8, 96}, {96, 384}, 16},
      {"torch.nn.modules.linear.Linear", {2, 8, 384}, {2, 8, 96}, {96}, 16},
      {"transformers.pytorch_utils.Conv1D", {2, 8, 768}, {2, 8, 96}, {768, 96}, 16},
      {"torch.nn.modules.conv.Conv1d", {4, 3, 20}, {4, 8, 18}, {8, 3, 3}, 72},
      {"torch.nn.modules.conv.Conv1d", {4, 3, 20}, {4, 8, 18}, {8}, 72},
      {"torch.nn.modules.conv.Conv2d", {4, 3, 9, 9}, {4, 8, 7, 7}, {8, 3, 3, 3}, 196},
      {"torch.nn.modules.conv.Conv2d", {4, 3, 9, 9}, {4, 8, 7, 7}, {8}, 196},
      {"torch.nn.modules.conv.Conv2d", {3, 9, 9}, {8, 7, 7}, {8}, 49},
      {"torch.nn.modules.conv.Conv3d", {2, 3, 4, 4, 4}, {2, 8, 4, 4, 4}, {8, 3, 3, 3, 3}, 128},
      {"torch.nn.modules.conv.Conv3d", {2, 3, 4, 4, 4}, {2, 8, 4, 4, 4}, {8}, 128},
      // What goes in meets the kernel of its channel, the bias what comes out.
      {"torch.nn.modules.conv.ConvTranspose1d", {4, 16, 5}, {4, 8, 10}, {16, 8, 2}, 20},
      {"torch.nn.modules.conv.ConvTranspose1d", {4, 16, 5}, {4, 8, 10}, {8}, 40},
      {"torch.nn.modules.conv.ConvTranspose2d", {8, 16, 8, 8}, {8, 8, 16, 16}, {16, 8, 2, 2}, 512},
      {"torch.nn.modules.conv.ConvTranspose2d", {8, 16, 8, 8}, {8, 8, 16, 16}, {8}, 2048},
      {"torch.nn.modules.conv.ConvTranspose3d", {1, 4, 2, 2, 2}, {1, 6, 4, 4, 4}, {6}, 64},
      {"torch.nn.modules.normalization.GroupNorm", {4, 16, 5, 5}, {4, 16, 5, 5}, {16}, 100},
      {"torch.nn.modules.batchnorm.BatchNorm1d", {32, 16}, {32, 16}, {16}, 32},
      {"torch.nn.modules.batchnorm.BatchNorm2d", {4, 16, 5, 5}, {4, 16, 5, 5}, {16}, 100},
      {"torch.nn.modules.instancenorm.InstanceNorm2d", {4, 16, 5, 5}, {4, 16, 5, 5}, {16}, 100},
      {"torch.nn.modules.normalization.LayerNorm", {2, 8, 384}, {2, 8, 384}, {384}, 16},
      {"torch.nn.modules.normalization.LayerNorm", {6, 4, 8}, {6, 4, 8}, {4, 8}, 6},
      // A row that every token picks.
      {"torch.nn.modules.sparse.Embedding", {2, 8}, {2, 8, 384}, {30522, 384}, 16},
      {"torch.nn.modules.rnn.LSTM", {5, 7, 24}, {5, 7, 32}, {128, 24}, 35},
      {"torch.nn.modules.rnn.LSTM", {5, 7, 24}, {5, 7, 32}, {128}, 35},
      {"torch.nn.modules.rnn.GRU", {5, 7, 24}, {5, 7, 64}, {96, 32}, 35},
      {"torch.nn.modules.rnn.LSTMCell", {7, 24}, {7, 32}, {128, 32}, 7},
      {"torch.nn.modules.activation.MultiheadAttention", {5, 7, 24}, {5, 7, 24}, {72, 24}, 35},
  };
  for (const GradientCase& c : cases) {
    const std::vector<ArgumentMeta> arguments = Call({c.in}, {c.out});
    OperatorFacts facts{
        .op = "", .cls = c.cls, .arguments = arguments, .weight = {}, .parameter = c.parameter};
    EXPECT_EQ(ReductionOf(facts, Role::kParamGrad).length, c.rows) << c.cls << c.parameter.size();
    facts.calls = 3;
    EXPECT_EQ(ReductionOf(facts, Role::kParamGrad).length, 3 * c.rows) << c.cls;
    facts.calls = ~uint64_t{0};
    EXPECT_EQ(ReductionOf(facts, Role::kParamGrad).length, ~uint64_t{0}) << c.cls;
  }
}

TEST(ReductionOfAnUnknownOperator, IsTheLongestLastDimension) {
  const std::vector<ArgumentMeta> arguments = Call({{8, 384}}, {{8, 1536}, {}});
  for (const OperatorFacts& facts :
       {OperatorFacts{.op = "mylib::fused", .cls = "", .arguments = arguments, .weight = {}},
        OperatorFacts{.op = "", .cls = "DecoderLayer", .arguments = arguments, .weight = {}},
        OperatorFacts{.op = "", .cls = "BertEmbeddings", .arguments = arguments, .weight = {}}}) {
    const Reduction reduction = ReductionOf(facts, Role::kOutput);
    EXPECT_EQ(reduction.kind, OperatorClass::kUnknown);
    EXPECT_EQ(reduction.length, 1536u);
    EXPECT_FALSE(reduction.exact);
  }
  EXPECT_EQ(ReductionOf({}, Role::kOutput).length, 1u);
}

TEST(ReductionOfAnOp, HostileShapesDoNotOverflow) {
  const std::vector<ArgumentMeta> arguments =
      Call({{INT64_MAX, INT64_MAX}, {INT64_MAX, INT64_MAX, INT64_MAX}, {-1}}, {{0}});
  for (const char* op : {"aten::sum", "aten::convolution", "aten::mm", "aten::native_group_norm",
                         "aten::scaled_dot_product_attention", "aten::convolution_backward"})
    EXPECT_GE(
        ReductionOf({.op = op, .cls = "", .arguments = arguments, .weight = {}}, Role::kOutput)
            .length,
        1u)
        << op;
}

}  // namespace
}  // namespace tdump::compare
