"""The tools on files whose counts and sizes lie, with right checksums around them. Each tool ends with a message that
names file, offset and field, in little memory; none crashes."""

from __future__ import annotations

import os
import resource
import struct
import subprocess
import tempfile
import unittest
from collections.abc import Callable
from pathlib import Path

import independent_reader as reader

GOLDEN = Path(__file__).parent / "golden"
BIN = Path(os.environ.get("TDUMP_BUILD", Path(__file__).parents[2] / "build")) / "bin"
HUGE = (2**31, 2**40, 2**63, 2**64 - 1)
MEMORY = 64 << 20  # bytes a tool may have in memory


def forged(name: str, change: Callable[[int, int, bytes], bytes]) -> bytes:
    """A golden file whose archives went through ``change(frame kind, section id, archive)``; lengths stay."""
    data = (GOLDEN / name).read_bytes()
    file = reader.File(data)
    out = bytearray(data)
    for frame in file.frames:
        if frame.kind in (reader.PAD, reader.PAYLOAD):
            continue
        body, at = b"", 0
        while at < len(frame.body):
            header, at = reader.decode(reader.SECTION_HEADER, frame.body, at, "<")
            archive = change(frame.kind, header["id"], frame.body[at : at + header["bytes"]])
            at += header["bytes"] + (-header["bytes"] % 8)
            header.update(bytes=len(archive), checksum=reader.hash64(archive))
            body += reader.encode(reader.SECTION_HEADER, header, "<") + reader.padded(archive)
        whole = reader.encode_frame(frame.kind, body, "<")
        out[frame.offset : frame.offset + len(whole)] = whole
    return bytes(out)


def record_with(number: int, **fields: object) -> Callable[[int, int, bytes], bytes]:
    """Gives record ``number`` of pass.tdp other values. The record section comes before its companions."""
    current = [0]

    def change(kind: int, section: int, archive: bytes) -> bytes:
        if kind != reader.RECORD or section not in (0x0501, 0x0502):
            return archive
        values = reader.decode(reader.SECTIONS[section], archive, 0, "<")[0]
        if section == 0x0501:
            current[0] = values["record"]
        if current[0] == number:
            values.update({k: v for k, v in fields.items() if k in values})
        return reader.encode(reader.SECTIONS[section], values, "<")

    return change


def patched(section: int, offset: int, value: int) -> Callable[[int, int, bytes], bytes]:
    """The first section of that id says ``value`` in eight bytes at ``offset`` of its archive."""
    done = []

    def change(_: int, id_: int, archive: bytes) -> bytes:
        if id_ != section or done:
            return archive
        done.append(True)
        return archive[:offset] + struct.pack("<Q", value) + archive[offset + 8 :]

    return change


class ForgedFiles(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.run_ = Path(folder.name) / "run"
        self.process = self.run_ / "rank2_pid3069569"
        self.process.mkdir(parents=True)

    def tool(self, *command: object) -> subprocess.CompletedProcess:
        def limit() -> None:
            resource.setrlimit(resource.RLIMIT_CPU, (20, 20))

        done = subprocess.run(
            [str(BIN / str(command[0])), *map(str, command[1:])],
            cwd=self.run_.parent,
            capture_output=True,
            text=True,
            errors="replace",
            preexec_fn=limit,
        )
        self.assertIn(done.returncode, (0, 1, 2), f"{command}: {done.stderr}")
        return done

    def all_tools(self) -> str:
        """What they say of the run, together. Reading every byte must find the damage."""
        said = ""
        for command in (
            ("tdump-view", self.run_),
            ("tdump-view", self.run_, "--records", "--all", "--rank", "all"),
            ("tdump-view", self.run_, "--verify"),
            ("tdump-merge", self.run_),
            ("tdump-diff", self.run_, self.run_),
        ):
            done = self.tool(*command)
            said += done.stdout + done.stderr
            if command[-1] == "--verify":
                self.assertNotEqual(done.returncode, 0, said)
        peak = 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        self.assertLess(peak, MEMORY)
        return said

    def check(self, change: Callable[[int, int, bytes], bytes], expected: str) -> None:
        file = self.process / "pass00003.tdp"
        file.write_bytes(forged("pass.tdp", change))
        said = self.all_tools()
        self.assertRegex(said, r"pass00003\.tdp(, byte|: offset) \d+: ")
        self.assertIn(expected, said)
        (self.run_ / "manifest.tdm").unlink(missing_ok=True)

    def test_the_tools_read_the_true_file(self) -> None:
        (self.process / "pass00003.tdp").write_bytes(forged("pass.tdp", lambda kind, id_, archive: archive))
        self.assertEqual(self.tool("tdump-view", self.run_, "--verify").returncode, 0)

    def test_length_of_a_name(self) -> None:
        for huge in HUGE:
            self.check(patched(0x0201, 4, huge), f"count {huge}")

    def test_count_of_dimensions(self) -> None:
        offset = struct.calcsize("<QIQQIIIBBBBIIHHI")  # of `sizes` in a record
        for huge in HUGE:
            self.check(patched(0x0501, offset, huge), f"count {huge}")

    def test_count_of_index_entries(self) -> None:
        for huge in HUGE:
            self.check(patched(0x0801, 0, huge), f"count {huge}")

    def test_sizes(self) -> None:
        for sizes, expected in (
            ([2**40, 1, 1, 1], "logical_bytes"),
            ([2**31, 2**31, 2, 2], "product overflows"),
            ([2, -1, 2, 2], "negative"),
        ):
            self.check(record_with(10, sizes=sizes), expected)

    def test_payload_size(self) -> None:
        for huge in HUGE:
            self.check(record_with(10, stored_bytes=huge, logical_bytes=huge), "logical_bytes")

    def test_payload_shared_with_itself(self) -> None:
        self.check(record_with(10, same_as=10), "same_as")

    def test_counts_in_a_manifest(self) -> None:
        for section, offset in ((0x2001, 12), (0x2101, 33), (0x2701, 16)):
            for huge in HUGE:
                (self.process / "manifest.tdm").write_bytes(forged("manifest.tdm", patched(section, offset, huge)))
                (self.process / "pass00003.tdp").write_bytes((GOLDEN / "pass.tdp").read_bytes())
                for command in (("tdump-view", self.run_), ("tdump-merge", self.run_)):
                    done = self.tool(*command)
                    self.assertRegex(done.stdout + done.stderr, r"manifest\.tdm, byte \d+: section")
                    self.assertIn(f"count {huge}", done.stdout + done.stderr)
                (self.run_ / "manifest.tdm").unlink(missing_ok=True)
        self.assertLess(1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, MEMORY)

    def test_a_world_of_two_billion_ranks(self) -> None:
        def change(_: int, id_: int, archive: bytes) -> bytes:
            return archive[:4] + struct.pack("<i", 2**31 - 1) + archive[8:] if id_ == 0x2001 else archive

        (self.process / "manifest.tdm").write_bytes(forged("manifest.tdm", change))
        (self.process / "pass00003.tdp").write_bytes((GOLDEN / "pass.tdp").read_bytes())
        self.assertIn("world: 2147483647", self.all_tools_of_a_manifest())

    def all_tools_of_a_manifest(self) -> str:
        said = ""
        for command in (("tdump-view", self.run_), ("tdump-merge", self.run_), ("tdump-diff", self.run_, self.run_)):
            done = self.tool(*command)
            said += done.stdout + done.stderr
        self.assertLess(1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, MEMORY)
        return said


if __name__ == "__main__":
    unittest.main()
