"""The C++ example under tdump: the same job, every module by its name, and a fault that shows on its rank only."""

from __future__ import annotations

import json
import re

import pytest
import torch
import torch.nn.functional as F
from conftest import BUILD, SOURCE, TDUMP_RUN, execute, latest, mpirun

APP = BUILD / "bin" / "examples" / "tp_transformer"
CONFIG = SOURCE / "examples" / "tp_transformer" / "tdump.yaml"
FAULT = "layers.1.mlp.down"
LAYERS = 4
STEPS = 3

pytestmark = pytest.mark.skipif(not APP.exists(), reason="built without examples or MPI")


def transformer(ranks, cwd, *words, config=None):
    dump = [TDUMP_RUN, "-c", str(config), "--"] if config else []
    done = mpirun(ranks, [*dump, str(APP), *words], cwd)
    assert done.returncode == 0, done.stderr
    return done


def printed(done):
    """Losses and hashes of all ranks."""
    lines = [line for text in done.printed for line in text.splitlines()]
    assert sum(bool(re.fullmatch(r"rank \d params \w{16} grads \w{16} rng \w{16}", line)) for line in lines) >= 1
    assert sum(line.startswith("step ") for line in lines) == STEPS
    return lines


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_three_runs_with_and_without_are_the_same_job(ranks, tmp_path):
    runs = [printed(transformer(ranks, tmp_path, config=config)) for config in (None, CONFIG) * 3]
    assert len(runs[0]) == STEPS + ranks
    assert all(lines == runs[0] for lines in runs)
    assert sorted(latest(tmp_path).ranks()) == list(range(ranks))


FULL = "steps: 0-2\ncapture: [{role: [param, input, output], level: full}]\n"


def captured(cwd, ranks, *words):
    """One run with all tensors kept: its directory, and the passes of each rank."""
    import tdump

    cwd.mkdir()
    (cwd / "full.yaml").write_text(FULL)
    transformer(ranks, cwd, *words, config=cwd / "full.yaml")
    run = latest(cwd)
    return run.path, {rank: [tdump.load_pass(file) for file in run.passes(rank)] for rank in range(ranks)}


@pytest.fixture(scope="module")
def clean_run(tmp_path_factory):
    return captured(tmp_path_factory.mktemp("tp") / "clean", 2)


@pytest.fixture(scope="module")
def clean(clean_run):
    return clean_run[1]


def outputs_in_order():
    """What named_modules() and the order of the forwards give for this model."""
    names = ["position_embedding", "token_embedding", "dropout"]
    for i in range(LAYERS):
        attention, mlp = f"layers.{i}.attention", f"layers.{i}.mlp"
        names += [f"{attention}_norm", f"{attention}.query", f"{attention}.key", f"{attention}.value"]
        names += [f"{attention}.output/partial", f"{attention}.output", attention, f"layers.{i}.dropout"]
        names += [f"{mlp}_norm", f"{mlp}.up", f"{mlp}.gelu", f"{mlp}.down/partial", f"{mlp}.down", mlp]
        names += [f"layers.{i}.dropout::call1", f"layers.{i}"]
    return [*names, "norm", "head", "."]


def test_every_module_has_its_name_in_the_order_of_the_forward(clean):
    for passes in clean.values():
        assert [p.info.mode for p in passes] == ["train"] * STEPS
        assert [p.info.local_step for p in passes] == [0, 1, 2]
        for p in passes:
            names = list(p)
            # The two embeddings are operands of one `+`: C++ leaves their order to the compiler.
            assert sorted(names[:2]) == sorted(outputs_in_order()[:2])
            assert names[2:] == outputs_in_order()[2:]


def parameters(p):
    return {f"{r.path}.{r.arg}".removeprefix("..") for r in p.records() if r.role == "param"}


def test_all_parameters_are_recorded_before_the_first_forward(clean):
    names = {"token_embedding.weight", "position_embedding.weight", "norm.weight", "norm.bias", "head.weight"}
    for i in range(LAYERS):
        for norm in ("attention_norm", "mlp_norm"):
            names |= {f"layers.{i}.{norm}.weight", f"layers.{i}.{norm}.bias"}
        names |= {f"layers.{i}.attention.{part}.weight" for part in ("query", "key", "value", "output")}
        names |= {f"layers.{i}.attention.output.bias", f"layers.{i}.mlp.down.bias"}
        names |= {f"layers.{i}.mlp.up.weight", f"layers.{i}.mlp.down.weight"}
    for rank in clean:
        assert parameters(clean[rank][0]) == names
        assert all(r.hash for r in clean[rank][0].records() if r.role == "param")


def test_values_are_those_torch_computes_from_the_recorded_inputs(clean):
    for rank, passes in clean.items():
        p = passes[1]  # after an update: parameters are those of this step

        def given(name, p=p):
            return p[f"{name}@input#0"]

        def weight(name, arg="weight", p=p):
            return p[f"{name}@param#{arg}"]

        tokens = given("token_embedding")
        assert tokens.dtype == torch.int64 and torch.equal(given("."), tokens)
        assert torch.equal(p["token_embedding"], F.embedding(tokens, weight("token_embedding")))
        for i in range(LAYERS):
            norm, up, gelu, down = (f"layers.{i}.{part}" for part in ("mlp_norm", "mlp.up", "mlp.gelu", "mlp.down"))
            assert torch.equal(p[norm], F.layer_norm(given(norm), (64,), weight(norm), weight(norm, "bias")))
            assert torch.equal(p[up], F.linear(given(up), weight(up)))
            assert torch.equal(p[gelu], F.gelu(p[up])) and torch.equal(given(gelu), p[up])
            assert torch.equal(p[f"{down}/partial"], F.linear(p[gelu], weight(down)))
            kept = p[f"layers.{i}.dropout::call1"] != 0  # of what dropout returned
            assert 0.85 < kept.float().mean() < 0.95
        assert torch.equal(p["head"], F.linear(p["norm"], weight("head"))) and torch.equal(p["."], p["head"])
        assert rank in (0, 1)


def test_a_row_parallel_output_is_the_sum_of_the_partial_ones(clean):
    name = FAULT
    for step in range(STEPS):
        a, b = clean[0][step], clean[1][step]
        assert not torch.equal(a[f"{name}/partial"], b[f"{name}/partial"])
        total = a[f"{name}/partial"] + b[f"{name}/partial"] + a[f"{name}@param#bias"]
        assert torch.equal(a[name], total) and torch.equal(b[name], total)


def different(a, b):
    """Keys whose bits differ between two passes, in the order in which they were seen."""
    theirs = {r.key: r.hash for r in b.records()}
    mine = list(a.records())
    assert {r.key for r in mine} == set(theirs)
    return [r.key for r in sorted(mine, key=lambda r: r.seen) if theirs[r.key] != r.hash]


def verdict(a, b):
    done = execute([BUILD / "bin" / "tdump-diff", "--json", a, b], a.parent)
    return done.returncode, json.loads(done.stdout)


def test_a_fault_shows_on_its_rank_until_the_sum(clean_run, tmp_path):
    path, clean = clean_run
    fault_path, faulty = captured(tmp_path / "fault", 2, "--fault", f"1:{FAULT}.weight:23")
    first = {rank: different(faulty[rank][0], clean[rank][0]) for rank in clean}
    parameter, partial = f"{FAULT}@param#weight", f"{FAULT}/partial@output#"
    assert first[1][:3] == [parameter, partial, f"{FAULT}@output#"]
    assert parameter not in first[0] and partial not in first[0]
    assert first[0][0] == f"{FAULT}@output#"
    status, found = verdict(path, fault_path)
    assert (status, found["verdict"]) == (1, "differs")
    assert found["origin"]["rank"] == 1 and found["origin"]["step"] == 0
    assert found["origin"]["path"] == FAULT


def test_two_clean_runs_are_the_same(clean_run, tmp_path):
    status, found = verdict(clean_run[0], captured(tmp_path / "again", 2)[0])
    assert (status, found["verdict"]) == (0, "same")


GRADIENTS = """
steps: 0-2
capture:
  - {role: [param, param_grad], level: full}
  - {leaf: true, role: [input, output, grad_input, grad_output], level: full}
"""


def fnv(tensors):
    """64-bit FNV-1a over the bytes of tensors, as the job prints it."""
    value = 0xCBF29CE484222325
    for tensor in tensors:
        for byte in tensor.contiguous().numpy().tobytes():
            value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


@pytest.mark.parametrize("ranks", [1, 2])
def test_gradients_are_those_the_job_has(ranks, tmp_path):
    import tdump

    (tmp_path / "gradients.yaml").write_text(GRADIENTS)
    bare = printed(transformer(ranks, tmp_path))
    lines = printed(transformer(ranks, tmp_path, config=tmp_path / "gradients.yaml"))
    assert lines == bare
    for rank in range(ranks):
        passes = [tdump.load_pass(file) for file in latest(tmp_path).passes(rank)]
        assert len(passes) == STEPS
        p = passes[-1]
        names = [f"{r.path}@{{}}#{r.arg}" for r in p.records() if r.role == "param"]
        gradients = [p[name.format("param_grad")] for name in names]  # no key is missing
        (line,) = [line for line in lines if line.startswith(f"rank {rank} ")]
        assert fnv(gradients) in line  # of all parameters, printed after the last step
        for i in range(LAYERS):
            up = f"layers.{i}.mlp.up"
            taken, given = p[f"{up}@input#0"].flatten(0, 1), p[f"{up}@grad_output#"].flatten(0, 1)
            weight = p[f"{up}@param#weight"]
            assert torch.allclose(p[f"{up}@param_grad#weight"], given.t() @ taken, atol=1e-6)
            if ranks == 1:
                assert torch.allclose(p[f"{up}@grad_input#0"].flatten(0, 1), given @ weight, atol=1e-6)
            gelu = f"layers.{i}.mlp.gelu"  # its input is the output of up
            assert torch.equal(p[f"{gelu}@grad_input#0"], p[f"{up}@grad_output#"])
