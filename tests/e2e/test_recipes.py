"""Each shipped recipe on a real job: what it says it keeps is what is kept."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from conftest import BUILD, SOURCE, Run, execute

RECIPES = sorted((SOURCE / "configs").glob("*.yaml"))
JOB = Path(__file__).parent / "jobs" / "recipes.py"
SIGNATURE = 1 << 63


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    cwd = tmp_path_factory.mktemp("recipes")
    done = execute([sys.executable, JOB, *RECIPES], cwd, {"PYTHONPATH": str(BUILD / "python")})
    assert done.returncode == 0, done.stderr
    return cwd / "runs"


def kept(runs: Path, recipe: str) -> list[dict[str, set[str]]]:
    """What the rules asked for, a step each: "role level" -> names of operators, of an input with the argument."""
    import tdump

    steps = []
    for path in Run(runs / recipe).passes(0):
        step: dict[str, set[str]] = {}
        for record in tdump.load_pass(path).records():
            if record.filter_sets & ~SIGNATURE == 0:
                continue
            assert record.asked == record.kept, record.key
            assert (record.phase == "backward") == (record.role in ("grad_output", "param_grad")), record.key
            levels = {"payload": "full", "hash": "hash", "stats": "stats", "meta": "meta"}
            level = next(level for part, level in levels.items() if part in record.kept)
            name = f"{record.name}#{record.arg}" if record.role == "input" else record.name
            step.setdefault(f"{record.role} {level}", set()).add(name)
        steps.append(step)
    return steps


# The model of jobs/recipes.py.
PARAMETERS = {"embed", "layers.3.attention", "layers.40.attention"}
LEAVES = PARAMETERS | {"layers.3.dropout", "layers.40.dropout"}
ALL = LEAVES | {".", "layers.3", "layers.40"}


def first_arguments(names: set[str]) -> set[str]:
    return {f"{name}#kwargs.input_ids" if name == "." else f"{name}#0" for name in names}


EXPECTED = {
    "hashes": [{"input hash": first_arguments(ALL), "output hash": ALL}] * 2,
    "minimal": [{"output full": PARAMETERS}] * 2,
    "port": [
        {"param full": PARAMETERS, "input full": first_arguments(LEAVES | {"."}), "output full": LEAVES},
        {"input full": first_arguments(LEAVES | {"."}), "output full": LEAVES},
    ],
    "replay": [
        {
            "input full": {"layers.40.attention#0", "layers.40.dropout#0"},
            "output full": {"layers.40.attention", "layers.40.dropout"},
            "grad_output full": {"layers.40.attention", "layers.40.dropout"},
            "param_grad stats": PARAMETERS,
            "output stats": {"embed", "layers.3.attention", "layers.3.dropout"},
        }
    ]
    * 2,
    "training": [{"output full": LEAVES, "param hash": PARAMETERS}] * 2,
}


def test_every_recipe_is_here():
    assert [path.stem for path in RECIPES] == sorted([*EXPECTED, "log", "operators"])  # of log: test_operator_log.py


@pytest.mark.parametrize("recipe", EXPECTED)
def test_what_a_recipe_keeps(runs, recipe):
    assert kept(runs, recipe) == EXPECTED[recipe]


def test_operators_inside_a_module(runs):
    [step] = kept(runs, "operators")  # one step only
    assert set(step) == {"input full", "output full"}
    owners = {"layers.3.attention", "layers.40.attention"}
    assert {name.split("/")[0] for names in step.values() for name in names} == owners
    # torch decides which operators a Linear is made of; the product is one of them, with three tensors going in.
    for owner in owners:
        assert f"{owner}/aten::addmm" in step["output full"]
        assert {f"{owner}/aten::addmm#{n}" for n in range(3)} <= step["input full"]
