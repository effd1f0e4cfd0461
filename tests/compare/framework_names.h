// Names, classes and shapes of the modules of real frameworks, small models of them, as tdump
// records them: parameters first, then inputs and outputs in the order of their being called.
#pragma once

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "compare/name_map.h"

namespace tdump::compare {

struct ModelSize {
  uint64_t layers = 2, hidden = 32, heads = 4, kv_heads = 2, head = 8, inner = 48, vocab = 1000;
  uint64_t batch = 2, sequence = 5, ranks = 1;  // of tensor parallelism
  uint64_t q() const { return heads * head; }
  uint64_t kv() const { return kv_heads * head; }
};

class Names {
 public:
  Names& Param(const std::string& module, const std::string& arg, const std::string& cls,
               Shape shape) {
    return Add(module, Role::kParam, arg, cls, std::move(shape));
  }
  Names& In(const std::string& module, const std::string& arg, const std::string& cls,
            Shape shape) {
    return Add(module, Role::kInput, arg, cls, std::move(shape));
  }
  Names& Out(const std::string& module, const std::string& arg, const std::string& cls,
             Shape shape) {
    return Add(module, Role::kOutput, arg, cls, std::move(shape));
  }
  std::vector<NamedTensor> all;
  uint32_t stage = 0;

 private:
  Names& Add(const std::string& module, Role role, const std::string& arg, const std::string& cls,
             Shape shape) {
    NamedTensor tensor;
    tensor.key.path = module;
    tensor.key.role = role;
    tensor.key.arg = arg;
    tensor.cls = cls;
    tensor.sizes = std::move(shape);
    tensor.stage = stage;
    all.push_back(std::move(tensor));
    return *this;
  }
};

// Of a real model, from hf_names.txt (make_framework_names.py): parameters and what leaf modules
// take and give.
inline std::vector<NamedTensor> RealHf(const std::string& model) {
  Names names;
  std::ifstream file(TDUMP_HF_NAMES);
  for (std::string line; std::getline(file, line);) {
    std::stringstream words(line);
    std::string of, role, module, arg, cls, shape;
    words >> of >> role >> module >> arg >> cls >> shape;
    if (of != model) continue;
    Shape sizes;
    std::stringstream digits(shape);
    for (std::string size; shape != "-" && std::getline(digits, size, 'x');)
      sizes.push_back(std::stoull(size));
    if (role == "param") names.Param(module, arg, cls, sizes);
    if (role == "input") names.In(module, arg, cls, sizes);
    if (role == "output") names.Out(module, arg == "-" ? "" : arg, cls, sizes);
  }
  return names.all;
}

// transformers: LlamaForCausalLM. `qk_norm`: Qwen3ForCausalLM.
inline std::vector<NamedTensor> HfLlama(const ModelSize& m, bool qk_norm = false,
                                        bool bias = false) {
  Names names;
  const std::string linear = "torch.nn.modules.linear.Linear";
  const std::string norm = "transformers.models.llama.modeling_llama.LlamaRMSNorm";
  const Shape hidden = {m.batch, m.sequence, m.hidden};
  const auto projection = [&](const std::string& path, uint64_t out, uint64_t in, bool biased) {
    names.Param(path, "weight", linear, {out, in});
    if (biased) names.Param(path, "bias", linear, {out});
    names.In(path, "0", linear, {m.batch, m.sequence, in});
    names.Out(path, "", linear, {m.batch, m.sequence, out});
  };
  names.In(".", "kwargs.input_ids", "transformers.models.llama.modeling_llama.LlamaForCausalLM",
           {m.batch, m.sequence});
  const std::string embedding = "torch.nn.modules.sparse.Embedding";
  names.Param("model.embed_tokens", "weight", embedding, {m.vocab, m.hidden});
  names.In("model.embed_tokens", "0", embedding, {m.batch, m.sequence});
  names.Out("model.embed_tokens", "", embedding, hidden);
  names.Out("model.rotary_emb", "0", "LlamaRotaryEmbedding", {1, m.sequence, m.head});
  for (uint64_t i = 0; i < m.layers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i);
    names.Param(layer + ".input_layernorm", "weight", norm, {m.hidden});
    names.In(layer + ".input_layernorm", "0", norm, hidden);
    names.Out(layer + ".input_layernorm", "", norm, hidden);
    projection(layer + ".self_attn.q_proj", m.q(), m.hidden, bias);
    projection(layer + ".self_attn.k_proj", m.kv(), m.hidden, bias);
    projection(layer + ".self_attn.v_proj", m.kv(), m.hidden, bias);
    if (qk_norm) {
      names.Param(layer + ".self_attn.q_norm", "weight", norm, {m.head});
      names.Param(layer + ".self_attn.k_norm", "weight", norm, {m.head});
    }
    projection(layer + ".self_attn.o_proj", m.hidden, m.q(), false);
    names.Param(layer + ".post_attention_layernorm", "weight", norm, {m.hidden});
    names.In(layer + ".post_attention_layernorm", "0", norm, hidden);
    names.Out(layer + ".post_attention_layernorm", "", norm, hidden);
    projection(layer + ".mlp.gate_proj", m.inner, m.hidden, false);
    projection(layer + ".mlp.up_proj", m.inner, m.hidden, false);
    names.Out(layer + ".mlp.act_fn", "", "torch.nn.modules.activation.SiLU",
              {m.batch, m.sequence, m.inner});
    projection(layer + ".mlp.down_proj", m.hidden, m.inner, false);
    names.Out(layer, "", "LlamaDecoderLayer", hidden);
  }
  names.Param("model.norm", "weight", norm, {m.hidden});
  names.In("model.norm", "0", norm, hidden);
  names.Out("model.norm", "", norm, hidden);
  projection("lm_head", m.vocab, m.hidden, false);
  return names.all;
}

// Megatron-Core's GPTModel with its own layers: norms are modules; linear layers return (output,
// bias). One rank of tensor parallelism; layers [first, first + count) numbered from 0.
inline void AddMegatronLayers(const ModelSize& m, uint64_t count, Names* names, bool bias = false) {
  const std::string column = "megatron.core.tensor_parallel.layers.ColumnParallelLinear";
  const std::string row = "megatron.core.tensor_parallel.layers.RowParallelLinear";
  const std::string norm = "megatron.core.transformer.torch_norm.WrappedTorchNorm";
  const Shape hidden = {m.sequence, m.batch, m.hidden};
  const auto linear = [&](const std::string& path, const std::string& cls, uint64_t out,
                          uint64_t in, bool biased) {
    names->Param(path, "weight", cls, {out, in});
    if (biased) names->Param(path, "bias", cls, {out});
    names->In(path, "0", cls, {m.sequence, m.batch, in});
    names->Out(path, "0", cls, {m.sequence, m.batch, out});
  };
  for (uint64_t i = 0; i < count; ++i) {
    const std::string layer = "decoder.layers." + std::to_string(i);
    names->Param(layer + ".input_layernorm", "weight", norm, {m.hidden});
    names->In(layer + ".input_layernorm", "0", norm, hidden);
    names->Out(layer + ".input_layernorm", "", norm, hidden);
    linear(layer + ".self_attention.linear_qkv", column, (m.q() + 2 * m.kv()) / m.ranks, m.hidden,
           bias);
    names->In(layer + ".self_attention.core_attention", "0",
              "megatron.core.transformer.dot_product_attention.DotProductAttention",
              {m.sequence, m.batch, m.heads / m.ranks, m.head});
    linear(layer + ".self_attention.linear_proj", row, m.hidden, m.q() / m.ranks, false);
    names->Param(layer + ".pre_mlp_layernorm", "weight", norm, {m.hidden});
    names->In(layer + ".pre_mlp_layernorm", "0", norm, hidden);
    names->Out(layer + ".pre_mlp_layernorm", "", norm, hidden);
    linear(layer + ".mlp.linear_fc1", column, 2 * m.inner / m.ranks, m.hidden, false);
    linear(layer + ".mlp.linear_fc2", row, m.hidden, m.inner / m.ranks, false);
    names->Out(layer, "0", "megatron.core.transformer.transformer_layer.TransformerLayer", hidden);
  }
}

inline std::vector<NamedTensor> Megatron(const ModelSize& m, bool bias = false) {
  Names names;
  const uint64_t padded = (m.vocab + 127) / 128 * 128;
  const Shape hidden = {m.sequence, m.batch, m.hidden};
  const std::string norm = "megatron.core.transformer.torch_norm.WrappedTorchNorm";
  const std::string embedding = "megatron.core.tensor_parallel.layers.VocabParallelEmbedding";
  const std::string column = "megatron.core.tensor_parallel.layers.ColumnParallelLinear";
  names.In(".", "0", "megatron.core.models.gpt.gpt_model.GPTModel", {m.batch, m.sequence});
  names.In(".", "1", "megatron.core.models.gpt.gpt_model.GPTModel", {m.batch, m.sequence});
  names.Param("embedding.word_embeddings", "weight", embedding, {padded / m.ranks, m.hidden});
  names.In("embedding.word_embeddings", "0", embedding, {m.batch, m.sequence});
  names.Out("embedding.word_embeddings", "", embedding, {m.batch, m.sequence, m.hidden});
  names.Out("embedding", "", "LanguageModelEmbedding", hidden);
  AddMegatronLayers(m, m.layers, &names, bias);
  names.Param("decoder.final_layernorm", "weight", norm, {m.hidden});
  names.In("decoder.final_layernorm", "0", norm, hidden);
  names.Out("decoder.final_layernorm", "", norm, hidden);
  names.Param("output_layer", "weight", column, {padded / m.ranks, m.hidden});
  names.In("output_layer", "0", column, hidden);
  names.Out("output_layer", "0", column, {m.sequence, m.batch, padded / m.ranks});
  names.Out(".", "", "megatron.core.models.gpt.gpt_model.GPTModel", {m.batch, m.sequence, padded});
  return names.all;
}

// vLLM's or SGLang's LlamaForCausalLM: one rank, tokens flat, norms that return the residual too.
inline std::vector<NamedTensor> Server(const ModelSize& m, const std::string& package) {
  Names names;
  const uint64_t tokens = m.batch * m.sequence, padded = (m.vocab + 63) / 64 * 64;
  const std::string layers = package + ".layers.linear.";
  const std::string norm = package + ".layers.layernorm.RMSNorm";
  const Shape hidden = {tokens, m.hidden};
  const auto linear = [&](const std::string& path, const std::string& cls, uint64_t out,
                          uint64_t in) {
    names.Param(path, "weight", layers + cls, {out, in});
    names.In(path, "0", layers + cls, {tokens, in});
    names.Out(path, "0", layers + cls, {tokens, out});
  };
  const auto add_norm = [&](const std::string& path, bool first) {
    names.Param(path, "weight", norm, {m.hidden});
    names.In(path, "0", norm, hidden);
    names.Out(path, first ? "" : "0", norm, hidden);
    if (!first) names.In(path, "1", norm, hidden).Out(path, "1", norm, hidden);
  };
  const std::string embedding = package + ".layers.vocab_parallel_embedding.VocabParallelEmbedding";
  names.Param("model.embed_tokens", "weight", embedding, {padded / m.ranks, m.hidden});
  names.In("model.embed_tokens", "0", embedding, {tokens});
  names.Out("model.embed_tokens", "", embedding, hidden);
  for (uint64_t i = 0; i < m.layers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i);
    add_norm(layer + ".input_layernorm", i == 0);
    const uint64_t kv = std::max(m.kv_heads / m.ranks, uint64_t{1}) * m.head;
    linear(layer + ".self_attn.qkv_proj", "QKVParallelLinear", m.q() / m.ranks + 2 * kv, m.hidden);
    names.Out(layer + ".self_attn.rotary_emb", "0", "RotaryEmbedding", {tokens, m.q() / m.ranks});
    names.Out(layer + ".self_attn.attn", "", "Attention", {tokens, m.q() / m.ranks});
    linear(layer + ".self_attn.o_proj", "RowParallelLinear", m.hidden, m.q() / m.ranks);
    add_norm(layer + ".post_attention_layernorm", false);
    linear(layer + ".mlp.gate_up_proj", "MergedColumnParallelLinear", 2 * m.inner / m.ranks,
           m.hidden);
    names.Out(layer + ".mlp.act_fn", "", "SiluAndMul", {tokens, m.inner / m.ranks});
    linear(layer + ".mlp.down_proj", "RowParallelLinear", m.hidden, m.inner / m.ranks);
    names.Out(layer, "0", "LlamaDecoderLayer", hidden).Out(layer, "1", "LlamaDecoderLayer", hidden);
  }
  add_norm("model.norm", false);
  names.Param("lm_head", "weight", package + ".layers.vocab_parallel_embedding.ParallelLMHead",
              {padded / m.ranks, m.hidden});
  return names.all;
}

// The layers of a Hugging Face Llama replaced by transformer_engine.pytorch.TransformerLayer.
inline std::vector<NamedTensor> TransformerEngine(const ModelSize& m, bool fused_parameters) {
  Names names;
  const Shape hidden = {m.batch, m.sequence, m.hidden};
  const std::string te = "transformer_engine.pytorch.module.";
  const std::string embedding = "torch.nn.modules.sparse.Embedding";
  names.Param("model.embed_tokens", "weight", embedding, {m.vocab, m.hidden});
  names.In("model.embed_tokens", "0", embedding, {m.batch, m.sequence});
  names.Out("model.embed_tokens", "", embedding, hidden);
  for (uint64_t i = 0; i < m.layers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i);
    const std::string qkv = layer + ".self_attention.layernorm_qkv";
    const std::string qkv_class = te + "layernorm_linear.LayerNormLinear";
    names.Param(qkv, "layer_norm_weight", qkv_class, {m.hidden});
    if (fused_parameters) {
      names.Param(qkv, "weight", qkv_class, {m.q() + 2 * m.kv(), m.hidden});
    } else {
      names.Param(qkv, "query_weight", qkv_class, {m.q(), m.hidden});
      names.Param(qkv, "key_weight", qkv_class, {m.kv(), m.hidden});
      names.Param(qkv, "value_weight", qkv_class, {m.kv(), m.hidden});
    }
    names.In(qkv, "0", qkv_class, hidden);
    names.Out(qkv, "", qkv_class, {m.batch, m.sequence, m.q() + 2 * m.kv()});
    names.In(layer + ".self_attention.core_attention", "0", te + "DotProductAttention",
             {m.batch, m.sequence, m.heads, m.head});
    names.Param(layer + ".self_attention.proj", "weight", te + "linear.Linear", {m.hidden, m.q()});
    names.In(layer + ".self_attention.proj", "0", te + "linear.Linear",
             {m.batch, m.sequence, m.q()});
    names.Out(layer + ".self_attention.proj", "", te + "linear.Linear", hidden);
    const std::string mlp = layer + ".layernorm_mlp", mlp_class = te + "layernorm_mlp.LayerNormMLP";
    names.Param(mlp, "layer_norm_weight", mlp_class, {m.hidden});
    names.Param(mlp, "fc1_weight", mlp_class, {2 * m.inner, m.hidden});
    names.Param(mlp, "fc2_weight", mlp_class, {m.hidden, m.inner});
    names.In(mlp, "0", mlp_class, hidden);
    names.Out(mlp, "", mlp_class, hidden);
    names.Out(layer, "0", "TELlamaDecoderLayer", hidden);
  }
  const std::string norm = "transformers.models.llama.modeling_llama.LlamaRMSNorm";
  names.Param("model.norm", "weight", norm, {m.hidden});
  names.In("model.norm", "0", norm, hidden);
  names.Out("model.norm", "", norm, hidden);
  const std::string linear = "torch.nn.modules.linear.Linear";
  names.Param("lm_head", "weight", linear, {m.vocab, m.hidden});
  names.In("lm_head", "0", linear, hidden);
  names.Out("lm_head", "", linear, {m.batch, m.sequence, m.vocab});
  names.In(".", "kwargs.input_ids", "LlamaForCausalLM", {m.batch, m.sequence});
  return names.all;
}

// Parameters of Megatron-Core's GPTModel without a gate and with biases and learned positions, as
// for GPT-2, norms fused into the projections by Transformer Engine.
inline std::vector<NamedTensor> MegatronGpt2(const ModelSize& m) {
  Names names;
  const std::string fused =
      "megatron.core.extensions.transformer_engine.TELayerNormColumnParallelLinear";
  const std::string row = "megatron.core.extensions.transformer_engine.TERowParallelLinear";
  const auto biased = [&](const std::string& path, const std::string& cls, uint64_t out,
                          uint64_t in) {
    names.Param(path, "weight", cls, {out, in}).Param(path, "bias", cls, {out});
  };
  const auto norm = [&](const std::string& path) {
    names.Param(path, "layer_norm_weight", fused, {m.hidden});
    names.Param(path, "layer_norm_bias", fused, {m.hidden});
  };
  names.Param("embedding.word_embeddings", "weight", "VocabParallelEmbedding",
              {1024 / m.ranks, m.hidden});
  names.Param("embedding.position_embeddings", "weight", "Embedding", {64, m.hidden});
  for (uint64_t i = 0; i < m.layers; ++i) {
    const std::string layer = "decoder.layers." + std::to_string(i);
    biased(layer + ".self_attention.linear_proj", row, m.hidden, m.q() / m.ranks);
    norm(layer + ".self_attention.linear_qkv");
    biased(layer + ".self_attention.linear_qkv", fused, 3 * m.q() / m.ranks, m.hidden);
    norm(layer + ".mlp.linear_fc1");
    biased(layer + ".mlp.linear_fc1", fused, m.inner / m.ranks, m.hidden);
    biased(layer + ".mlp.linear_fc2", row, m.hidden, m.inner / m.ranks);
  }
  names.Param("decoder.final_layernorm", "weight", "TENorm", {m.hidden});
  names.Param("decoder.final_layernorm", "bias", "TENorm", {m.hidden});
  names.Param("output_layer", "weight", "ColumnParallelLinear", {1024 / m.ranks, m.hidden});
  return names.all;
}

// Parameters of vLLM's or SGLang's BERT; `self`: what it calls the attention's inner module.
inline std::vector<NamedTensor> ServerBert(const ModelSize& m, const std::string& package,
                                           const std::string& self) {
  Names names;
  const std::string linear = package + ".layers.linear.";
  const auto biased = [&](const std::string& path, const std::string& cls, uint64_t out,
                          uint64_t in) {
    names.Param(path, "weight", linear + cls, {out, in}).Param(path, "bias", linear + cls, {out});
  };
  const auto norm = [&](const std::string& path) {
    const std::string cls = "torch.nn.modules.normalization.LayerNorm";
    names.Param(path, "weight", cls, {m.hidden}).Param(path, "bias", cls, {m.hidden});
  };
  for (const auto& [table, rows] : std::vector<std::pair<std::string, uint64_t>>{
           {"word", 1024}, {"position", 512}, {"token_type", 64}}) {
    names.Param("model.embeddings." + table + "_embeddings", "weight",
                package + ".layers.vocab_parallel_embedding.VocabParallelEmbedding",
                {rows / m.ranks, m.hidden});
  }
  norm("model.embeddings.LayerNorm");
  for (uint64_t i = 0; i < m.layers; ++i) {
    const std::string layer = "model.encoder.layer." + std::to_string(i);
    biased(layer + ".attention." + self + ".qkv_proj", "QKVParallelLinear", 3 * m.hidden / m.ranks,
           m.hidden);
    biased(layer + ".attention.output.dense", "RowParallelLinear", m.hidden, m.hidden / m.ranks);
    norm(layer + ".attention.output.LayerNorm");
    biased(layer + ".intermediate.dense", "ColumnParallelLinear", m.inner / m.ranks, m.hidden);
    biased(layer + ".output.dense", "RowParallelLinear", m.hidden, m.inner / m.ranks);
    norm(layer + ".output.LayerNorm");
  }
  return names.all;
}

}  // namespace tdump::compare
