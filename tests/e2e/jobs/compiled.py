"""Three models, each in two training steps and one without gradients, run as the command line says: ``plain``, or the
backend of torch.compile and how (``dynamic``, ``cpp_wrapper``). Each model begins a step of tdump. Prints, as JSON, what
each computed and what Dynamo counted."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import tdump
import torch
from torch import _meta_registrations, nn
from torch.utils.checkpoint import checkpoint


class Mlp(nn.Module):
    """One layer and one activation that are called at several places, in place on what a layer gave; a dict comes out."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.again = nn.Linear(8, 16), nn.Linear(16, 16)
        self.act, self.last = nn.ReLU(inplace=True), nn.Sequential(nn.Linear(16, 8), nn.Dropout(0.0))
        self.tied = self.again

    def forward(self, x: torch.Tensor, *, scale: float = 1.0) -> dict[str, Any]:
        h = self.act(self.first(x * scale))
        h = self.act(self.again(h))
        h = self.act(self.tied(h))
        return {"out": self.last(h), "hidden": (h, None)}


class Split(NamedTuple):
    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor


class Projection(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x: torch.Tensor) -> Split:
        return Split(*(part.unflatten(-1, (2, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1)))


class Layer(nn.Module):
    """A decoder layer."""

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


class Encoder(nn.Module):
    """A block of torch's own, in which attention is no module call of its own parts."""

    def __init__(self) -> None:
        super().__init__()
        self.block = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, activation="gelu", batch_first=True)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        return self.block(x, src_key_padding_mask=mask)


def inputs(model: nn.Module, batch: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    torch.manual_seed(batch)
    if isinstance(model, Mlp):
        return (torch.randn(batch, 8, requires_grad=True),), {"scale": 0.5}
    if isinstance(model, Decoder):
        return (torch.randint(0, 32, (batch, 5)),), {}
    return (torch.randn(batch, 5, 16),), {"mask": torch.zeros(batch, 5).bool()}


def first(output: Any) -> torch.Tensor:
    return output["out"] if isinstance(output, dict) else output


def run(model: nn.Module, call: Callable[..., Any]) -> list[float]:
    seen = []
    for batch in (2, 3):
        args, kwargs = inputs(model, batch)
        tdump.step()
        output = first(call(*args, **kwargs))
        # Weights, or the gradient behind a last LayerNorm would be zero but for rounding.
        loss = (output.square() * torch.linspace(-1, 1, output.numel()).view_as(output)).mean()
        loss.backward()
        seen += [loss.item(), *(p.grad.sum().item() for p in model.parameters())]
        model.zero_grad()
    model.eval()
    tdump.step()
    with torch.no_grad():
        args, kwargs = inputs(model, 3)
        seen.append(first(call(*args, **kwargs)).sum().item())
    return seen


def main() -> None:
    how, words = sys.argv[1], sys.argv[2:]
    if "cpp_wrapper" in words:
        import torch._inductor.config as inductor

        inductor.cpp_wrapper = True
    if not hasattr(_meta_registrations, "meta__transformer_encoder_layer_fwd"):
        torch.backends.mha.set_fastpath_enabled(False)  # older releases cannot trace the fused block of torch
    told: dict[str, Any] = {}
    for cls in (Mlp, Decoder, Encoder):
        torch.manual_seed(0)
        model = cls()
        call: Callable[..., Any] = model
        if how != "plain":
            torch._dynamo.reset()
            dynamic = True if "dynamic" in words else None
            call = torch.compile(model, backend=how, fullgraph=True, dynamic=dynamic)
        told[cls.__name__] = run(model, call)
        if how != "plain":
            from torch._dynamo.utils import counters

            told[f"{cls.__name__} graphs"] = counters["stats"].pop("unique_graphs")
            told[f"{cls.__name__} breaks"] = dict(counters["graph_break"])
    print(json.dumps(told))


if __name__ == "__main__":
    main()
