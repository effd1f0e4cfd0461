"""What optimizers keep where it is not as torch's own have it: of master copies, nested, of all parameters together."""

from __future__ import annotations

import sys

import torch
from conftest import BUILD, TDUMP_RUN, Run, execute

CONFIG = "steps: all\ncapture: [{role: [state], level: full}]\n"

# Each keeps what it has after its steps in kept.pt: (operator, argument) -> value, a step each.
MASTER = """
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2)).bfloat16()
copies = [p.detach().float().requires_grad_() for p in model.parameters()]
optimizers = [torch.optim.Adam([{"params": copies[:1]}, {"params": copies[1:3]}]), torch.optim.Adam(copies[3:])]
kept = []
for step in range(2):
    model(torch.randn(2, 4).bfloat16()).sum().backward()
    for parameter, copy in zip(model.parameters(), copies):
        copy.grad, parameter.grad = parameter.grad.float(), None
    for optimizer in optimizers:
        optimizer.step()
    kept.append({
        (name, f"{g}.{i}.{key}"): value.clone()
        for name, optimizer in zip(("Adam", "Adam#1"), optimizers)
        for g, group in enumerate(optimizer.param_groups)
        for i, parameter in enumerate(group["params"])
        for key, value in optimizer.state[parameter].items()
    })
torch.save(kept, "kept.pt")
"""

NESTED = """
import torch

class Second(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {})

    @torch.no_grad()
    def step(self):
        for parameter in self.param_groups[0]["params"]:
            g, state = parameter.grad, self.state[parameter]
            state.update({"m": g * 2, "pre": {"L": g * 3, "R": {"x": g * 4}}, 0: g * 5, "of": (g * 6, {"k": g * 7})})
            state["itself"] = [state, g * 8]
        self.state["all"] = {"norm": g.norm()}

torch.manual_seed(0)
model = torch.nn.Linear(4, 3, bias=False)
optimizer = Second(model.parameters())
kept = []
for step in range(2):
    model(torch.randn(2, 4)).sum().backward()
    optimizer.step()
    g = model.weight.grad.clone()
    kept.append({(".", f"weight.{name}"): g * n for name, n in
                 {"m": 2, "pre.L": 3, "pre.R.x": 4, "0": 5, "of.0": 6, "of.1.k": 7, "itself.1": 8}.items()})
    kept[-1]["Second", "all.norm"] = g.norm()
    optimizer.zero_grad()
torch.save(kept, "kept.pt")
"""

DEEP = """
import torch

model = torch.nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
wide = [torch.ones(1)]
for _ in range(30):
    wide = [wide, wide]  # a thousand million leaves
optimizer.state[model.weight]["wide"] = wide
model(torch.ones(2, 4)).sum().backward()
optimizer.step()
"""


def capture(job: str, where):
    (where / "job.py").write_text(job)
    (where / "c.yaml").write_text(CONFIG)
    command = [TDUMP_RUN, "-c", "c.yaml", "-o", "run", "--", sys.executable, "job.py"]
    return execute(command, where, {"PYTHONPATH": str(BUILD / "python")})


def check(job: str, where) -> None:
    import tdump

    done = capture(job, where)
    assert done.returncode == 0, done.stderr
    assert "operators: no calls selected, parameters and state only" in done.stderr
    kept = torch.load(where / "kept.pt")
    passes = [tdump.load_pass(path) for path in Run(where / "run").passes(0)]
    for seen, expected in zip(passes, kept, strict=True):
        records = {(r.path, r.arg): seen.tensor(r) for r in seen.records() if r.role == "state"}
        assert records.keys() == expected.keys()
        for key, value in expected.items():
            assert torch.equal(records[key], value), key


def test_of_parameters_that_no_module_has(tmp_path):
    check(MASTER, tmp_path)


def test_in_containers_of_any_kind(tmp_path):
    check(NESTED, tmp_path)


def test_an_optimizer_made_anew_is_another(tmp_path):
    fresh = """
import torch
model, kept = torch.nn.Linear(4, 3), []
for step in range(4):
    copies = [p.detach().clone().requires_grad_() for p in model.parameters()]
    optimizer = torch.optim.SGD(copies, lr=0.1, momentum=0.9)
    kept += [bytearray(500) for _ in range(step % 2)]  # so that memory is used again, or not
    model(torch.randn(2, 4)).sum().backward()
    for parameter, copy in zip(model.parameters(), copies):
        copy.grad, parameter.grad = parameter.grad, None
    optimizer.step()
    del optimizer, copies, copy
"""
    import tdump

    done = capture(fresh, tmp_path)
    assert done.returncode == 0, done.stderr
    passes = [tdump.load_pass(path) for path in Run(tmp_path / "run").passes(0)]
    names = [{r.path for r in p.records() if r.role == "state"} for p in passes]
    assert names == [{"SGD"}, {"SGD#1"}, {"SGD#2"}, {"SGD#3"}]


def test_what_is_too_much_is_told(tmp_path):
    done = capture(DEEP, tmp_path)
    assert done.returncode == 0, done.stderr
    text = execute([BUILD / "bin" / "tdump-view", "run", "--coverage"], tmp_path).stdout
    assert "what an optimizer keeps of a parameter was left out in part: more than 100,000 lists" in " ".join(
        text.split()
    )
