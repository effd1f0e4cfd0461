"""The decoder as transformers has it, on one process: python decoder_hf.py FILE [--dtype float32|bfloat16]"""

from __future__ import annotations

import argparse
import os

os.environ["HF_HUB_OFFLINE"] = "1"

import decoder
import torch
from transformers import LlamaConfig, LlamaForCausalLM


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("--dtype", default="float32")
    args = parser.parse_args()
    torch.set_num_threads(1)
    given = torch.load(args.file)
    config = LlamaConfig(
        vocab_size=decoder.VOCABULARY,
        hidden_size=decoder.WIDTH,
        intermediate_size=decoder.INNER,
        num_hidden_layers=decoder.LAYERS,
        num_attention_heads=decoder.HEADS,
        num_key_value_heads=decoder.GROUPS,
        max_position_embeddings=decoder.CONTEXT,
        rms_norm_eps=decoder.EPSILON,
        rope_parameters={"rope_type": "default", "rope_theta": decoder.THETA},
        use_cache=False,
        attn_implementation="sdpa",
    )
    model = LlamaForCausalLM(config).eval()
    model.load_state_dict(given["weights"])
    model.to(getattr(torch, args.dtype))
    with torch.inference_mode():
        for input_ids in given["tokens"]:
            logits = model(input_ids=input_ids).logits
            print("logits", logits.double().sum().item(), logits.double().norm().item(), flush=True)


if __name__ == "__main__":
    main()
