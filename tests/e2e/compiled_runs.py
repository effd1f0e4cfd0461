"""Jobs in eager mode and compiled, with tdump and without: what they said and what was captured."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import tdump
import torch
from conftest import BUILD, SOURCE, TDUMP_RUN, execute, latest

JOBS = SOURCE / "tests" / "e2e" / "jobs"
EVERY = "role: [input, output, grad_input, grad_output], phase: [forward, backward], level: full"
PATIENCE = 1200  # seconds
FREE = {"PYTHONPATH": str(BUILD / "python")}  # `import tdump` works, and does nothing


def told(done):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def captured(folder):
    """Records and values by (step, key)."""
    found = {}
    for file in latest(folder).passes(0):
        opened = tdump.load_pass(file)
        for record in opened.records():
            found[opened.info.local_step, record.key] = (record, opened.tensor(record))
    return found


class Runs:
    """A job in eager mode and compiled, or a program, each once."""

    def __init__(self, job, folder, config=f"capture: [{{{EVERY}}}]", taps="on"):
        self.job, self.folder, self.config, self.done = (
            JOBS / job,
            folder,
            f"steps: all\nsignature: false\n{config}\ncompile: {{taps: {taps}}}\n",
            {},
        )

    def where(self, *words):
        return self.folder / "_".join(Path(word).name for word in (self.job.stem, *words))

    def __call__(self, *words, bare=True):
        """What the job said without tdump (None if not `bare`) and with it, what was captured, and what tdump said."""
        if words not in self.done:
            cwd = self.where(*words)
            cwd.mkdir()
            (cwd / "c.yaml").write_text(self.config)
            python = [sys.executable, "-W", "ignore"] if self.job.suffix == ".py" else []
            command = [*python, str(self.job), *words]
            caches = {"TORCHINDUCTOR_CACHE_DIR": str(cwd / "cache")}
            if not python:  # what a package of AOTInductor needs
                caches["LD_LIBRARY_PATH"] = str(Path(torch.__file__).parent / "lib")
            alone = told(execute(command, cwd, FREE | caches, PATIENCE)) if bare else None
            dumped = execute([TDUMP_RUN, "-c", "c.yaml", "--", *command], cwd, caches, PATIENCE)
            self.done[words] = (alone, told(dumped), captured(cwd), dumped.stderr)
        return self.done[words]
