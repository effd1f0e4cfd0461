"""Jobs and tensors that tdump cannot capture yet run as without it, and are named with the reason.

Sparse, fake, functional, meta, nested, quantised and (where torch still has them) named tensors; meta parameters.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import tdump
from conftest import BUILD, TDUMP_RUN, execute, latest

JOB = Path(__file__).parent / "jobs" / "not_captured.py"
ENV = {"PYTHONPATH": str(BUILD / "python")}
# Case of the job -> what the coverage says of it.
NOTES = {
    "compile_aot_eager": "torch.compile: modules in this region are traced; not captured",
    "compile_inductor": "torch.compile: modules in this region are traced; not captured",
    "export": "torch.compile or torch.export: modules in this region are traced; not captured",
    "lambda_in_no_module": "torch.compile: taps in this region are traced; not captured (compile.taps: on captures them",
    "compile_part": "torch.fx: a graph of a compiler is run as a module; not captured",
    "jit_trace": "torch.jit.trace: modules are traced here, not run; not captured",
    "jit_script": "TorchScript: modules inside a script module run without hooks; not captured",
    "make_fx": "torch.export or make_fx: modules are traced here, not run; not captured",
    "fake": "FakeTensorMode: modules are traced here, not run; not captured",
}
NO_DATA = "no data (meta, fake or functional tensor, or freed storage)"
LAYOUT = "layout, meta only"
# Case -> the reasons with its records that have no values.
REASONS = {
    "vmap": {f"{NO_DATA} batched (vmap)"},
    "functional_grad": {f"{NO_DATA} functorch wrapper"},
    "meta": {f"{NO_DATA} meta"},
    "meta_parameter": {f"{NO_DATA} meta"},
    "fake": {f"{NO_DATA} FakeTensor"},
    "functional": {f"{NO_DATA} functional"},
    "privateuse1": {"another device, meta only testdevice:0"},
    "sparse": set(),
    "nested": set(),
    "quantised": set(),
    "mkldnn": {f"{LAYOUT} mkldnn"},
    "subclass": {"wrapper subclass, meta only Wrapper"},
    "freed_storage": {f"{NO_DATA} storage freed or too small"},
    "dtensor": set(),
}


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    cwd = tmp_path_factory.mktemp("unchanged")
    config = cwd / "all.yaml"
    config.write_text("steps: all\ncapture: [{role: [input, output, param], level: full}]\n")
    caches = {"TORCHINDUCTOR_CACHE_DIR": str(cwd / "cache")}
    bare = execute([sys.executable, JOB], cwd, ENV | caches)
    dumped = execute([TDUMP_RUN, "-c", config, "--", sys.executable, JOB], cwd, caches)
    return bare, dumped, latest(cwd)


def lines(text: str) -> dict[str, str]:
    return dict(line.split(" ", 1) for line in text.splitlines())


def test_every_case_computes_the_same(job):
    bare, dumped, _ = job
    assert bare.returncode == dumped.returncode == 0, dumped.stderr
    expected = lines(bare.stdout)
    assert len(expected) == 29
    for case, result in expected.items():  # graph breaks, graphs and counters of Dynamo are part of a result
        assert "Error" not in result, case
    assert lines(dumped.stdout) == expected


def test_no_warning_is_added_or_missing(job):
    bare, dumped, _ = job

    def warnings(text: str) -> list[str]:
        return [line.split("Warning:")[1].strip() for line in text.splitlines() if "Warning:" in line]

    assert warnings(dumped.stderr) == warnings(bare.stderr) != []


LIMITS = (
    "an argument list or result holds more than 65,536 values: the rest of it is not captured",
    "containers are nested more than 32 deep: what lies below is not captured",
)


def test_the_coverage_names_what_is_not_captured(job):
    _, _, run = job
    (directory,) = run.ranks()[0]
    manifest = (directory / "manifest.tdm").read_bytes()
    for case, note in NOTES.items():
        assert note.encode() in manifest, case
    for note in LIMITS:
        assert note.encode() in manifest


def test_a_tensor_without_plain_data_is_a_meta_record_with_the_reason(job):
    bare, _, run = job
    cases = list(lines(bare.stdout))
    passes = {}
    for file in run.passes(0):
        opened = tdump.load_pass(file)
        passes[cases[opened.info.local_step]] = opened  # each case begins a step
    for case, reasons in REASONS.items():
        found = set()
        for record in passes[case].records():
            if record.bytes is None and record.reason:
                assert record.kept == ("meta",) and record.dtype, (case, record)
                found.add(f"{record.reason} {record.reason_detail}")
        assert found == reasons, case


def test_a_meta_parameter_stands_beside_a_real_one(job):
    bare, _, run = job
    step = list(lines(bare.stdout)).index("meta_parameter")
    (seen,) = (opened for opened in map(tdump.load_pass, run.passes(0)) if opened.info.local_step == step)
    kept = {f"{record.path}.{record.arg}": record.kept for record in seen.records() if record.role == "param"}
    full = ("meta", "hash", "payload")
    assert kept == {"up.weight": ("meta",), "up.bias": ("meta",), "down.weight": full, "down.bias": full}


def test_beside_them_the_rest_is_captured(job):
    _, _, run = job
    names = set()
    for file in run.passes(0):
        names.update(record.key for record in tdump.load_pass(file).records() if record.bytes)
    # An eager layer beside a compiled one, a subclass that has its data, a parameter beside one without storage.
    for expected in (":1@output#", "Through", ":down@param#weight"):
        assert any(expected in name for name in names), expected
