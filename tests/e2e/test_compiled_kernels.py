"""Kernels of an AOTInductor package that was compiled once with the debug printer, and of JIT-compiled code."""

from __future__ import annotations

import json
import re
import signal
import sys
from pathlib import Path

import pytest
import tdump
import torch
from conftest import BUILD, SOURCE, TDUMP_RUN, Run, execute, latest, mpirun

sys.path.insert(0, str(SOURCE / "tests" / "e2e" / "jobs"))
import compiled_kernels as job

JOB = [sys.executable, "-W", "ignore", str(SOURCE / "tests" / "e2e" / "jobs" / "compiled_kernels.py")]
PATIENCE = 1200  # seconds, for a compiler
SEGV_EXITS = (-signal.SIGSEGV, 128 + signal.SIGSEGV)


def compiled(tmp_path_factory, mode, what="compile"):
    folder = tmp_path_factory.mktemp(f"package{mode}")
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")}
    words = [mode] if what == "compile" else []
    done = execute([*JOB, what, folder / "model.pt2", *words], folder, cache, PATIENCE)
    assert done.returncode == 0, done.stderr
    return str(folder / "model.pt2")


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    return compiled(tmp_path_factory, "1")


@pytest.fixture(scope="module")
def conv_package(tmp_path_factory):
    return compiled(tmp_path_factory, "1", "compile-conv")


def tdump_run(*words):
    return [TDUMP_RUN, "--set", "signature=false", *words, "--"]


def view(cwd, *words):
    done = execute([BUILD / "bin" / "tdump-view", *words], cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def outputs(text):
    """The lines of the job."""
    return re.findall(r"^\d [0-9a-f]+$", text, re.M)


def records(file):
    opened = tdump.load_pass(file)
    return {(r.op, r.role, r.arg, r.call): opened.tensor(r) for r in opened.records()}


def pt_files(folder):
    return list(folder.rglob("*.pt"))


def eager(step, rank):
    """What the first matrix product of the model gives, and its output."""
    net = job.model()
    x, index = job.inputs(step, rank)
    with torch.no_grad():
        return net.up(x), net(x, index)


def test_two_ranks_and_a_filter(package, tmp_path):
    bare, dumped = tmp_path / "bare", tmp_path / "dumped"
    bare.mkdir()
    dumped.mkdir()
    reference = mpirun(2, [*JOB, "run", package], bare)
    assert reference.returncode == 0, reference.stderr
    assert pt_files(bare)  # what the printer does by itself
    (dumped / "c.yaml").write_text(
        "steps: all\ncollect: {kernels: save}\ncapture:\n  - {kernel: '_addmm_out$', level: full}\n"
    )
    done = mpirun(2, [*tdump_run("-c", "c.yaml"), *JOB, "run", package], dumped)
    assert done.returncode == 0, done.stderr
    assert [outputs(p) for p in done.printed] == [outputs(p) for p in reference.printed]
    assert not pt_files(dumped)
    run = latest(dumped)
    assert {rank: len(found) for rank, found in run.ranks().items()} == {0: 1, 1: 1}
    for rank in (0, 1):
        passes = run.passes(rank)
        assert len(passes) == job.STEPS
        for step, file in enumerate(passes):
            kept = records(file)
            assert {op for op, *_ in kept} == {"aoti_torch_cpu_addmm_out"}
            hidden, _ = eager(step, rank)
            first = [v for (_, role, _, call), v in kept.items() if role == "after" and call == 0]
            assert any(torch.equal(v, hidden) for v in first if v.shape == hidden.shape)


def test_the_values_before_and_after_each_kernel(package, tmp_path):
    done = execute([*tdump_run("--set", "collect.kernels=save"), *JOB, "run", package], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "COMPLETE" in done.stderr and "INCOMPLETE" not in done.stderr
    told = json.loads(view(tmp_path, "latest", "--names", "--json"))["operators"]
    assert {operator["kind"] for operator in told} == {"kernel"}
    for step, file in enumerate(latest(tmp_path).passes(0)):
        kept = records(file)
        x, index = job.inputs(step, 0)
        hidden, output = eager(step, 0)
        before = {k: v for k, v in kept.items() if k[1] == "before"}
        after = {k: v for k, v in kept.items() if k[1] == "after"}
        # The buffer that a product writes has no `before`; what is read has one.
        products = [k for k in kept if k[0] == "aoti_torch_cpu_addmm_out" and k[3] == 0]
        assert [k[1] for k in products if torch.equal(kept[k], hidden)] == ["after"]
        assert [k[1] for k in products if torch.equal(kept[k], x)] == ["before", "after"]
        # The kernel behind it, in place: it is given what the product made, and leaves its relu.
        relu = [k[:1] + k[2:] for k, v in after.items() if torch.equal(v, hidden.relu())]
        assert any(torch.equal(before.get((op, "before", arg, call), x), hidden) for op, arg, call in relu)
        assert any(torch.equal(v, index) for v in before.values())
        assert any(v.shape == output.shape and torch.allclose(v, output, atol=1e-6) for v in after.values())
        calls = [c for c in tdump.load_pass(file).calls() if c.kind == "kernel"]
        assert {c.op for c in calls} == {k[0] for k in kept}
        assert not any(c.threw for c in calls)
        assert any("aten.addmm" in c.text for c in calls)


def test_without_being_asked_for_the_printer_does_what_it_always_does(package, tmp_path):
    done = execute([*tdump_run("--dump"), *JOB, "run", package], tmp_path)
    assert done.returncode == 0, done.stderr
    assert pt_files(tmp_path)
    assert not list(tmp_path.glob("outputs/*/rank*/pass*"))


def test_printed_lines(package, tmp_path):
    (tmp_path / "c.yaml").write_text(
        "steps: 1\ncollect: {kernels: print}\ncapture:\n  - {kernel: addmm, role: [after]}\n"
    )
    done = execute([*tdump_run("-c", "c.yaml"), *JOB, "run", package], tmp_path)
    assert done.returncode == 0, done.stderr
    lines = re.findall(r"^tdump: rank 0  step (\d)  (\S+)::call(\d)@(\w+)#\S+  (.*)$", done.stderr, re.M)
    assert lines
    assert {line[:2] for line in lines} == {("1", "aoti_torch_cpu_addmm_out")}
    assert {line[3] for line in lines} == {"after"}
    hidden, _ = eager(1, 0)
    told = [text for _, _, call, _, text in lines if call == "0" and text.startswith("[6, 8] float32 cpu  min ")]
    numbers = [float(n) for n in re.findall(r"(?:min|max|mean|std) (\S+)", told[0])]
    expected = [value.item() for value in (hidden.min(), hidden.max(), hidden.mean(), hidden.std())]
    assert numbers == pytest.approx(expected, rel=1e-5)
    first = [float(n) for n in told[0].split("| ")[1].removesuffix(" ...").split()]
    assert torch.equal(torch.tensor(first), hidden.flatten()[:8])
    assert not pt_files(tmp_path)
    (file,) = latest(tmp_path).passes(0)
    assert not list(tdump.load_pass(file).records())


def test_library_kernels_that_make_their_output(conv_package, tmp_path):
    save = ["--steps", "all", "--set", "collect.kernels=save"]
    for name in ("a", "b"):
        done = execute([*tdump_run("-o", name, *save), *JOB, "run-conv", conv_package], tmp_path)
        assert done.returncode == 0 and done.stdout == "True\n", done.stderr
    diff = execute([BUILD / "bin" / "tdump-diff", "a", "b"], tmp_path)
    assert diff.returncode == 0, diff.stdout + diff.stderr
    (file,) = Run(tmp_path / "a").passes(0)
    kept = records(file)
    net, x = job.conv_model(), job.conv_input()
    with torch.no_grad():
        first = net.first(x)
        values = [first, first.relu(), net.second(first.relu()), net.second(first.relu()).relu()]
    # What a convolution made is seen where the next kernel is given it. The first is overwritten there.
    roles = [{"before"}, {"before", "after"}, {"before", "after"}, {"after"}]
    for value, expected in zip(values, roles, strict=True):
        found = {k[1] for k, v in kept.items() if v.shape == value.shape and torch.allclose(v, value, atol=1e-5)}
        assert found == expected


def test_the_step_is_the_number_of_the_job(conv_package, tmp_path):
    done = execute(
        [*tdump_run("--steps", "all", "--set", "collect.kernels=print"), *JOB, "run-conv", conv_package], tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert set(re.findall(r"^tdump: rank 0  step (\S+)  ", done.stderr, re.M)) == {"100"}


def test_a_kernel_that_crashes_is_named(package, tmp_path):
    command = [*tdump_run("--steps", "none", "--set", "collect.kernels=names"), *JOB, "run", package]
    done = mpirun(2, [*command, "1"], tmp_path)
    assert done.returncode != 0
    assert not pt_files(tmp_path)
    told = json.loads(view(tmp_path, "latest", "--crash", "--json"))["processes"]
    crashed = [p for p in told if p["in"]]
    assert crashed
    for process in crashed:
        (inside,) = process["in"]
        assert inside["step"] == 1
        assert inside["name"].startswith("cpp_fused")
        assert inside["name"] != process["last_returned"]["name"]
        assert re.search(
            rf"^ +{process['rank']} .* {inside['name']} .*<- in this kernel$", view(tmp_path, "--crash"), re.M
        )


def test_breadcrumbs_heed_the_filter_and_go_when_all_is_well(package, tmp_path):
    names = ["--set", "collect.kernels=names", "--set", "capture=[{kernel: addmm}]"]
    done = execute([*tdump_run("--steps", "none", *names), *JOB, "run", package, "1"], tmp_path)
    assert done.returncode in SEGV_EXITS
    (process,) = json.loads(view(tmp_path, "latest", "--crash", "--json"))["processes"]
    assert process["in"] == []
    assert process["last_begun"]["name"] == process["last_returned"]["name"] == "aoti_torch_cpu_addmm_out"
    done = execute([*tdump_run("-o", "well", "--steps", "none", *names), *JOB, "run", package], tmp_path)
    assert done.returncode == 0, done.stderr
    assert not list((tmp_path / "well").rglob("*.crumbs"))


def test_a_package_of_the_printing_mode(tmp_path_factory, tmp_path):
    package = compiled(tmp_path_factory, "2")
    done = execute([*tdump_run("--set", "collect.kernels=save"), *JOB, "run", package], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "before_launch" not in done.stdout
    for step, file in enumerate(latest(tmp_path).passes(0)):
        assert any(torch.equal(v, eager(step, 0)[0]) for k, v in records(file).items() if k[1] == "after")


def test_an_exception_leaves_a_run(package, tmp_path):
    bare = execute([*JOB, "fail", package], tmp_path)
    assert bare.stdout.count("caught") == 1, bare.stderr
    done = execute([*tdump_run("-o", "run", "--set", "collect.kernels=save"), *JOB, "fail", package], tmp_path)
    assert done.returncode == 0, done.stderr
    assert [line for line in bare.stdout.splitlines() if "aoti_torch" not in line] == done.stdout.splitlines()
    # Each call is a step, the one that fails too.
    passes = Run(tmp_path / "run").passes(0)
    assert [any(True for _ in tdump.load_pass(file).records()) for file in passes] == [True, False, True]
    for step, file in ((0, passes[0]), (1, passes[2])):
        assert any(torch.equal(v, eager(step, 0)[0]) for k, v in records(file).items() if k[1] == "after")


def test_a_program_in_cxx(package, tmp_path):
    program = [BUILD / "tests" / "jobs" / "cxx_package", package, "6", "4"]
    libraries = {"LD_LIBRARY_PATH": str(Path(torch.__file__).parent / "lib")}  # of the model
    bare = execute(program, tmp_path, libraries)
    assert bare.returncode == 0, bare.stderr
    expected = re.findall(r"^\d [\d.e-]+$", bare.stdout, re.M)
    assert len(expected) == 2
    done = execute([*tdump_run("-o", "run", "--set", "collect.kernels=save"), *program], tmp_path, libraries)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == expected
    passes = Run(tmp_path / "run").passes(0)
    assert len(passes) == 2
    net = job.model()
    for step, file in enumerate(passes):
        hidden = net.up(torch.full((6, 4), 0.5) + step)
        assert any(torch.equal(v, hidden) for k, v in records(file).items() if k[1] == "after")


def test_jit_forward_and_backward(tmp_path):
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    bare = execute([*JOB, "jit"], tmp_path, cache, PATIENCE)
    assert bare.returncode == 0, bare.stderr
    strewn = len(pt_files(tmp_path))
    (tmp_path / "c.yaml").write_text("steps: all\ncollect: {modules: auto, kernels: save}\ncapture:\n  - {kernel: .}\n")
    done = execute([*tdump_run("-c", "c.yaml"), *JOB, "jit"], tmp_path, cache, PATIENCE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == bare.stdout.splitlines()[-1]
    assert len(pt_files(tmp_path)) == strewn
    passes = latest(tmp_path).passes(0)
    assert len(passes) == job.STEPS
    for step, file in enumerate(passes):
        calls = [c for c in tdump.load_pass(file).calls() if c.kind == "kernel"]
        assert {c.phase for c in calls} == {"forward", "backward"}
        if step == 0:
            assert any(torch.equal(v, eager(0, 0)[0]) for k, v in records(file).items() if k[1] == "after")
