"""The independent reader on the golden files. Every expected value is written out here by hand."""

from __future__ import annotations

import math
import re
import statistics
import struct
import unittest
from pathlib import Path

import independent_reader as reader

GOLDEN = Path(__file__).parent / "golden"


def text_key(record: dict) -> str:
    op = record["operator"]
    return f"{op['root']}|{op['path']}|{op['op_name']}|{reader.ROLES[record['role']]}|{record['arg']}"


# record -> dtype, bits, elements per unit, shape, strides, little-endian payload
DENSE = {
    1: ("float32", 32, 1, [2, 3], [3, 1], struct.pack("<6f", 1, 2, 3, -4, 0.5, 6)),
    2: ("float64", 64, 1, [], [], bytes.fromhex("182d4454fb210940")),  # pi
    3: ("bfloat16", 16, 1, [2], [1], bytes.fromhex("803f 40c0")),
    4: ("float8_e4m3fn", 8, 1, [4], [1], bytes.fromhex("38 c0 7e 7f")),
    5: ("float4_e2m1fn_x2", 4, 2, [2], [1], bytes.fromhex("72 9f")),
    6: ("uint64", 64, 1, [3], [1], bytes.fromhex("00" * 8 + "00" * 7 + "80" + "ff" * 8)),
    7: ("bool", 8, 1, [2], [1], b"\1\0"),
    8: ("complex64", 64, 1, [2], [1], struct.pack("<4f", 1, -2, 0.25, 8)),
    9: ("posit24", 24, 1, [2], [1], bytes.fromhex("010203 040506")),
    10: ("int32", 32, 1, [1, 2, 2, 2], [8, 1, 4, 2], struct.pack("<8i", *range(8))),
    11: ("int32", 32, 1, [2, 3, 2], [2, 0, 1], struct.pack("<4i", 10, 11, 12, 13)),
    12: ("int32", 32, 1, [0, 5], [5, 1], b""),
    13: ("uint8", 8, 1, [32773], [1], bytes(i % 251 for i in range(32773))),
    14: ("float32", 32, 1, [6], [1], struct.pack("<6f", 1, 2, 3, -4, 0.5, 6)),
}
ARGS = ["f32", "f64", "bf16", "f8", "f4", "u64", "bool", "c64", "posit24", "channels_last", "expanded", "empty"]


class GoldenPass(unittest.TestCase):
    name = "pass.tdp"

    def setUp(self) -> None:
        self.file = reader.PassFile((GOLDEN / self.name).read_bytes())

    def test_heads(self) -> None:
        self.assertEqual(self.file.torn, "")
        header, info = self.file.header, self.file.frames[0].section(0x0101)
        self.assertEqual(header["job_hash"], 0x0123456789ABCDEF)
        self.assertEqual((header["ordinal"], header["rank"], header["generation"], header["pid"]), (3, 2, 1, 3069569))
        self.assertEqual(header["created_ns"], 1_700_000_000_123_456_789)
        self.assertEqual(
            list(info.values()),
            [3, 41, 12, 41241, 2, 1, 2, 4, 3069569, 1_700_000_000_122_456_789, "node042"],
        )
        end = self.file.frames[-2].section(0x0901)
        self.assertEqual(list(end.values()), [1_700_000_000_123_456_789, 16, 2, 32911, 2, 1234])

    def test_records(self) -> None:
        self.assertEqual(sorted(self.file.records), list(range(1, 17)))
        for number, (dtype, bits, per_unit, shape, strides, payload) in DENSE.items():
            record = self.file.records[number]
            self.assertEqual(
                (record["dtype"], record["bits_per_element"], record["elements_per_unit"]), (dtype, bits, per_unit)
            )
            self.assertEqual((record["sizes"], record["strides"], record["device"]), (shape, strides, "cpu"))
            self.assertEqual(self.file.payload(record), payload, dtype)
            if number <= 12:
                self.assertEqual(text_key(record), f"|encoder.layer.0.dense||output|{ARGS[number - 1]}")

    def test_flags_and_places(self) -> None:
        records = self.file.records
        self.assertEqual(records[8]["flags"], 8)  # conj
        expanded = records[11]
        self.assertEqual(expanded["flags"], 4 | 32)  # late, requires_grad
        self.assertEqual(
            (expanded["storage_offset"], expanded["storage_id"], expanded["storage_bytes"]), (5, 0x7F0000001000, 4096)
        )
        self.assertEqual(text_key(records[13]), '|a%b/c:d@e#f|tap "x"\n|input|kwargs.x')
        self.assertEqual(records[13]["operator"]["kind"], 4)
        self.assertEqual(len(records[13]["tiles"]["digests"]), 3 * 16)
        for number, record in records.items():
            if record["payload"] and not record["payload"]["same_as"]:
                self.assertEqual(record["payload"]["offset"] % 64, 0, number)

    def test_shared_payload(self) -> None:
        shared = self.file.records[14]
        self.assertEqual(shared["payload"]["same_as"], 1)
        self.assertIsNone(shared["tiles"])
        self.assertEqual(text_key(shared), "Critic#1|.||output|1.hidden")
        self.assertEqual(
            [shared[k] for k in ("call", "micro", "chunk", "lane", "phase", "flags", "filter_sets")],
            [2**53 + 1, 1, 2, 3, 1, 3, 5],
        )

    def test_parts_kept(self) -> None:
        hash_only, meta_only = self.file.records[15], self.file.records[16]
        self.assertEqual((hash_only["asked"], hash_only["kept"], hash_only["payload"]), (3, 3, None))
        # In its own file's byte order: float16 1 and -1.
        one = struct.pack(self.file.order + "HH", 0x3C00, 0xBC00)
        if self.file.order == "<":
            self.assertEqual(hash_only["hash"]["hash"], reader.hash128(reader.hash128(one)))
        self.assertEqual((meta_only["asked"], meta_only["kept"], meta_only["hash"]), (19, 1, None))
        self.assertEqual((meta_only["layout"], meta_only["reason"], meta_only["reason_detail"]), (10, 4, "DTensor"))
        self.assertEqual(
            list(meta_only["shard"].values()), ["b h[tp]", "Shard(1)", "tp=4", [2, 32], "batch, C", "DTensor"]
        )

    def test_calls(self) -> None:
        first, second = self.file.calls()
        self.assertEqual((first["begin"], first["end"], first["stream"], first["thread"]), (10, 19, -1, 3069570))
        self.assertEqual(
            first["arguments"],
            [
                {"role": 0, "arg": "0", "dtype": "float32", "sizes": [2, 3]},
                {"role": 1, "arg": "", "dtype": "float32", "sizes": [2, 3]},
            ],
        )
        self.assertEqual(second["operator"]["op_name"], "aten::addmm")
        keys = ("begin", "end", "parent", "index", "micro", "chunk", "lane", "stream", "phase", "flags", "text")
        self.assertEqual([second[k] for k in keys], [11, 0, 10, 1, 1, 2, 3, 7, 1, 7, "beta=1, alpha=0.5"])

    def test_operators(self) -> None:
        dense = self.file.operators[0]
        self.assertEqual((dense["leaf"], dense["class"]), (1, "torch.nn.modules.linear.Linear"))
        self.assertEqual(dense["aliases"], ["tied.dense", "found.later"])

    def test_index_is_rebuilt_byte_for_byte(self) -> None:
        footer = self.file.footer
        stored = self.file.data[footer["index_offset"] :][: footer["index_bytes"]]
        self.assertEqual(self.file.rebuilt_index(), stored)
        self.assertEqual(footer["index_offset"] + footer["index_bytes"] + 64, len(self.file.data))
        self.assertEqual((footer["records"], footer["calls"], footer["payload_bytes"]), (16, 2, 32911))

    def test_plain_view(self) -> None:
        view = self.file.plain()
        self.assertEqual(list(view), [f"encoder.layer.0.dense.{arg}" for arg in ARGS])


class GoldenBigEndian(GoldenPass):
    name = "pass_big_endian.tdp"

    def test_is_what_swapping_gives(self) -> None:
        self.assertEqual(self.file.order, ">")
        self.assertEqual(reader.swapped_file((GOLDEN / "pass.tdp").read_bytes()), self.file.data)


class Others(unittest.TestCase):
    def test_torn(self) -> None:
        whole = (GOLDEN / "pass.tdp").read_bytes()
        torn = (GOLDEN / "torn.tdp.part").read_bytes()
        self.assertTrue(whole.startswith(torn))
        file = reader.PassFile(torn)
        self.assertTrue(file.torn.startswith("offset "), file.torn)
        self.assertIsNone(file.footer)
        self.assertEqual({n: file.payload(r) for n, r in file.records.items()}, {n: DENSE[n][5] for n in (1, 2)})

    def test_calls_without_values_count_in_the_plain_view(self) -> None:
        file = reader.PassFile((GOLDEN / "pass.tdp").read_bytes())
        first = file.records[1]
        file.records = {
            1: first | {"payload": None, "call_begin": 1, "seen": 1},
            2: first | {"record": 2, "call_begin": 3, "seen": 3},
        }
        self.assertEqual(list(file.plain()), [f"encoder.layer.0.dense::call1.{ARGS[0]}"])

    def test_later_version(self) -> None:
        file = reader.PassFile((GOLDEN / "later.tdp").read_bytes())
        self.assertEqual((file.header["version_minor"], file.torn), (1, ""))
        self.assertEqual(text_key(file.records[1]), "|a||output|")

    def test_manifest(self) -> None:
        file = reader.File((GOLDEN / "manifest.tdm").read_bytes())
        self.assertEqual(file.torn, "")
        self.assertEqual([frame.kind for frame in file.frames], [32, 36, 35, 35, 34, 34, 33, 37, 39, 38])
        identity = file.frames[0].section(0x2001)
        self.assertEqual(
            list(identity.values()),
            [2, 4, 1, "MPI", "node042", 3069569, 987654321, "slurm:8123456.0", "8123456.0", "python train.py", 1, 0, 1]
            + [1_700_000_000_123_456_789, "optimizer (AdamW)", "tdump 0.1.0, torch 2.15.0"]
            + ["00112233445566778899aabbccddeeff", "dp=3 tp=1 pp=2", "config"],
        )
        self.assertEqual(list(file.frames[5].section(0x2201).values()), [41, 40, 5, 2])
        done = file.frames[6].section(0x2101)
        self.assertEqual(
            list(done.values()),
            [3, 41, 12, 41241, 2, "pass00003.tdp", 4096, 16, 2, 32911, 1234]
            + [[{"reason": 4, "count": 1}, {"reason": 5, "count": 1}], ""],
        )
        self.assertEqual(file.frames[8].section(0x2701), {"transport": "file", "max_lag": 2, "lost": [1, 3]})
        self.assertEqual(file.frames[9].section(0x2601)["how"], "exit")

    def test_merged_manifest(self) -> None:
        file = reader.File((GOLDEN / "merged.tdm").read_bytes())
        self.assertEqual((file.torn, file.header["rank"]), ("", -1))
        head, source, *copied, run = file.frames
        self.assertEqual(head.section(0x4001)["sources"], 1)
        self.assertEqual(source.section(0x4002)["directory"], "rank2_pid3069569")
        journal = reader.File((GOLDEN / "manifest.tdm").read_bytes())
        self.assertEqual([(f.kind, f.body) for f in copied], [(f.kind, f.body) for f in journal.frames])
        self.assertEqual([id_ for id_, _ in run.sections], [0x4010, 0x4011, 0x4012, 0x4013, 0x4014, 0x4015])
        self.assertEqual(run.section(0x4011)["ranks"][1]["processes"], [0])
        self.assertEqual(run.section(0x4012)["passes"][0]["flags"], 3)
        self.assertEqual(run.section(0x4014)["rules"][0]["near_names"], ["encoder.layer.0.dense"])
        self.assertEqual(run.section(0x4015)["holes"], ["rank 0 never started"])

    def test_slot(self) -> None:
        slot = reader.SlotFile((GOLDEN / "process.slot").read_bytes())
        self.assertEqual((slot.header["rank"], slot.header["world"], slot.header["generation"]), (2, 4, 1))
        self.assertEqual(slot.header["job_hash"], reader.hash64(b"slurm:8123456.0"))
        self.assertEqual(slot.header["host"].rstrip(b"\0"), b"node042")
        keys = ("messages", "steps", "settled", "time_ns", "state", "lockstep")
        self.assertEqual([slot.pulse[k] for k in keys], [2, 7, 5, 1_700_000_000_123_456_789, 3, 1])
        keys = ("kind", "mode", "flags", "rank", "local", "global", "shape", "began_ns")
        self.assertEqual(
            [[m[k] for k in keys] for m in slot.messages],
            [[1, 2, 0, 2, 6, 0, 0xABCD, 1_700_000_000_000_000_000], [2, 0, 1, 3, 2**53 + 1, 5, 0, 0]],
        )

    def test_packed(self) -> None:
        first, second = reader.passes_of_pack((GOLDEN / "packed.tdp").read_bytes())
        self.assertEqual((first.torn, second.torn), ("", ""))
        self.assertEqual((first.header["ordinal"], second.header["ordinal"]), (0, 1))
        weight = bytes(i % 199 for i in range(1500))
        self.assertEqual(first.payload(first.records[1]), weight)
        self.assertEqual(second.payload(second.records[2]), weight)
        self.assertEqual(list(second.of_kind(reader.PAYLOAD)), [])
        earlier = second.records[2]["earlier"]
        self.assertEqual((earlier["ordinal"], earlier["record"]), (0, 1))
        self.assertEqual(earlier["offset"], 4096 + first.records[1]["payload"]["offset"])
        manifest = reader.File((GOLDEN / "packed_manifest.tdm").read_bytes())
        places = [frame.section(0x2102) for frame in manifest.of_kind(33)]
        self.assertEqual(places, [{"ordinal": 0, "offset": 4096}, {"ordinal": 1, "offset": 8192}])
        (removed,) = manifest.of_kind(41)
        self.assertEqual(list(removed.section(0x2103).values()), [7, 9, 1 << 20, "pack00001.tdp"])

    def test_node(self) -> None:
        members = reader.members_of_node((GOLDEN / "node.tdn").read_bytes())
        self.assertEqual(sorted(members), ["rank2_pid7/pack00000.tdp", "rank3_pid8/pack00000.tdp"])
        self.assertEqual(members["rank2_pid7/pack00000.tdp"], bytes(i % 251 for i in range(70_000)))
        self.assertEqual(members["rank3_pid8/pack00000.tdp"], (GOLDEN / "packed.tdp").read_bytes())

    def test_parts(self) -> None:
        file = reader.PassFile((GOLDEN / "parts.tdp").read_bytes())
        self.assertEqual(file.torn, "")
        real, whole, none = (file.records[n]["statistics"] for n in (1, 2, 3))
        counts = ("kind", "count", "finite", "nan", "positive_inf", "negative_inf", "zeros", "negative_zeros")
        self.assertEqual([real[c] for c in counts], [0, 8, 6, 1, 1, 0, 2, 1])
        as_double = {
            k: struct.unpack("<d", struct.pack("<Q", real[k]))[0] for k in real if k not in ("histogram", "exact")
        }
        values = [1, -2, 4, 0, 0, 0.5]
        self.assertEqual((as_double["min"], as_double["max"]), (-2, 4))
        self.assertEqual(as_double["l1"], 7.5)
        self.assertEqual(as_double["mean_abs"], 1.25)
        self.assertAlmostEqual(as_double["mean"], statistics.fmean(values), places=15)
        self.assertAlmostEqual(as_double["std"], statistics.stdev(values), places=15)
        self.assertAlmostEqual(as_double["l2"], math.hypot(*values), places=15)
        self.assertEqual((real["first_bin"], real["histogram"]), (15, [2, 2]))  # 1 and 0.5; 2 and 4
        top = 2**63 - 1
        words = whole["exact"]
        exact = [int.from_bytes(struct.pack("<2Q", *words[i : i + 2]), "little", signed=True) for i in (0, 2, 4)]
        self.assertEqual((whole["kind"], exact), (2, [-5, top, 2 * top - 5]))
        self.assertEqual((none["count"], none["finite"], none["min"]), (0, 0, 0))
        self.assertEqual(file.records[4]["sample"]["units"], [0, 49, 99, 149, 199])
        part = file.records[5]["slice"]
        self.assertEqual((part["begins"], part["sizes"], part["steps"]), ([1, 0], [2, 3], [1, 2]))
        # int16 elements 6, 8, 10 and 12, 14, 16 of bytes 0, 1, 2, ...
        self.assertEqual(
            file.slice_payload(file.records[5]), bytes(b for i in (6, 8, 10, 12, 14, 16) for b in (2 * i, 2 * i + 1))
        )

    def test_compressed(self) -> None:
        file = reader.PassFile((GOLDEN / "compressed.tdp").read_bytes())
        floats, integers = file.records[1], file.records[2]
        self.assertEqual((floats["payload"]["codec"], integers["payload"]["codec"]), (2, 2))
        self.assertLess(floats["payload"]["stored_bytes"], 280_000)
        self.assertEqual(file.payload(floats), struct.pack("<70000f", *(i * i for i in range(70_000))))
        self.assertEqual(file.payload(integers), struct.pack("<1000i", *(i % 5 for i in range(1000))))

    def test_hash_of_known_bytes(self) -> None:
        # xxHash's published test vectors for the empty input.
        self.assertEqual(reader.hash128(b"").hex(), "99aa06d3014798d86001c324468d497f")
        self.assertEqual(reader.hash64(b""), 0x2D06800538D394C2)


class Page(unittest.TestCase):
    """The tables of docs/format.md are those that the independent reader reads by."""

    page = (Path(__file__).parents[2] / "docs" / "format.md").read_text(encoding="utf-8")

    def fields(self, block: str) -> tuple:
        return tuple(self.field(line) for line in block.strip().splitlines())

    def field(self, line: str) -> tuple:
        name, rest = line.split(None, 1)
        return name, self.type(rest)[0]

    def type(self, text: str) -> tuple:
        """The type at the beginning of a text, and what stands behind it."""
        if text.startswith("list of "):
            kind, rest = self.type(text[8:])
            return [kind], rest
        if text.startswith("{"):
            fields, rest = [], text[1:]
            while not rest.startswith("}"):
                name, rest = rest.lstrip(", ").split(" ", 1)
                kind, rest = self.type(rest)
                fields.append((name, kind))
            return tuple(fields), rest[1:]
        word = re.match(r"\w+", text)[0]
        simple = {
            "u8": "B",
            "u16": "H",
            "u32": "I",
            "u64": "Q",
            "i32": "i",
            "i64": "q",
            "text": "text",
            "bytes16": "bytes16",
        }
        kind = simple.get(word) or word.removeprefix("bytes") + "s"
        return kind, text[len(word) :]

    def test_sections(self) -> None:
        found = re.findall(r"^### (0x[0-9a-f]{4}) [^`]*?```\n(.*?)```", self.page, re.MULTILINE | re.DOTALL)
        self.assertEqual({int(id_, 16): self.fields(block) for id_, block in found}, reader.SECTIONS)

    def test_slots(self) -> None:
        part = self.page.split("## Clock slots")[1].split("\n## ")[0]
        blocks = re.findall(r"```\n(.*?)```", part, re.DOTALL)
        self.assertEqual([self.fields(b) for b in blocks], [reader.SLOT_HEADER, reader.SLOT_PULSE, reader.SLOT])

    def test_heads(self) -> None:
        for title, fields in (
            ("FileHeader", reader.FILE_HEADER),
            ("FileFooter", reader.FOOTER),
            ("FrameHeader", reader.FRAME_HEADER),
            ("SectionHeader", reader.SECTION_HEADER),
        ):
            table = re.search(rf"^{title}, [^|]*\n((?:\|.*\n)+)", self.page, re.MULTILINE)[1]
            rows = re.findall(r"^\| (\d+) \| (\w+) \| (\w+) \|", table, re.MULTILINE)
            at = 0
            for (offset, name, kind), field in zip(rows, fields, strict=True):
                self.assertEqual((int(offset), name, self.type(kind)[0]), (at, *field), title)
                at += struct.calcsize("<" + field[1])

    def test_worked_example(self) -> None:
        shown = re.findall(r"^([0-9a-f]{8})((?:  ?[0-9a-f]{2}){16})", self.page, re.MULTILINE)
        file = (GOLDEN / "later.tdp").read_bytes()
        self.assertGreater(len(shown), 15)
        for offset, row in shown:
            self.assertEqual(bytes.fromhex(row), file[int(offset, 16) :][:16], offset)


if __name__ == "__main__":
    unittest.main()
