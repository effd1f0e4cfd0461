"""Reading what a job left: load_pass and open, on whole and torn files, against a reader that shares no code with ours."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import tdump
import torch
from conftest import SOURCE, TDUMP_RUN, Run, latest, mpirun

sys.path.insert(0, str(SOURCE / "tests" / "format"))
import independent_reader

JOB = Path(__file__).parent / "jobs" / "several_sizes.py"
LARGE = 24 << 20  # bytes


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    cwd = tmp_path_factory.mktemp("load_pass")
    config = cwd / "all.yaml"
    config.write_text("capture: [{leaf: true, role: [input, output], level: full}]\n")
    done = mpirun(2, [TDUMP_RUN, "-c", str(config), "--", sys.executable, str(JOB)], cwd)
    assert done.returncode == 0, done.stderr
    return latest(cwd)


def test_a_pass_is_a_mapping_of_plain_names(run):
    step = tdump.load_pass(run.passes(1)[1])
    names = ["narrow.bf16", "narrow.f8", "narrow.row", "dense", "dense::call1", "large"]
    assert list(step) == names and len(step) == 6 and "dense::call1" in step and "dense::call2" not in step
    assert torch.equal(step["narrow.bf16"], torch.full((2, 4), 2.0).bfloat16())
    assert step["narrow.f8"].dtype == torch.float8_e4m3fn
    assert torch.equal(step["narrow.row"], torch.full((3, 4), 2.0)) and step["narrow.row"].stride(0) == 0
    # The shared module by its other name, and any record by its key.
    assert torch.equal(step["tied::call1"], step["dense::call1"])
    assert torch.equal(step["dense::call1@input#0"], step["dense"])
    with pytest.raises(KeyError, match="no record 'dens'; nearest: dense"):
        step["dens"]


def test_numpy_without_torch_s_types(run):
    step = tdump.load_pass(run.passes(0)[0], as_="numpy")
    assert step["dense"].dtype == np.float32 and step["dense"].shape == (2, 4)
    bf16 = step["narrow.bf16"]
    assert bf16.dtype == np.uint16 and bf16.dtype.metadata == {"tdump": "bfloat16"} and (bf16 == 0x3F80).all()


def test_open_finds_passes_by_step_and_rank(run):
    opened = tdump.open(run.path)
    assert (opened.steps, opened.ranks) == ([0, 1], [0, 1])
    assert torch.equal(opened[1, 0]["narrow.bf16"], torch.full((2, 4), 2.0).bfloat16())
    assert opened[1, 0].info.rank == 0 and opened[1, 0].info.local_step == 1
    assert sum(1 for _ in opened.records(step=0)) == 2 * len(list(opened[0, 0].records()))
    record = opened[0, 1].record("dense")
    assert (record.shape, record.role, record.cls) == ((2, 4), "output", "torch.nn.modules.linear.Linear")
    with pytest.raises(KeyError, match="has no step 7 of rank 0: steps 0-1, ranks 0-1"):
        opened[7, 0]


def test_a_file_that_was_copied_over_another_is_refused(run, tmp_path):
    copy = Run(Path(shutil.copytree(run.path, tmp_path / "copy")))
    first, second = copy.passes(1)
    shutil.copyfile(second, first)
    opened = tdump.open(copy.path)
    with pytest.raises(
        tdump.DamagedError, match=r"pass00000\.tdp: this is pass 1 of rank 1 .* belongs here: a file was"
    ):
        opened[0, 1]
    assert opened[1, 1].info.ordinal == 1
    shutil.copyfile(copy.passes(0)[0], first)  # the same ordinal, of another process
    with pytest.raises(tdump.DamagedError, match=r"this is pass 0 of rank 0 .* by the manifest pass 0 of rank 1 "):
        tdump.open(copy.path)[0, 1]


def resident() -> int:
    fields = Path("/proc/self/smaps_rollup").read_text().split()
    return 1024 * int(fields[fields.index("Anonymous:") + 1])


def test_payloads_are_read_when_they_are_asked_for_and_not_copied(run):
    file = run.passes(0)[0]
    assert file.stat().st_size > LARGE
    before = resident()
    step = tdump.load_pass(file)
    large = step["large"]
    assert large.nbytes == LARGE and large[-1] - large[0] == LARGE / 4 - 1
    assert resident() - before < LARGE / 4
    large[0] = -1  # a private view: neither the file nor another tensor changes
    assert step["large"][0] != -1


def test_the_independent_reader_sees_the_same(run):
    compared = 0
    for rank in (0, 1):
        for file in run.passes(rank):
            ours = tdump.load_pass(file, as_="numpy")
            theirs = independent_reader.PassFile(file.read_bytes())
            assert theirs.torn == ""
            stored = theirs.data[theirs.footer["index_offset"] : -64]
            assert theirs.rebuilt_index() == stored
            assert list(ours) == list(theirs.plain())
            for name, record in theirs.plain().items():
                assert ours.record(name).id == record["record"], name
            for record in ours.records():
                their = theirs.records[record.id]
                assert (list(record.shape), record.dtype) == (their["sizes"], their["dtype"])
                their_hash = their["hash"] and their["hash"]["hash"].hex()
                assert record.hash == their_hash
                if record.bytes is None:
                    continue
                array = ours.tensor(record)
                kept = array[tuple(slice(1) if s == 0 else slice(None) for s in record.strides)]
                assert kept.tobytes() == theirs.payload(their), record.key
                compared += 1
    assert compared == 4 * 10
    for file in run.path.glob("rank*/manifest.tdm"):
        assert independent_reader.File(file.read_bytes()).torn == ""
    slots = [independent_reader.SlotFile(file.read_bytes()) for file in run.path.glob("clock/*.slot")]
    assert sorted(slot.header["rank"] for slot in slots) == [0, 1]
    assert all(slot.pulse["state"] == 3 and slot.pulse["steps"] == 2 for slot in slots)


@pytest.fixture
def torn(run, tmp_path):
    """A copy of the run in which rank 1 was killed inside its second step."""
    copy = tmp_path / "run"
    shutil.copytree(run.path, copy)
    (file,) = copy.glob("rank1_*/pass00001.tdp")
    part = file.with_name("pass00001.tdp.part")
    with file.open("rb") as whole:
        part.write_bytes(whole.read(6000))
    file.unlink()
    return copy, part


def test_a_torn_pass_opens_and_says_so(torn):
    copy, part = torn
    with pytest.warns(UserWarning, match="unfinished pass, read as far as it goes: .*pass00001.tdp.part: offset"):
        step = tdump.load_pass(part)
    assert not step.complete and list(step)[:2] == ["narrow.bf16", "narrow.f8"] and "large" not in step
    assert torch.equal(step["narrow.bf16"], torch.full((2, 4), 2.0).bfloat16())
    opened = tdump.open(copy)
    entry = next(entry for entry in opened.passes if (entry.step, entry.rank) == (1, 1))
    assert entry.part
    with pytest.warns(UserWarning, match="unfinished"):
        assert "narrow.bf16" in opened[1, 1]


def test_damage_names_file_and_offset(run, tmp_path):
    data = bytearray(run.passes(0)[0].read_bytes())
    where = tdump.load_pass(run.passes(0)[0])
    offset = independent_reader.PassFile(bytes(data)).plain()["dense"]["payload"]["offset"]
    data[offset + 3] ^= 0x40
    file = tmp_path / "flipped.tdp"
    file.write_bytes(data)
    step = tdump.load_pass(file)
    with pytest.raises(tdump.DamagedError, match=f"flipped.tdp: offset {offset}: payload of record"):
        step["dense"]
    assert torch.equal(step["dense::call1"], where["dense::call1"])  # the others stand
    assert [d.offset for d in step.verify()] == [offset]
    assert not torch.equal(tdump.load_pass(file, verify=False)["dense"], where["dense"])
    with pytest.raises(tdump.DamagedError, match="not a tdump pass file"):
        tdump.load_pass(next(run.path.glob("rank0_*/manifest.tdm")))
    with pytest.raises(FileNotFoundError, match="nothing.tdp"):
        tdump.load_pass(tmp_path / "nothing.tdp")
