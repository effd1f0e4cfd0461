"""Every operator of MiniLM (two layers of it) in each mode, byte by byte against a second observer of the same process; so too where the
job writes in ways that no version of a tensor tells of."""

from __future__ import annotations

import shutil
import struct
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest
import tdump
import torch
from conftest import BUILD, SOURCE, TDUMP_RUN, execute, latest

JOB = SOURCE / "tests" / "e2e" / "jobs" / "copied_modes.py"
OBSERVER = BUILD / "tests" / "jobs" / "copy_operators.so"
MODES = ["inference", "no_grad", "training"]
LAYERS = 2
CONFIG = """
steps: all
signature: false
collect: {aten: on}
capture:
  - {op: '.*', role: [input, output, before, after], phase: [forward, backward], level: full}
  - {role: [input, output, param_grad], level: full}
"""


def operators(file: Path) -> list[tuple[str, dict[tuple[str, str], bytes]]]:
    """What the second observer copied: per call, its name and (role, place) -> bytes."""
    data = memoryview(file.read_bytes())
    at = 0

    def field() -> bytes:
        nonlocal at
        (size,) = struct.unpack_from("<Q", data, at)
        at += 8 + size
        return bytes(data[at - size : at])

    calls: list[tuple[str, dict[tuple[str, str], bytes]]] = []
    while at < len(data):
        kind = data[at]
        at += 1
        if kind == ord("C"):
            calls.append((field().decode(), {}))
        else:
            key = field().decode(), field().decode()
            assert key not in calls[-1][1]
            calls[-1][1][key] = field()
    return calls


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    cwd = tmp_path_factory.mktemp("copied")
    (cwd / "all.yaml").write_text(CONFIG)
    done = execute([TDUMP_RUN, "-c", "all.yaml", "--", sys.executable, JOB, OBSERVER, *MODES], cwd)
    assert done.returncode == 0, done.stderr
    yield cwd
    shutil.rmtree(cwd)


@pytest.fixture(scope="module", params=MODES)
def seen(request, job):
    """Of a mode: its name, its passes, and the copies of its operators and of what its modules were seen to have."""
    mode = request.param
    files = latest(job).passes(0)
    count, rest = divmod(len(files), len(MODES))  # as many steps in each mode
    assert count > 0 and rest == 0
    first = MODES.index(mode) * count
    passes = [tdump.load_pass(file) for file in files[first : first + count]]
    return mode, passes, operators(job / f"{mode}.bin"), torch.load(job / "outputs.pt")[mode]


def bytes_of(value) -> bytes:
    return torch.as_tensor(value).contiguous().numpy().tobytes()


def recorded_operators(passes):
    """In the order they began, of each its name and its records: (role, place) -> bytes."""
    for p in passes:
        records: dict[int, dict[tuple[str, str], object]] = {}
        for record in p.records():
            if record.kind == "aten":
                assert (record.role, record.arg) not in records.setdefault(record.call_begin, {})
                records[record.call_begin][record.role, record.arg] = record
        for call in sorted((c for c in p.calls() if c.kind == "aten"), key=lambda c: c.begin):
            mine = records.pop(call.begin, {})
            yield call.op, {key: bytes_of(p.tensor(record)) for key, record in mine.items()}
        assert not records


def test_every_record_of_every_operator(seen):
    mode, passes, expected, _ = seen
    recorded = list(recorded_operators(passes))
    assert [name for name, _ in recorded] == [name for name, _ in expected]
    for n, ((name, mine), (_, theirs)) in enumerate(zip(recorded, expected, strict=True)):
        assert set(mine) == set(theirs), (n, name)
        for key, copy in theirs.items():
            assert mine[key] == copy, (n, name, key)
    count = Counter(name for name, _ in expected)
    # Two steps of 2 layers of 6 linears, and of the pooler and the other model.
    assert count["aten::addmm"] == 2 * (LAYERS * 6 + 2)
    assert count["opaque::negate_"] == count["opaque::add_one"] == 2
    assert (count["aten::native_layer_norm_backward"] == 2 * (2 * LAYERS + 1)) == (mode == "training")


def test_outputs_before_and_after_writes_that_nothing_tells_of(seen):
    _, passes, _, expected = seen
    recorded = []
    for p in passes:
        records = [r for r in p.records() if r.path.startswith("seen.") and r.kind != "aten"]
        recorded += [(r.path[5:], r.role, bytes_of(p.tensor(r))) for r in sorted(records, key=lambda r: r.seen)]
    # An Identity: its input is its output.
    outputs = expected["outputs"]
    assert recorded == [(name, role, copy) for name, copy in outputs for role in ("input", "output")]
    names = ["first", "data", "in_place", "unsaid"]
    assert [name for name, _ in outputs] == 2 * names
    assert len({copy for _, copy in outputs}) == len(names)


def test_every_tensor_that_a_module_of_minilm_takes_and_returns(seen):
    _, passes, _, copies = seen
    expected, recorded = defaultdict(list), defaultdict(list)
    for path, role, arg, copy in copies["modules"]:
        expected[path, role, arg].append(copy)
    roots = {r.root for p in passes for r in p.records() if r.path.startswith("encoder.")}
    assert len(roots) == 1
    for p in passes:
        records = [r for r in p.records() if r.kind == "module" and r.root in roots]
        for r in sorted(records, key=lambda r: (r.seen, r.id)):
            if r.role in ("input", "output") and r.path.split(".")[0] not in ("linear", "seen"):
                recorded[r.path, r.role, r.arg].append(bytes_of(p.tensor(r)))
    assert set(recorded) == set(expected)
    for key, given in expected.items():
        assert len(recorded[key]) == len(given), key
        for mine, copy in zip(recorded[key], given, strict=True):
            assert copy is None or mine == copy, key
    layer = "encoder.layer.1"
    assert set(expected) >= {
        (".", "input", "kwargs.input_ids"),
        (".", "output", "last_hidden_state"),
        (layer, "input", "0"),
        (f"{layer}.attention", "output", "0"),
        (f"{layer}.attention.self", "input", "0"),
        (f"{layer}.output", "input", "1"),
        (f"{layer}.output.LayerNorm", "output", ""),
    }
    assert len(expected) > LAYERS * 40
    # Ids of positions and of kinds of token are one row, stored once; the pooler takes the first token of each text.
    strided = {path for path, _, _, copy in copies["modules"] if copy is None}
    assert strided <= {"embeddings.position_embeddings", "embeddings.token_type_embeddings", "pooler.dense"}


def test_gradients_of_parameters(seen):
    mode, passes, _, expected = seen
    recorded = []
    for p in passes:
        records = [
            r for r in p.records() if r.role == "param_grad" and r.path.split(".")[0] in ("embeddings", "encoder")
        ]
        recorded.append({f"{r.path}.{r.arg}": bytes_of(p.tensor(r)) for r in records})
    if mode != "training":
        assert not any(recorded)
        return
    given = expected["gradients"]
    assert len(given) == 2 and len(given[0]) == 5 + 16 * LAYERS
    filled = [grads for grads in recorded if grads]
    assert [set(grads) for grads in filled] == [set(grads) for grads in given]
    for mine, copy in zip(filled, given, strict=True):
        assert all(mine[name] == copy[name] for name in copy)
