"""A model in a chosen precision, over inputs of many kinds, one a step; without a fault, or once with each of several.

    python lossy.py MODEL [--precision float32|bfloat16|fp8] [--draw N] [--first I] [--inputs COUNT]
                          [--fault KIND:MODULE:VALUE ...]
    python lossy.py --train FILE

MODEL is one of
    minilm                        MiniLM-L6; weights package as in examples/minilm
    llama:LAYERS:WIDTH:HEADS:GROUPS   transformers' Llama with drawn weights, other ones for every fifth input
    bert:FOLDER                   a BERT of transformers on disk; text becomes tokens byte by byte
    FILE                          a small Llama that --train taught to read bytes, in about half a minute

Which inputs and weights are drawn depends on --draw and the number of the input alone. fp8 is simulated as in
tests/e2e/jobs/lossy_minilm.py. Faults, each for all inputs (with the k-th, step k * COUNT + i is input first + i):
    norm:MODULE:F     the weight of MODULE times F
    row:MODULE:R      row R of its weight is 0
    scale:MODULE:F    fp8 only: it multiplies its rounded weight by F times the scale it divided by
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "minilm"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "e2e" / "jobs"))

import torch
import torch.nn.functional as F
from encode import load_encoder
from lossy_minilm import Float8Linear, in_precision, through_float8
from many_inputs import BYTES, batch_of, read_text
from torch import nn
from transformers import BertModel, LlamaConfig, LlamaForCausalLM

INPUTS_PER_DRAWING = 5
TRAINED = {"layers": 4, "width": 128, "heads": 8, "groups": 4, "vocabulary": BYTES}
TRAINING_STEPS = 300


class WrongFloat8Linear(Float8Linear):
    factor = 1.0

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.linear(through_float8(input), through_float8(self.weight) * self.factor, self.bias)


class Subject:
    """A model to look at: how text becomes tokens, and what changes from input to input."""

    def __init__(self, model: nn.Module, ids: Callable[[str], list[int]], vocabulary: range, longest: int) -> None:
        self.model, self.ids, self.vocabulary, self.longest = model.eval(), ids, vocabulary, longest

    def prepare(self, draw: int, number: int) -> None:
        """Before the input of that number."""


class Drawn(Subject):
    def prepare(self, draw: int, number: int) -> None:
        seed = 1000 * draw + number // INPUTS_PER_DRAWING
        if seed != getattr(self, "seed", None):
            self.seed = seed
            draw_weights(self.model, seed)


def draw_weights(model: nn.Module, seed: int) -> None:
    """As tests/e2e/jobs/decoder.py does. In every other model three channels of the residual stream are much larger."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        drawn = torch.randn(parameter.shape, generator=generator)
        if parameter.dim() == 1:
            drawn = 1 + 0.2 * drawn
        elif "embed" not in name:
            drawn /= parameter.shape[1] ** 0.5
        elif seed % 2:
            drawn[:, :3] += torch.tensor([12.0, -20.0, 8.0])
        parameter.data.copy_(drawn)


def llama(layers: int, width: int, heads: int, groups: int, vocabulary: int = 500) -> LlamaForCausalLM:
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=vocabulary,
            hidden_size=width,
            intermediate_size=width * 11 // 4,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=groups,
            max_position_embeddings=256,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
            use_cache=False,
            attn_implementation="sdpa",
        )
    )


def subject(name: str) -> Subject:
    kind, _, rest = name.partition(":")
    if kind == "minilm":
        model, tokenizer = load_encoder()
        return Subject(model, lambda text: tokenizer(text)["input_ids"], range(999, len(tokenizer)), 200)
    if kind == "bert":
        model = BertModel.from_pretrained(rest, attn_implementation="sdpa", dtype=torch.float32)
        size = model.config.vocab_size
        return Subject(model, lambda text: [5 + byte % (size - 5) for byte in text.encode()], range(5, size), 96)
    if kind == "llama":
        model = llama(*(int(number) for number in rest.split(":")))
        size = model.config.vocab_size
        return Drawn(model, lambda text: [byte * 7 % size for byte in text.encode()], range(size), 96)
    model = llama(**TRAINED)
    model.load_state_dict(torch.load(name))
    return Subject(model, lambda text: list(text.encode()), range(BYTES), 96)


def train(file: str) -> None:
    """Next byte, AdamW. The loss falls from 5.5 to about 2.5 nats."""
    torch.manual_seed(5)
    model = llama(**TRAINED)
    text = torch.tensor(list(read_text().encode()))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
    for step in range(TRAINING_STEPS):
        starts = torch.randint(len(text) - 65, (16,))
        batch = torch.stack([text[start : start + 64] for start in starts])
        loss = model(input_ids=batch, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 50 == 0 or step == TRAINING_STEPS - 1:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
    torch.save(model.state_dict(), file)


@contextmanager
def fault_in(model: nn.Module, fault: str | None) -> Iterator[None]:
    if fault is None:
        yield
        return
    kind, module_name, value = fault.split(":")
    module = model.get_submodule(module_name)
    before = module.weight.detach().clone()
    if kind == "norm":
        module.weight.data *= float(value)
    elif kind == "row":
        module.weight.data[int(value)] = 0
    elif kind == "scale" and isinstance(module, Float8Linear):
        module.__class__, module.factor = WrongFloat8Linear, float(value)
    else:
        sys.exit(f"lossy.py: --fault {fault}: no such fault in this precision")
    yield
    if kind == "scale":
        module.__class__ = Float8Linear
    module.weight.data.copy_(before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?")
    parser.add_argument("--precision", choices=["float32", "bfloat16", "fp8"], default="float32")
    parser.add_argument("--draw", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--inputs", type=int, default=10)
    parser.add_argument("--fault", nargs="+", default=[None])
    parser.add_argument("--train", metavar="FILE")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.train:
        train(args.train)
        return
    chosen = subject(args.model)
    model = in_precision(chosen.model, args.precision)
    with torch.inference_mode():
        for fault in args.fault:
            for number in range(args.first, args.first + args.inputs):
                chosen.prepare(args.draw, number)
                ids, mask = batch_of(Random(f"{args.draw} {number}"), number, chosen)
                with fault_in(model, fault):
                    model(input_ids=torch.tensor(ids), attention_mask=torch.tensor(mask))


if __name__ == "__main__":
    main()
