// Names of other people's dumps as keys; what dump.json of msprobe says.
#include "compare/foreign/dump_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compare/foreign/msprobe.h"

namespace tdump::compare::foreign {
namespace {

using testing::HasSubstr;

std::string Name(std::string_view name) { return ToText(KeyOfName(name).key); }
std::string Tag(std::string_view stem) {
  const auto tagged = ParseTags(stem);
  return tagged ? ToText(tagged->key.key) : "none";
}

TEST(DumpNames, PlainNamesAndWholeKeys) {
  EXPECT_EQ(Name("model.layers.0.mlp"), "model.layers.0.mlp@output#");
  EXPECT_EQ(Name("vision::call2"), "vision::call2@output#");
  EXPECT_EQ(Name("a.b/aten::mm::call1"), "a.b/aten%3A%3Amm::call1@output#");
  EXPECT_EQ(Name("a.b@input#0"), "a.b@input#0");
  EXPECT_EQ(Name("model.forward_batch_info.input_ids"), "model@input#forward_batch_info.input_ids");
  // Not keys and not calls: names as they are.
  EXPECT_EQ(KeyOfName("user@host").key.path, "user@host");
  EXPECT_EQ(KeyOfName("x::callback").key.path, "x::callback");
  EXPECT_FALSE(KeyOfName("model.layers.0.mlp").knows_role);
  EXPECT_TRUE(KeyOfName("a.b@input#0").knows_role);
}

TEST(DumpNames, PlacesInAFile) {
  EXPECT_EQ(ToText(KeyOfPlace({"model.mlp"}).key), "model.mlp@output#");
  EXPECT_EQ(ToText(KeyOfPlace({"model.mlp", "1"}).key), "model.mlp@output#1");
  EXPECT_EQ(ToText(KeyOfPlace({"model", "layers.0.weight"}).key), "model.layers.0.weight@output#");
  EXPECT_EQ(ToText(KeyOfPlace({"0"}).key), "0@output#");
}

TEST(DumpNames, TagsOfTheDumper) {
  EXPECT_EQ(Tag("step=2___rank=3___dump_index=7___name=hidden"), "hidden@output#");
  const auto tagged = ParseTags("step=2___rank=3___dump_index=7___name=hidden");
  EXPECT_EQ(tagged->step, 2u);
  EXPECT_EQ(tagged->rank, 3);
  EXPECT_EQ(tagged->dump_index, 7u);
  EXPECT_EQ(Tag("step=0___rank=0___dump_index=1___name=q___recompute_status=disabled___layer_id=3"),
            "q[layer_id=3]@output#");
  EXPECT_EQ(Tag("step=0___name=q___recompute_status=recompute"), "q@output#~r");
  EXPECT_EQ(Tag("step=0___name=q___tp_rank=1___pp_rank=0"), "q@output#");
  EXPECT_EQ(Tag("forward_pass_id=4___rank=0___name=q"), "q@output#");
  EXPECT_EQ(Tag("step=0___name=param__model.layers.0.mlp.weight"),
            "model.layers.0.mlp@param#weight");
  EXPECT_EQ(Tag("step=0___name=grad__param__model.mlp.weight"), "model.mlp@param_grad#weight~b");
  EXPECT_EQ(Tag("step=0___name=grad__hidden"), "hidden@grad_output#~b");
  EXPECT_EQ(Tag("step=0___name=non_intrusive__model.mlp.output"), "model.mlp@output#");
  EXPECT_EQ(Tag("step=0___name=non_intrusive__model.mlp.output.1"), "model.mlp@output#1");
  EXPECT_EQ(Tag("step=0___name=non_intrusive__model.mlp.inputs.0"), "model.mlp@input#0");
  EXPECT_EQ(Tag("step=0___name=non_intrusive__inputs.positions"), ".@input#positions");
  EXPECT_EQ(Tag("step=0___name=non_intrusive__model.output_norm.output"),
            "model.output_norm@output#");
  EXPECT_EQ(Tag("step=0___name=non_intrusive__layer.0.output.dense.inputs.0"),
            "layer.0.output.dense@input#0");
  // Which layer it is the path says already.
  EXPECT_EQ(Tag("step=0___name=non_intrusive__model.layers.3.mlp.output___layer_id=3"),
            "model.layers.3.mlp@output#");
  EXPECT_EQ(Tag("step=0___name=non_intrusive__model.layers.13.mlp.output___layer_id=3"),
            "model.layers.13.mlp[layer_id=3]@output#");
  EXPECT_EQ(Tag("step=0___rank=0"), "none");
  EXPECT_EQ(Tag("model"), "none");
  EXPECT_EQ(Tag("step=x___name=q"), "none");
}

TEST(DumpNames, OperatorsOfMsprobe) {
  const auto probe = [](const char* entry, const char* category, const char* argument) {
    return ToText(KeyOfProbe(entry, category, argument).key);
  };
  EXPECT_EQ(probe("Module.layer1.Linear.forward.0", "input", "0"), "layer1@input#0");
  EXPECT_EQ(probe("Module.a.b.Linear.forward.2", "output", ""), "a.b::call2@output#");
  EXPECT_EQ(KeyOfProbe("Module.a.b.Linear.forward.2", "output", "").cls, "Linear");
  EXPECT_EQ(probe("Module.0.conv.Conv2d.forward.0", "kwargs", "mask"), "0.conv@input#kwargs.mask");
  EXPECT_EQ(probe("Cell.a.Dense.backward.0", "input", "0"), "a@grad_output#0~b");
  EXPECT_EQ(probe("Cell.a.Dense.backward.0", "output", "0"), "a@grad_input#0~b");
  EXPECT_EQ(probe("Module.a.Linear.forward.0", "parameters", "weight"), "a@param#weight");
  EXPECT_EQ(probe("Module.a.Linear.parameters_grad", "", "weight"), "a@param_grad#weight~b");
  EXPECT_EQ(probe("Module.a.Linear.parameters_grad.0", "", "weight"), "a@param_grad#weight~b");
  EXPECT_EQ(probe("Functional.linear.3.forward", "output", "0"),
            "Functional.linear::call3@output#0");
  EXPECT_EQ(probe("Tensor.add.1.backward", "input", "0"), "Tensor.add::call1@grad_output#0~b");
  EXPECT_EQ(ToText(KeyOfProbeFile("Module.layer1.Linear.forward.0.output.0").key),
            "layer1@output#0");
  EXPECT_EQ(ToText(KeyOfProbeFile("Module.output.Linear.forward.0.parameters.weight").key),
            "output@param#weight");
  EXPECT_EQ(ToText(KeyOfProbeFile("Module.a.Linear.parameters_grad.weight").key),
            "a@param_grad#weight~b");
  EXPECT_EQ(ToText(KeyOfProbeFile("Module.a.Linear.parameters_grad.0.weight").key),
            "a@param_grad#weight~b");
  // Names that are not of this kind do no harm.
  for (const char* odd :
       {"", ".", "Module.", "Module.forward.", ".forward", "....", "Module.x.forward"})
    (void)KeyOfProbeFile(odd);
}

constexpr char kIndex[] = R"({"task": "tensor", "level": "mix", "data": {
  "Module.a.Linear.forward.0": {
    "input_args": [{"type": "torch.Tensor", "dtype": "torch.bfloat16", "shape": [2, 3], "Max": NaN,
                    "Min": -Infinity, "data_name": "Module.a.Linear.forward.0.input.0.pt"},
                   {"type": "int", "value": 3},
                   [{"type": "torch.Tensor", "dtype": "torch.int64", "shape": [], "Max": 1}]],
    "input_kwargs": {"mask": {"type": "torch.Tensor", "dtype": "torch.bool", "shape": [2]},
                     "type": {"type": "str", "value": "x"}},
    "output": [{"type": "torch.Tensor", "dtype": "torch.bfloat16", "shape": [2, 4]}],
    "parameters": {"weight": {"type": "torch.Tensor", "dtype": "torch.float8_e9", "shape": [4, 3]}}},
  "Module.a.Linear.parameters_grad": {
    "weight": [{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [4, 3]}]},
  "Cell.b.Dense.forward.0": {
    "output": [{"type": "mindspore.Tensor", "dtype": "Float32", "shape": [1]},
               {"type": "mindspore.Tensor", "dtype": "Float16", "shape": [1]}]},
  "Torch.none.0.forward": null}})";

TEST(Msprobe, TheIndexInItsOrder) {
  const auto index = ReadProbeIndex(FromText("dump.json", kIndex));
  ASSERT_TRUE(index.ok()) << index.status().message();
  std::vector<std::string> keys, dtypes;
  for (const ProbeTensor& tensor : *index) {
    keys.push_back(ToText(tensor.name.key));
    dtypes.emplace_back(tensor.dtype ? tensor.dtype->view() : "none");
  }
  EXPECT_THAT(keys, testing::ElementsAre("a@input#0", "a@input#2.0", "a@input#kwargs.mask",
                                         "a@output#", "a@param#weight", "a@param_grad#weight~b",
                                         "b@output#0", "b@output#1"));
  EXPECT_THAT(dtypes, testing::ElementsAre("bfloat16", "int64", "bool", "bfloat16", "none",
                                           "float32", "float32", "float16"));
  EXPECT_THAT((*index)[0].sizes, testing::ElementsAre(2, 3));
  EXPECT_EQ((*index)[0].data_name, "Module.a.Linear.forward.0.input.0.pt");
  EXPECT_EQ((*index)[1].data_name, "");
}

TEST(Msprobe, StatisticsAndChecksums) {
  const auto index =
      ReadProbeIndex(FromText("dump.json", R"({"data": {"Torch.a.0.forward": {"output": [
    {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2, 8], "Max": 3.5, "Min": -2, "Mean": 0.25, "Norm": 8},
    {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [4], "Max": NaN, "Min": NaN, "Mean": NaN, "Norm": NaN},
    {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [4], "Max": Infinity, "Min": 1, "Mean": Infinity, "Norm": Infinity},
    {"type": "torch.Tensor", "dtype": "torch.int64", "shape": [4], "Max": 10, "Min": 0, "Mean": null, "Norm": null},
    {"type": "torch.Tensor", "dtype": "torch.bool", "shape": [4], "Max": true, "Min": false, "Mean": null, "Norm": null},
    {"type": "torch.Tensor", "dtype": "torch.int64", "shape": [4], "md5": "e3c12ab7"},
    {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [0], "Max": 1, "Min": 1, "Norm": 0},
    {"type": "torch.Tensor", "dtype": "torch.float16", "shape": [512], "Max": 9, "Min": -9, "Mean": 1, "Norm": Infinity},
    {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [], "Max": -3, "Min": -3, "Mean": -3, "Norm": -3},
    {"type": "torch.Tensor", "dtype": "torch.float64", "shape": [2], "Max": Infinity, "Min": 1, "Mean": Infinity, "Norm": Infinity}]}}})"));
  ASSERT_TRUE(index.ok()) << index.status().message();
  ASSERT_EQ(index->size(), 10u);
  const auto summary = [&](size_t i) { return (*index)[i].summary.value_or(Summary{.nan = 99}); };
  EXPECT_EQ(summary(0).max, 3.5);
  EXPECT_EQ(summary(0).min, -2);
  EXPECT_EQ(summary(0).mean, 0.25);
  EXPECT_EQ(summary(0).rms, 2);  // 8 / sqrt(16)
  EXPECT_EQ(summary(0).nan, 0u);
  EXPECT_FALSE(summary(0).counts);
  EXPECT_EQ(summary(1).nan, 1u);
  EXPECT_EQ(summary(1).max, std::nullopt);
  EXPECT_EQ(summary(2).positive_inf, 1u);
  EXPECT_EQ(summary(2).negative_inf, 0u);
  EXPECT_EQ(summary(3).max, 10);
  EXPECT_EQ(summary(3).rms, std::nullopt);
  EXPECT_EQ((*index)[4].summary, std::nullopt);
  EXPECT_EQ(summary(5).checksum, "e3c12ab7");
  EXPECT_EQ(summary(5).nan, std::nullopt);
  EXPECT_EQ(summary(6).rms, std::nullopt);
  EXPECT_EQ(summary(7).rms, std::nullopt);  // the sum of squares is no float16
  EXPECT_EQ(summary(7).max, 9);
  EXPECT_EQ(summary(7).precision, 0x1p-10);
  EXPECT_EQ(summary(8).rms, 3);                      // msprobe gives the number itself
  EXPECT_EQ(summary(9).positive_inf, std::nullopt);  // a cast to float32
  EXPECT_EQ(summary(9).max, std::nullopt);
}

TEST(Msprobe, WhatIsNoIndexIsRefused) {
  const auto why = [](const std::string& text) {
    return ReadProbeIndex(FromText("dump.json", text)).status().message();
  };
  EXPECT_THAT(why("{}"), HasSubstr("no 'data'"));
  EXPECT_THAT(why("[]"), HasSubstr("expected '{'"));
  const std::string index = kIndex;
  for (size_t bytes = 0; bytes < index.size(); ++bytes)
    EXPECT_NE(why(index.substr(0, bytes)), "") << bytes;
  EXPECT_THAT(why(R"({"data":{"Torch.a.0.forward":{"output":[{"type":"torch.Tensor",)"
                  R"("dtype":"torch.int8","shape":[1],"data_name":"../../etc/passwd"}]}}})"),
              HasSubstr("no file of dump_tensor_data"));
}

}  // namespace
}  // namespace tdump::compare::foreign
