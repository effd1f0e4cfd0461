"""What compiled code hands to the debug printer, called as that code calls it: floats that torch cannot compute with (B04),
numbers of no dimension, and tensors that are not there (E13)."""

from __future__ import annotations

import re
import sys

import tdump
import torch
from conftest import BUILD, TDUMP_RUN, execute, latest

JOB = """
import ctypes, tdump, torch
here = ctypes.CDLL(None)
get = ctypes.pythonapi.PyCapsule_GetPointer
get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
def handle(tensor):
    made = torch._C._aoti.unsafe_alloc_void_ptr_from_tensor(tensor)
    return made if isinstance(made, int) else get(made, None)
def save(tensor, arg, stage, kernel):
    here.aoti_torch_save_tensor_handle(ctypes.c_void_p(tensor), arg, stage, kernel)
def tell(tensor, arg, stage, kernel):
    here.aoti_torch_print_tensor_handle(ctypes.c_void_p(tensor), stage + b" - " + kernel + b" - " + arg)
values = {
    b"arg0_1": torch.tensor([0x38, 0xC0, 0x7E, 0x7F], dtype=torch.uint8).view(torch.float8_e4m3fn),
    b"arg1_1": torch.tensor([0x80, 0x00, 0x01], dtype=torch.uint8).view(torch.float8_e4m3fnuz),
    b"arg2_1": torch.tensor(7),
    b"arg3_1": torch.tensor(2.5, dtype=torch.float64),
    b"arg4_1": torch.empty(0, 3),
    b"arg5_1": torch.tensor([True, False]),
}
tdump.step()
for call, kernel in ((save, b"cpp_saved"), (tell, b"cpp_told")):
    for stage in (b"before_launch", b"after_launch"):
        call(None, b"arg9_1", stage, kernel)  # null
        for arg, tensor in values.items():
            call(handle(tensor), arg, stage, kernel)
tdump.step()
print("done", flush=True)
"""


def run(cwd, mode):
    (cwd / "job.py").write_text(JOB)
    (cwd / "c.yaml").write_text(
        "steps: {select: [0], boundary: explicit}\nsignature: false\n"
        f"collect: {{kernels: {mode}}}\ncapture: [{{kernel: '^cpp_', level: [full, stats]}}]\n"
    )
    command = [TDUMP_RUN, "-c", "c.yaml", "--", sys.executable, "job.py"]
    done = execute(command, cwd, {"PYTHONPATH": str(BUILD / "python")})
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    return done, tdump.load_pass(latest(cwd).passes(0)[0])


def test_each_argument_is_recorded_before_and_after_each_launch(tmp_path):
    _, p = run(tmp_path, "save")
    records = {(r.op, r.role, r.arg): r for r in p.records()}
    args = [f"arg{n}_1" for n in range(6)]
    assert set(records) == {
        (op, role, a) for op in ("cpp_saved", "cpp_told") for role in ("before", "after") for a in args
    }
    for op in ("cpp_saved", "cpp_told"):
        for role in ("before", "after"):
            of = {arg: records[op, role, arg] for arg in args}
            small = of["arg0_1"].stats
            assert of["arg0_1"].dtype == "float8_e4m3fn"
            assert (small["min"], small["max"], small["nan"], small["mean"]) == (-2, 448, 1, 149)
            fnuz = of["arg1_1"].stats
            assert (fnuz["nan"], fnuz["positive_inf"], fnuz["negative_inf"]) == (1, 0, 0)
            assert (fnuz["zeros"], fnuz["negative_zeros"]) == (1, 0)
            assert (p.tensor(of["arg2_1"]).item(), of["arg2_1"].shape, of["arg2_1"].dtype) == (7, (), "int64")
            assert (p.tensor(of["arg3_1"]).item(), of["arg3_1"].dtype) == (2.5, "float64")
            assert p.tensor(of["arg4_1"]).shape == (0, 3)
            assert torch.equal(p.tensor(of["arg5_1"]), torch.tensor([True, False]))
    assert not list(tmp_path.rglob("*.pt"))


def test_each_is_a_line_with_its_statistics(tmp_path):
    done, _ = run(tmp_path, "print")
    lines = dict(re.findall(r"^tdump: rank 0  step 0  cpp_saved::call\d+@after#(\S+)  (.*)$", done.stderr, re.M))
    assert set(lines) == {f"arg{n}_1" for n in range(6)}, done.stderr
    assert lines["arg0_1"].startswith("[4] float8_e4m3fn cpu  min -2  max 448  mean 149 "), lines["arg0_1"]
    assert lines["arg0_1"].endswith("  1 NaN  | 1 -2 448 nan")
    assert lines["arg2_1"].startswith("[] int64 cpu  min 7  max 7  mean 7")
    assert lines["arg3_1"].endswith("| 2.5")


def test_to_leave_names_reads_none(tmp_path):
    _, p = run(tmp_path, "names")
    assert list(p.records()) == []
