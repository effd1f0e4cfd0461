#include "model.h"

#include <stdexcept>
#include <string>

#include "observe.h"

namespace tp {
namespace {

torch::nn::LayerNorm MakeNorm(const Config& config) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({config.width}));
}

}  // namespace

AttentionImpl::AttentionImpl(const Config& config, const Group& group)
    : head_width_(config.width / config.heads),
      query_(config.width, config.width, group),
      key_(config.width, config.width, group),
      value_(config.width, config.width, group),
      output_(config.width, config.width, group) {
  register_module("query", query_);
  register_module("key", key_);
  register_module("value", value_);
  register_module("output", output_);
}

torch::Tensor AttentionImpl::forward(const torch::Tensor& x) {
  tdump::scope scope(this, x);
  const auto split_heads =
      [&](const torch::Tensor& t) {  // -> [batch, heads of this rank, context, head_width]
        return t.unflatten(-1, {-1, head_width_}).transpose(1, 2);
      };
  const auto q = split_heads(query_(x));
  const auto k = split_heads(key_(x));
  const auto v = split_heads(value_(x));
  const auto mixed =
      torch::scaled_dot_product_attention(q, k, v, /*attn_mask=*/{}, /*dropout_p=*/0.0,
                                          /*is_causal=*/true, scale_);
  return scope.output(output_(mixed.transpose(1, 2).flatten(2)));
}

MlpImpl::MlpImpl(const Config& config, const Group& group)
    : up_(config.width, 4 * config.width, group), down_(4 * config.width, config.width, group) {
  register_module("up", up_);
  register_module("gelu", gelu_);
  register_module("down", down_);
}

torch::Tensor MlpImpl::forward(const torch::Tensor& x) {
  tdump::scope scope(this, x);
  return scope.output(down_(gelu_(up_(x))));
}

LayerImpl::LayerImpl(const Config& config, const Group& group)
    : attention_norm_(MakeNorm(config)),
      mlp_norm_(MakeNorm(config)),
      attention_(config, group),
      mlp_(config, group),
      dropout_(config.dropout) {
  register_module("attention_norm", attention_norm_);
  register_module("attention", attention_);
  register_module("mlp_norm", mlp_norm_);
  register_module("mlp", mlp_);
  register_module("dropout", dropout_);
}

torch::Tensor LayerImpl::forward(torch::Tensor x) {
  tdump::scope scope(this, x);
  x = x + dropout_(attention_(attention_norm_(x)));
  return scope.output(x + dropout_(mlp_(mlp_norm_(x))));
}

TransformerImpl::TransformerImpl(const Config& config, const Group& group)
    : token_embedding_(config.vocabulary, config.width),
      position_embedding_(config.context, config.width),
      dropout_(config.dropout),
      norm_(MakeNorm(config)),
      head_(torch::nn::LinearOptions(config.width, config.vocabulary).bias(false)) {
  if (config.heads % group.world != 0) {
    throw std::invalid_argument(std::to_string(config.heads) +
                                " attention heads cannot be split over " +
                                std::to_string(group.world) + " ranks");
  }
  register_module("token_embedding", token_embedding_);
  register_module("position_embedding", position_embedding_);
  register_module("dropout", dropout_);
  register_module("layers", layers_);
  for (int64_t i = 0; i < config.layers; ++i) layers_->push_back(Layer(config, group));
  register_module("norm", norm_);
  register_module("head", head_);
}

torch::Tensor TransformerImpl::forward(const torch::Tensor& tokens) {
  tdump::scope scope(this, tokens);
  const auto positions = torch::arange(tokens.size(1));
  auto x = dropout_(token_embedding_(tokens) + position_embedding_(positions));
  for (const auto& layer : *layers_) x = layer->as<Layer>()->forward(x);
  return scope.output(head_(norm_(x)));
}

AttentionImpl& TransformerImpl::attention(int64_t layer) {
  return layers_->ptr<LayerImpl>(static_cast<size_t>(layer))->attention();
}

}  // namespace tp
