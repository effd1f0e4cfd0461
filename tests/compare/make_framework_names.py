"""Writes hf_names.txt: what the leaf modules of real Hugging Face models are called, small ones without weights to load.

    python tests/compare/make_framework_names.py > tests/compare/hf_names.txt

One line a tensor: model, role, module, argument ("-" for a bare one), class, shape. Parameters first, then the inputs and
outputs of one forward pass in the order of their being seen, as tdump names them.
"""

from __future__ import annotations

import torch
import transformers

BATCH, LENGTH = 2, 5
SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "vocab_size": 1000,
}


def models() -> dict[str, torch.nn.Module]:
    grouped = {**SIZES, "num_key_value_heads": 2, "head_dim": 8}
    gpt2 = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, n_inner=48, vocab_size=1000, n_positions=64)
    return {
        "llama": transformers.LlamaForCausalLM(transformers.LlamaConfig(**grouped)),
        "qwen2": transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**grouped)),
        "qwen3": transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**grouped)),
        "gpt2": transformers.GPT2LMHeadModel(gpt2),
        "bert": transformers.BertModel(transformers.BertConfig(**SIZES)),
    }


def line(model: str, role: str, path: str, arg: str, module: torch.nn.Module, tensor: torch.Tensor) -> None:
    cls = f"{type(module).__module__}.{type(module).__qualname__}"
    print(model, role, path, arg or "-", cls, "x".join(map(str, tensor.shape)) or "-")


def tensors(value: object, name: str = "") -> list[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        return [(name, value)]
    if isinstance(value, (tuple, list)):
        return [found for i, item in enumerate(value) for found in tensors(item, f"{name}.{i}" if name else str(i))]
    return []


def watch(model: str, path: str, module: torch.nn.Module) -> None:
    def before(_: torch.nn.Module, args: tuple, kwargs: dict) -> None:
        named = [(str(i), arg) for i, arg in enumerate(args)] + [(f"kwargs.{k}", v) for k, v in kwargs.items()]
        for arg, value in named:
            for name, tensor in tensors(value, arg):
                line(model, "input", path, name, module, tensor)

    def after(_: torch.nn.Module, args: tuple, output: object) -> None:
        for name, tensor in tensors(output):
            line(model, "output", path, name, module, tensor)

    module.register_forward_pre_hook(before, with_kwargs=True)
    module.register_forward_hook(after)


def main() -> None:
    for name, model in models().items():
        model.eval()
        for path, module in model.named_modules():
            for arg, tensor in module.named_parameters(recurse=False):
                line(name, "param", path, arg, module, tensor)
            if not list(module.children()):
                watch(name, path, module)
        with torch.no_grad():
            model(input_ids=torch.zeros(BATCH, LENGTH, dtype=torch.long))


if __name__ == "__main__":
    main()
