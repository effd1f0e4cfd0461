// Decoder-only transformer (pre-norm, GPT-2 style) whose attention heads and MLP are split over the
// ranks of a Group. Every forward takes and returns float32 [batch, context, width], equal on all
// ranks, unless it says otherwise.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <optional>

#include "parallel.h"

namespace tp {

struct Config {
  int64_t vocabulary = 0;
  int64_t layers = 4;
  int64_t width = 64;
  int64_t heads = 4;  // a multiple of the number of ranks
  int64_t context = 64;
  double dropout = 0.1;
};

// Causal self-attention over this rank's heads. Query, key and value have no bias: a key bias has
// no effect on the softmax, so its gradient is rounding noise, which AdamW would blow up to
// full-size steps that depend on the world.
class AttentionImpl : public torch::nn::Module {
 public:
  AttentionImpl(const Config& config, const Group& group);
  torch::Tensor forward(const torch::Tensor& x);

  // What the scores are multiplied by; none: 1 / sqrt(width of a head).
  void set_scale(std::optional<double> scale) { scale_ = scale; }

 private:
  int64_t head_width_;
  std::optional<double> scale_;
  ColumnParallelLinear query_, key_, value_;
  RowParallelLinear output_;
};
TORCH_MODULE(Attention);

class MlpImpl : public torch::nn::Module {
 public:
  MlpImpl(const Config& config, const Group& group);
  torch::Tensor forward(const torch::Tensor& x);

 private:
  ColumnParallelLinear up_;
  torch::nn::GELU gelu_;
  RowParallelLinear down_;
};
TORCH_MODULE(Mlp);

class LayerImpl : public torch::nn::Module {
 public:
  LayerImpl(const Config& config, const Group& group);
  torch::Tensor forward(torch::Tensor x);

  AttentionImpl& attention() { return *attention_; }

 private:
  torch::nn::LayerNorm attention_norm_, mlp_norm_;
  Attention attention_;
  Mlp mlp_;
  torch::nn::Dropout dropout_;
};
TORCH_MODULE(Layer);

class TransformerImpl : public torch::nn::Module {
 public:
  // Throws std::invalid_argument if the heads cannot be split over the ranks.
  TransformerImpl(const Config& config, const Group& group);

  // int64 [batch, context] -> logits [batch, context, vocabulary].
  torch::Tensor forward(const torch::Tensor& tokens);

  AttentionImpl& attention(int64_t layer);

 private:
  torch::nn::Embedding token_embedding_, position_embedding_;
  torch::nn::Dropout dropout_;
  torch::nn::ModuleList layers_;
  torch::nn::LayerNorm norm_;
  torch::nn::Linear head_;
};
TORCH_MODULE(Transformer);

}  // namespace tp
