"""A small Llama: what its two writings share. decoder_hf.py is transformers' own, decoder_megatron.py the tensor-parallel
one; both read the weights and the tokens of one file, which `python decoder.py FILE` makes."""

from __future__ import annotations

import sys

import torch

LAYERS = 3
WIDTH = 128
HEADS = 8
GROUPS = 4  # of heads that share a key and a value
HEAD_WIDTH = WIDTH // HEADS
INNER = 352
VOCABULARY = 500
CONTEXT = 24
BATCH = 2
STEPS = 2
EPSILON = 1e-5
THETA = 10000.0


def weights() -> dict[str, torch.Tensor]:
    """By the names of transformers, float32."""
    generator = torch.Generator().manual_seed(17)

    def matrix(rows: int, columns: int) -> torch.Tensor:
        return torch.randn(rows, columns, generator=generator) / columns**0.5

    def norm() -> torch.Tensor:
        return 1 + 0.2 * torch.randn(WIDTH, generator=generator)

    found = {"model.embed_tokens.weight": torch.randn(VOCABULARY, WIDTH, generator=generator)}
    for layer in range(LAYERS):
        name = f"model.layers.{layer}"
        found[f"{name}.input_layernorm.weight"] = norm()
        found[f"{name}.self_attn.q_proj.weight"] = matrix(HEADS * HEAD_WIDTH, WIDTH)
        found[f"{name}.self_attn.k_proj.weight"] = matrix(GROUPS * HEAD_WIDTH, WIDTH)
        found[f"{name}.self_attn.v_proj.weight"] = matrix(GROUPS * HEAD_WIDTH, WIDTH)
        found[f"{name}.self_attn.o_proj.weight"] = matrix(WIDTH, HEADS * HEAD_WIDTH)
        found[f"{name}.post_attention_layernorm.weight"] = norm()
        found[f"{name}.mlp.gate_proj.weight"] = matrix(INNER, WIDTH)
        found[f"{name}.mlp.up_proj.weight"] = matrix(INNER, WIDTH)
        found[f"{name}.mlp.down_proj.weight"] = matrix(WIDTH, INNER)
    found["model.norm.weight"] = norm()
    found["lm_head.weight"] = matrix(VOCABULARY, WIDTH)
    return found


def tokens() -> torch.Tensor:
    """int64 [step, batch, context]"""
    generator = torch.Generator().manual_seed(23)
    return torch.randint(VOCABULARY, (STEPS, BATCH, CONTEXT), generator=generator)


if __name__ == "__main__":
    torch.save({"weights": weights(), "tokens": tokens()}, sys.argv[1])
