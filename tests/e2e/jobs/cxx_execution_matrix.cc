// The models of execution_matrix.py in C++, in the same steps: cxx_execution_matrix FILE, as
// `execution_matrix.py save FILE` wrote it, in the dtype of that. With `script`: what TorchScript
// made of them, which lies beside FILE. With `package FOLDER`: packages of AOTInductor, which have
// no backward and fixed shapes. Prints the losses, as JSON.
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "tdump/tdump.h"

namespace {

namespace nn = torch::nn;
using torch::Tensor;

constexpr int kRounds = 5;
constexpr int kSteps = 4;  // the last one without gradients

// A Sequential is code of a header.
Tensor Run(nn::Sequential& part, const Tensor& x) {
  tdump::scope scope(part.get(), x);
  return scope.output(part->forward(x));
}

struct MlpImpl : nn::Module {
  MlpImpl() {
    register_module("first", first);
    register_module("again", again);
    register_module("act", act);
    register_module("last", last);
    register_module("tied", again);
  }
  std::tuple<Tensor, Tensor> forward(const Tensor& x) {
    tdump::scope scope(this, x);
    Tensor h = act(first(x * 0.5));
    for (int i = 0; i < 2 * kRounds; ++i) h = act(again(h));
    return scope.output(std::make_tuple(Run(last, h), h));
  }
  nn::Linear first{8, 16}, again{16, 16};
  nn::ReLU act{nn::ReLUOptions().inplace(true)};
  nn::Sequential last{nn::Linear(16, 8), nn::Dropout(0.0)};
};
TORCH_MODULE(Mlp);

Tensor Heads(const Tensor& x, int64_t heads) {
  return x.unflatten(-1, {heads, -1}).transpose(1, 2);
}

struct ProjectionImpl : nn::Module {
  explicit ProjectionImpl(int64_t width) : qkv(width, 3 * width) { register_module("qkv", qkv); }
  std::tuple<Tensor, Tensor, Tensor> forward(const Tensor& x) {
    tdump::scope scope(this, x);
    const std::vector<Tensor> parts = qkv(x).chunk(3, -1);
    return scope.output(
        std::make_tuple(Heads(parts[0], 2), Heads(parts[1], 2), Heads(parts[2], 2)));
  }
  nn::Linear qkv;
};
TORCH_MODULE(Projection);

struct LayerImpl : nn::Module {
  explicit LayerImpl(int64_t width)
      : norm(nn::LayerNormOptions({width})),
        split(width),
        out(width, width),
        mlp(nn::LayerNorm(nn::LayerNormOptions({width})), nn::Linear(width, 2 * width), nn::GELU(),
            nn::Linear(2 * width, width)) {
    register_module("norm", norm);
    register_module("split", split);
    register_module("out", out);
    register_module("mlp", mlp);
  }
  Tensor forward(const Tensor& given) {
    tdump::scope scope(this, given);
    const auto [query, key, value] = split(norm(given));
    const Tensor mixed = at::scaled_dot_product_attention(query, key, value, {}, 0.0, true);
    const Tensor x = given + out(mixed.transpose(1, 2).flatten(2));
    return scope.output(x + Run(mlp, x));
  }
  nn::LayerNorm norm;
  Projection split;
  nn::Linear out;
  nn::Sequential mlp;
};
TORCH_MODULE(Layer);

// Without the checkpoints, which C++ does not have.
struct DecoderImpl : nn::Module {
  DecoderImpl() {
    register_module("embed", embed);
    register_module("layers", layers);
    register_module("head", head);
  }
  Tensor forward(const Tensor& tokens) {
    tdump::scope scope(this, tokens);
    Tensor x = embed(tokens);
    for (const auto& layer : *layers) x = layer->as<Layer>()->forward(x);
    return scope.output(head(x));
  }
  nn::Embedding embed{32, 8};
  nn::ModuleList layers{Layer(8), Layer(8)};
  nn::Linear head{8, 32};
};
TORCH_MODULE(Decoder);

constexpr int64_t kWidth = 384, kInner = 1536, kHeads = 12;

struct SelfAttentionImpl : nn::Module {
  SelfAttentionImpl() {
    register_module("query", query);
    register_module("key", key);
    register_module("value", value);
  }
  std::tuple<Tensor> forward(const Tensor& x) {
    tdump::scope scope(this, x);
    const Tensor q = Heads(query(x), kHeads), k = Heads(key(x), kHeads),
                 v = Heads(value(x), kHeads);
    return scope.output(
        std::make_tuple(at::scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)));
  }
  nn::Linear query{kWidth, kWidth}, key{kWidth, kWidth}, value{kWidth, kWidth};
};
TORCH_MODULE(SelfAttention);

struct AddedImpl : nn::Module {
  explicit AddedImpl(int64_t width) : dense(width, kWidth) {
    register_module("dense", dense);
    register_module("LayerNorm", norm);
    register_module("dropout", dropout);
  }
  Tensor forward(const Tensor& x, const Tensor& residual) {
    tdump::scope scope(this, x, residual);
    return scope.output(norm(dropout(dense(x)) + residual));
  }
  nn::Linear dense;
  nn::LayerNorm norm{nn::LayerNormOptions({kWidth}).eps(1e-12)};
  nn::Dropout dropout{0.0};
};
TORCH_MODULE(Added);

struct AttentionImpl : nn::Module {
  AttentionImpl() {
    register_module("self", self);
    register_module("output", output);
  }
  std::tuple<Tensor> forward(const Tensor& x) {
    tdump::scope scope(this, x);
    return scope.output(std::make_tuple(output(std::get<0>(self(x)), x)));
  }
  SelfAttention self;
  Added output{kWidth};
};
TORCH_MODULE(Attention);

struct IntermediateImpl : nn::Module {
  IntermediateImpl() {
    register_module("dense", dense);
    register_module("intermediate_act_fn", act);
  }
  Tensor forward(const Tensor& x) {
    tdump::scope scope(this, x);
    return scope.output(act(dense(x)));
  }
  nn::Linear dense{kWidth, kInner};
  nn::GELU act;
};
TORCH_MODULE(Intermediate);

struct BertLayerImpl : nn::Module {
  BertLayerImpl() {
    register_module("attention", attention);
    register_module("intermediate", intermediate);
    register_module("output", output);
  }
  Tensor forward(const Tensor& x) {
    tdump::scope scope(this, x);
    const Tensor mixed = std::get<0>(attention(x));
    return scope.output(output(intermediate(mixed), mixed));
  }
  Attention attention;
  Intermediate intermediate;
  Added output{kInner};
};
TORCH_MODULE(BertLayer);

const Tensor& First(const Tensor& output) { return output; }
const Tensor& First(const std::tuple<Tensor, Tensor>& output) { return std::get<0>(output); }

class Given {
 public:
  explicit Given(const char* file) {
    std::ifstream stream(file, std::ios::binary);
    const std::vector<char> bytes(std::istreambuf_iterator<char>(stream), {});
    tensors_ = torch::pickle_load(bytes).toGenericDict();
  }
  Tensor Get(const std::string& name) const { return tensors_.at(name).toTensor(); }

 private:
  c10::impl::GenericDict tensors_{c10::StringType::get(), c10::TensorType::get()};
};

struct Program {
  std::function<Tensor(const Tensor& x)> forward;  // the first of what it gives
  std::function<void(bool training)> prepare;      // the next step
  int steps = kSteps;
  bool trains = true;
};

// `root`: what the second and the third model of the Python job are called.
template <class Model>
Program Module(const Given& given, const std::string& name, Model model, const std::string& root) {
  for (auto& parameter : model->named_parameters()) {
    const torch::NoGradGuard no_grad;
    const Tensor value = given.Get(name + "." + parameter.key());
    model->to(value.scalar_type());
    parameter.value().copy_(value);
  }
  tdump::watch(model, root);
  return {.forward = [model](const Tensor& x) mutable { return Tensor(First(model(x))); },
          .prepare =
              [model](bool training) mutable {
                model->train(training);
                model->zero_grad();
              }};
}

Program Script(const std::string& file) {
  auto model = std::make_shared<torch::jit::Module>(torch::jit::load(file));
  return {.forward =
              [model](const Tensor& x) {
                const c10::IValue output = model->forward({x});
                return output.isTensor() ? output.toTensor()
                                         : output.toTupleRef().elements()[0].toTensor();
              },
          .prepare =
              [model](bool training) {
                model->train(training);
                for (Tensor parameter : model->parameters()) parameter.mutable_grad() = Tensor();
              }};
}

Program Package(const std::string& file) {
  auto loader = std::make_shared<torch::inductor::AOTIModelPackageLoader>(file);
  return {.forward = [loader](const Tensor& x) { return loader->run({x})[0]; },
          .prepare = [](bool) {},
          .steps = 2,
          .trains = false};
}

void RunSteps(const Given& given, const std::string& name, const Program& program) {
  std::printf("\"%s\": {\"values\": [", name.c_str());
  for (int step = 0; step < program.steps; ++step) {
    const bool training = program.trains && step < kSteps - 1;
    program.prepare(training);
    tdump::step();
    const torch::AutoGradMode mode(training);
    Tensor x = given.Get(name + ".step" + std::to_string(step));
    if (x.is_floating_point()) x.set_requires_grad(true);
    const Tensor output = program.forward(x);
    const Tensor weights = torch::linspace(-1, 1, output.numel()).view_as(output);
    const Tensor loss = (output.square() * weights).mean();
    if (training) loss.backward();
    std::printf("%s[%.9g]", step == 0 ? "" : ", ", loss.item<double>());
  }
  std::printf("]}");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::string file = argv[1], how = argc > 2 ? argv[2] : "";
  const Given given(argv[1]);
  std::vector<Program> programs;
  const std::vector<std::string> names = {"mlp", "decoder", "minilm"};
  if (how == "script") {
    for (const std::string& name : names) programs.push_back(Script(file + "." + name));
  } else if (how == "package") {
    for (const std::string& name : names)
      programs.push_back(Package(std::string(argv[3]) + "/" + name + ".pt2"));
  } else {
    programs = {Module(given, "mlp", Mlp(), ""), Module(given, "decoder", Decoder(), "Decoder#1"),
                Module(given, "minilm", BertLayer(), "BertLayer#2")};
  }
  for (size_t i = 0; i < names.size(); ++i) {
    std::printf(i == 0 ? "{" : ", ");
    RunSteps(given, names[i], programs[i]);
  }
  std::printf("}\n");
}
