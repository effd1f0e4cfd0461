"""A reader of tdump's files made from docs/format.md alone: it shares no code with tdump, so that each checks the other.

Plain Python; xxHash comes from the system's libxxhash. Small files only: everything is held in memory.

    python independent_reader.py FILE               what the file holds, as JSON lines
    python independent_reader.py --swap IN OUT      IN as a machine of the other byte order would have written it
"""

from __future__ import annotations

import ctypes
import ctypes.util
import itertools
import json
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NODE_MAGIC, EXTENT_MAGIC = b"\0TDPNOD1", int.from_bytes(b"\0TDPEXT1", "little")
PASS_MAGIC, MANIFEST_MAGIC, PACK_MAGIC, FOOTER_MAGIC = b"\0TDPASS1", b"\0TDPMAN1", b"\0TDPPCK1", b"\0TDPEND1"
PACK_ALIGN = 4096
PAD, PASS, NAME, OPERATOR, CALL, RECORD, PAYLOAD, ALIAS, INDEX, PASS_END = range(10)
TILE = 16 * 1024

# ---- fields: name and type. A type is an integer format of struct, "text", "bytes16", [list of], or a struct (tuple). ----
U8, U16, U32, U64, I32, I64 = "B", "H", "I", "Q", "i", "q"
TEXT = "text"
ARGUMENT = (("role", U8), ("arg", U32), ("dtype", U32), ("sizes", [I64]))
RULE = (("filter_set", U32), ("rule", U32), ("text", TEXT), ("selector", TEXT), ("matched", U64))
SECTIONS: dict[int, tuple[tuple[str, Any], ...]] = {
    0x0101: (
        ("ordinal", U64),
        ("local_step", U64),
        ("mode_step", U64),
        ("job_step", I64),
        ("mode", U8),
        ("generation", U32),
        ("rank", I32),
        ("world", I32),
        ("pid", I64),
        ("started_ns", U64),
        ("host", TEXT),
    ),
    0x0201: (("name", U32), ("text", TEXT)),
    0x0301: (
        ("op", U32),
        ("kind", U8),
        ("leaf", U8),
        ("root", U32),
        ("path", U32),
        ("op_name", U32),
        ("class", U32),
        ("aliases", [U32]),
    ),
    0x0401: (
        ("op", U32),
        ("begin", U64),
        ("end", U64),
        ("parent", U64),
        ("index", U64),
        ("micro", U32),
        ("chunk", U32),
        ("lane", U32),
        ("thread", U64),
        ("stream", I32),
        ("phase", U8),
        ("flags", U8),
        ("text", TEXT),
        ("arguments", [ARGUMENT]),
    ),
    0x0501: (
        ("record", U64),
        ("op", U32),
        ("call_begin", U64),
        ("call", U64),
        ("micro", U32),
        ("chunk", U32),
        ("lane", U32),
        ("phase", U8),
        ("role", U8),
        ("flags", U8),
        ("layout", U8),
        ("arg", U32),
        ("dtype", U32),
        ("bits_per_element", U16),
        ("elements_per_unit", U16),
        ("device", U32),
        ("sizes", [I64]),
        ("strides", [I64]),
        ("storage_offset", I64),
        ("storage_id", U64),
        ("storage_bytes", U64),
        ("seen", U64),
        ("asked", U32),
        ("kept", U32),
        ("filter_sets", U64),
        ("reason", U8),
        ("reason_detail", TEXT),
    ),
    0x0502: (("offset", U64), ("stored_bytes", U64), ("logical_bytes", U64), ("codec", U8), ("same_as", U64)),
    0x0503: (("hash", "bytes16"),),
    0x0504: (("digests", [U8]),),
    0x0505: (
        ("dims", TEXT),
        ("placements", TEXT),
        ("mesh", TEXT),
        ("global_shape", [I64]),
        ("dim_names", TEXT),
        ("subclass", TEXT),
    ),
    0x0506: (
        ("kind", U8),
        ("count", U64),
        ("finite", U64),
        ("nan", U64),
        ("positive_inf", U64),
        ("negative_inf", U64),
        ("zeros", U64),
        ("negative_zeros", U64),
        ("min", U64),
        ("max", U64),
        ("mean", U64),
        ("std", U64),
        ("mean_abs", U64),
        ("l1", U64),
        ("l2", U64),
        ("first_bin", U8),
        ("histogram", [U64]),
        ("exact", [U64]),
    ),
    0x0507: (("units", [U8]),),
    0x0508: (
        ("begins", [I64]),
        ("sizes", [I64]),
        ("steps", [I64]),
        ("offset", U64),
        ("stored_bytes", U64),
        ("logical_bytes", U64),
        ("codec", U8),
        ("hash", "bytes16"),
        ("digests", [U8]),
    ),
    0x0520: (("ordinal", U64), ("record", U64), ("offset", U64)),
    0x0701: (("op", U32), ("path", U32)),
    0x0801: (
        ("records", [(("record", U64), ("offset", U64))]),
        ("calls", [U64]),
        ("operators", [U64]),
        ("names", [U64]),
        ("aliases", [U64]),
    ),
    0x0901: (
        ("ended_ns", U64),
        ("records", U64),
        ("calls", U64),
        ("payload_bytes", U64),
        ("not_kept", U64),
        ("blocked_ns", U64),
    ),
    0x2001: (
        ("rank", I32),
        ("world", I32),
        ("local_rank", I32),
        ("source", TEXT),
        ("host", TEXT),
        ("pid", I64),
        ("start_time", U64),
        ("job_key", TEXT),
        ("job_label", TEXT),
        ("program", TEXT),
        ("generation", U32),
        ("process", U32),
        ("selected", U8),
        ("started_ns", U64),
        ("boundary", TEXT),
        ("versions", TEXT),
        ("config_hash", TEXT),
        ("coordinates", TEXT),
        ("coordinates_source", TEXT),
    ),
    0x2101: (
        ("ordinal", U64),
        ("local_step", U64),
        ("mode_step", U64),
        ("job_step", I64),
        ("mode", U8),
        ("file", TEXT),
        ("file_bytes", U64),
        ("records", U64),
        ("calls", U64),
        ("payload_bytes", U64),
        ("blocked_ns", U64),
        ("not_kept", [(("reason", U8), ("count", U64))]),
        ("error", TEXT),
    ),
    0x2102: (("ordinal", U64), ("offset", U64)),
    0x2103: (("first", U64), ("last", U64), ("bytes", U64), ("file", TEXT)),
    0x2201: (("local_step", U64), ("global_step", U64), ("flags", U8), ("lag", U32)),
    0x2301: (("kind", U8), ("root", TEXT), ("path", TEXT), ("op", TEXT), ("class", TEXT)),
    0x2302: (("root", TEXT), ("path", TEXT), ("op", TEXT), ("calls", U64), ("records", U64), ("not_kept", U64)),
    0x2303: (("ordinal", U64), ("as", U64)),
    0x2401: RULE,
    0x2501: (("level", U8), ("time_ns", U64), ("text", TEXT)),
    0x2601: (("time_ns", U64), ("steps_seen", U64), ("passes", U64), ("how", TEXT)),
    0x2701: (("transport", TEXT), ("max_lag", U32), ("lost", [I32])),
    0x4001: (("created_ns", U64), ("sources", U64), ("writer", TEXT)),
    0x4002: (("directory", TEXT), ("manifest_bytes", U64), ("manifest_mtime_ns", I64), ("directory_mtime_ns", I64)),
    0x4010: (
        ("generation", U32),
        ("job_key", TEXT),
        ("job_label", TEXT),
        ("world", I32),
        ("boundary", TEXT),
        ("transport", TEXT),
        ("rank_source", TEXT),
        ("max_lag", U32),
        ("steps_seen", U64),
        ("bytes", U64),
        ("files", U64),
    ),
    0x4011: (("ranks", [(("rank", I32), ("processes", [U64]), ("flags", U8), ("last_step", U64), ("how", TEXT))]),),
    0x4012: (
        (
            "passes",
            [(("process", U64), ("pass", U64), ("local_step", U64), ("global_step", U64), ("flags", U8))],
        ),
    ),
    0x4013: (
        (
            "operators",
            [
                (
                    ("name", TEXT),
                    ("class", TEXT),
                    ("kind", U8),
                    ("ranks_expected", U64),
                    ("ranks_called", U64),
                    ("calls", U64),
                    ("records", U64),
                    ("not_kept", U64),
                )
            ],
        ),
    ),
    0x4014: (("rules", [(("rule", RULE), ("near_names", [TEXT]))]),),
    0x4015: (
        ("not_kept", [(("why", TEXT), ("records", U64))]),
        ("notes", [TEXT]),
        ("damage", [(("file", TEXT), ("offset", U64), ("what", TEXT))]),
        ("holes", [TEXT]),
    ),
    0x4016: (("operators", [(("place", U64), ("records", U64))]),),
}
FILE_HEADER = (
    ("magic", U64),
    ("byte_order", U32),
    ("version_major", U16),
    ("version_minor", U16),
    ("ordinal", U64),
    ("rank", I32),
    ("generation", U32),
    ("pid", I64),
    ("job_hash", U64),
    ("created_ns", U64),
    ("checksum", U64),
)
FRAME_HEADER = (
    ("magic", U32),
    ("kind", U16),
    ("flags", U16),
    ("body_bytes", U64),
    ("body_checksum", U64),
    ("checksum", U64),
)
SECTION_HEADER = (("id", U32), ("reserved", U32), ("bytes", U64), ("checksum", U64))
FOOTER = (
    ("magic", U64),
    ("index_offset", U64),
    ("index_bytes", U64),
    ("records", U64),
    ("calls", U64),
    ("payload_bytes", U64),
    ("reserved", U64),
    ("checksum", U64),
)
# Clock slots; "8s" and the like are bytes.
SLOT_HEADER = (
    ("magic", "8s"),
    ("slots", U32),
    ("rank", I32),
    ("world", I32),
    ("generation", U32),
    ("pid", I64),
    ("start_time", U64),
    ("job_hash", U64),
    ("started_ns", I64),
    ("host", "64s"),
    ("reserved", "64s"),
    ("checksum", U64),
)
SLOT_PULSE = (
    ("messages", U64),
    ("steps", U64),
    ("settled", U64),
    ("time_ns", I64),
    ("state", U32),
    ("lockstep", U8),
    ("reserved", "19s"),
    ("checksum", U64),
)
SLOT = (
    ("number", U64),
    ("kind", U8),
    ("mode", U8),
    ("flags", U8),
    ("reserved", U8),
    ("rank", I32),
    ("local", U64),
    ("global", U64),
    ("shape", U64),
    ("began_ns", I64),
    ("reserved2", U64),
    ("checksum", U64),
)
ROLES = ("input", "output", "before", "after", "grad_input", "grad_output", "param", "param_grad", "state")


class FormatError(Exception):
    """The bytes at an offset are not what docs/format.md says."""


# ---- xxHash ----
class _Hash128(ctypes.Structure):
    _fields_ = (("low", ctypes.c_uint64), ("high", ctypes.c_uint64))


_xxhash = ctypes.CDLL(ctypes.util.find_library("xxhash") or "libxxhash.so.0")
_xxhash.XXH3_64bits.restype = ctypes.c_uint64
_xxhash.XXH3_128bits.restype = _Hash128
for _function in (_xxhash.XXH3_64bits, _xxhash.XXH3_128bits):
    _function.argtypes = (ctypes.c_char_p, ctypes.c_size_t)


def hash64(data: bytes) -> int:
    return _xxhash.XXH3_64bits(data, len(data))


def hash128(data: bytes) -> bytes:
    value = _xxhash.XXH3_128bits(data, len(data))
    return struct.pack(">QQ", value.high, value.low)


def tile_digests(payload: bytes) -> bytes:
    return b"".join(hash128(payload[at : at + TILE]) for at in range(0, len(payload), TILE))


# ---- archives ----
def decode(kind: Any, data: bytes, at: int, order: str) -> tuple[Any, int]:
    """The value of a type at an offset, and the offset behind it."""
    if isinstance(kind, tuple):
        values = {}
        for name, type_ in kind:
            values[name], at = decode(type_, data, at, order)
        return values, at
    if kind == "bytes16":
        return data[at : at + 16], at + 16
    if kind == TEXT or isinstance(kind, list):
        (count,) = struct.unpack_from(order + "Q", data, at)
        at += 8
        if count > len(data) - at:
            raise FormatError(f"count {count} with {len(data) - at} bytes left")
        if kind == TEXT:
            return data[at : at + count].decode("utf-8", "surrogateescape"), at + count
        items = []
        for _ in range(count):
            item, at = decode(kind[0], data, at, order)
            items.append(item)
        return items, at
    return struct.unpack_from(order + kind, data, at)[0], at + struct.calcsize("<" + kind)


def encode(kind: Any, value: Any, order: str) -> bytes:
    if isinstance(kind, tuple):
        return b"".join(encode(type_, value[name], order) for name, type_ in kind)
    if kind == "bytes16":
        return bytes(value)
    if kind == TEXT:
        text = value.encode("utf-8", "surrogateescape")
        return struct.pack(order + "Q", len(text)) + text
    if isinstance(kind, list):
        return struct.pack(order + "Q", len(value)) + b"".join(encode(kind[0], item, order) for item in value)
    return struct.pack(order + kind, value)


def padded(data: bytes, align: int = 8) -> bytes:
    return data + bytes(-len(data) % align)


def encode_section(number: int, values: dict[str, Any], order: str) -> bytes:
    archive = encode(SECTIONS[number], values, order)
    header = {"id": number, "reserved": 0, "bytes": len(archive), "checksum": hash64(archive)}
    return encode(SECTION_HEADER, header, order) + padded(archive)


def sealed(fields: Any, values: dict[str, Any], order: str) -> bytes:
    """A fixed header or footer, its checksum filled in."""
    head = encode(fields[:-1], values, order)
    return head + struct.pack(order + "Q", hash64(head))


def encode_frame(kind: int, body: bytes, order: str, checksum: int | None = None) -> bytes:
    magic = int.from_bytes(b"TFRM", "little")
    values = {"magic": magic, "kind": kind, "flags": 0, "body_bytes": len(body)}
    values["body_checksum"] = hash64(body) if checksum is None else checksum
    return sealed(FRAME_HEADER, values, order) + padded(body)


# ---- files ----
@dataclass
class Frame:
    offset: int
    kind: int
    body: bytes
    checksum: int
    sections: list[tuple[int, dict[str, Any] | None]] = field(default_factory=list)  # None: an unknown section

    def section(self, number: int) -> dict[str, Any]:
        for id_, values in self.sections:
            if id_ == number and values is not None:
                return values
        raise FormatError(f"frame at {self.offset}: no section {number:#06x}")

    def has(self, number: int) -> bool:
        return any(id_ == number for id_, _ in self.sections)


class File:
    """A pass file or manifest. ``torn`` says where and why reading stopped, "" at a clean end."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.order = self._byte_order()
        self.header = decode(FILE_HEADER, data, 0, self.order)[0]
        if self.header["checksum"] != hash64(data[:56]):
            raise FormatError("file header: checksum")
        if self.header["version_major"] != 1:
            raise FormatError(f"version {self.header['version_major']}")
        self.torn = ""
        self.footer: dict[str, Any] | None = None
        self.frames = list(self._frames())

    @property
    def is_pass(self) -> bool:
        return self.header["magic"] == int.from_bytes(PASS_MAGIC, "little")

    def _byte_order(self) -> str:
        for order, step in (("<", 1), (">", -1)):
            if self.data[:8][::step] in (PASS_MAGIC, MANIFEST_MAGIC, PACK_MAGIC):
                return order
        raise FormatError("offset 0: not a tdump file")

    def _frames(self) -> Iterator[Frame]:
        at, data = 64, self.data
        while at < len(data):
            rest = data[at:]
            if len(rest) == 64 and self._is_footer(rest):
                self.footer = decode(FOOTER, rest, 0, self.order)[0]
                return
            if not any(rest):
                return  # the preallocated tail of a manifest
            try:
                frame, at = self._frame(at)
            except (FormatError, struct.error) as error:
                self.torn = f"offset {at}: {error}"
                return
            yield frame

    def _is_footer(self, rest: bytes) -> bool:
        magic = struct.unpack_from(self.order + "Q", rest)[0]
        checksum = struct.unpack_from(self.order + "Q", rest, 56)[0]
        return magic == int.from_bytes(FOOTER_MAGIC, "little") and checksum == hash64(rest[:56])

    def _frame(self, at: int) -> tuple[Frame, int]:
        header, body_at = decode(FRAME_HEADER, self.data, at, self.order)
        if header["magic"] != int.from_bytes(b"TFRM", "little"):
            raise FormatError("no frame begins here")
        if header["checksum"] != hash64(self.data[at : at + 24]):
            raise FormatError("frame header: checksum")
        end = body_at + header["body_bytes"]
        if end > len(self.data):
            raise FormatError("body ends outside the file")
        body = self.data[body_at:end]
        frame = Frame(at, header["kind"], body, header["body_checksum"])
        if frame.kind == PAYLOAD and header["flags"] & 1:
            pass  # compressed: the checksum is that of the logical bytes
        elif frame.kind == PAYLOAD:
            low = struct.unpack(">Q", hash128(tile_digests(body))[8:])[0]
            if low != frame.checksum:
                raise FormatError("payload: checksum")
        elif hash64(body) != frame.checksum:
            raise FormatError("body: checksum")
        elif frame.kind != PAD:
            frame.sections = list(self._sections(body))
        return frame, end + (-end % 8)

    def _sections(self, body: bytes) -> Iterator[tuple[int, dict[str, Any] | None]]:
        at = 0
        while at < len(body):
            header, at = decode(SECTION_HEADER, body, at, self.order)
            archive = body[at : at + header["bytes"]]
            if len(archive) != header["bytes"] or hash64(archive) != header["checksum"]:
                raise FormatError(f"section {header['id']:#06x}: bytes or checksum")
            at += header["bytes"] + (-header["bytes"] % 8)
            if header["id"] not in SECTIONS:
                yield header["id"], None
                continue
            values, used = decode(SECTIONS[header["id"]], archive, 0, self.order)
            if used != len(archive):
                raise FormatError(f"section {header['id']:#06x}: {len(archive) - used} bytes too many")
            yield header["id"], values

    def of_kind(self, kind: int) -> Iterator[Frame]:
        return (frame for frame in self.frames if frame.kind == kind)


class PassFile(File):
    """The records and calls of a pass under their names."""

    def __init__(self, data: bytes, packed: bytes = b"") -> None:
        """``packed``: the packed file that the pass is in."""
        super().__init__(data)
        self.packed = packed
        if not self.is_pass:
            raise FormatError("not a pass file")
        self.names = {0: ""}
        self.operators: dict[int, dict[str, Any]] = {}
        for frame in self.frames:
            if frame.kind == NAME:
                name = frame.section(0x0201)
                self.names[name["name"]] = name["text"]
            elif frame.kind == OPERATOR:
                self._add_operator(frame.section(0x0301))
            elif frame.kind == ALIAS:
                alias = frame.section(0x0701)
                self.operators[alias["op"]]["aliases"].append(self.names[alias["path"]])
        self.records = {r["record"]: r for r in map(self._record, self.of_kind(RECORD))}

    def _add_operator(self, values: dict[str, Any]) -> None:
        for key in ("root", "path", "op_name", "class"):
            values[key] = self.names[values[key]]
        values["aliases"] = [self.names[alias] for alias in values["aliases"]]
        self.operators[values["op"]] = values

    def _record(self, frame: Frame) -> dict[str, Any]:
        record = frame.section(0x0501)
        for key in ("arg", "dtype", "device"):
            record[key] = self.names[record[key]]
        record["operator"] = self.operators[record["op"]]
        for number, name in (
            (0x0502, "payload"),
            (0x0503, "hash"),
            (0x0504, "tiles"),
            (0x0505, "shard"),
            (0x0506, "statistics"),
            (0x0507, "sample"),
            (0x0508, "slice"),
            (0x0520, "earlier"),
        ):
            record[name] = frame.section(number) if frame.has(number) else None
        return record

    def calls(self) -> Iterator[dict[str, Any]]:
        for frame in self.of_kind(CALL):
            call = frame.section(0x0401)
            call["operator"] = self.operators[call["op"]]
            for argument in call["arguments"]:
                argument["arg"], argument["dtype"] = self.names[argument["arg"]], self.names[argument["dtype"]]
            yield call

    def payload(self, record: dict[str, Any]) -> bytes:
        """The canonical payload, little-endian, checked against digests and hash; stride-0 dimensions once."""
        owner = record
        while owner["payload"]["same_as"]:
            owner = self.records[owner["payload"]["same_as"]]
        place = owner["payload"]
        data, offset = (self.packed, owner["earlier"]["offset"]) if owner["earlier"] else (self.data, place["offset"])
        stored = logical(place, data[offset : offset + place["stored_bytes"]], self.order)
        digests = tile_digests(stored)
        if bytes(owner["tiles"]["digests"]) != digests:
            raise FormatError(f"record {owner['record']}: payload and digests")
        for each in (owner, record):
            if each["hash"] and each["hash"]["hash"] != hash128(digests):
                raise FormatError(f"record {each['record']}: hash")
        return swap(stored, swap_width(owner)) if self.order == ">" else stored

    def slice_payload(self, record: dict[str, Any]) -> bytes:
        """The canonical elements of a record's slice."""
        place = record["slice"]
        stored = self.data[place["offset"] : place["offset"] + place["stored_bytes"]]
        stored = logical(place, stored, self.order)
        if bytes(place["digests"]) != tile_digests(stored) or place["hash"] != hash128(tile_digests(stored)):
            raise FormatError(f"record {record['record']}: slice and digests")
        return swap(stored, swap_width(record)) if self.order == ">" else stored

    def rebuilt_index(self) -> bytes:
        """The index frame that the frames give (unknown sections, which only their writer knows, left out)."""
        lists: dict[str, list[Any]] = {"records": [], "calls": [], "operators": [], "names": [], "aliases": []}
        lists["records"] = [{"record": f.section(0x0501)["record"], "offset": f.offset} for f in self.of_kind(RECORD)]
        for key, kind in (("calls", CALL), ("operators", OPERATOR), ("names", NAME), ("aliases", ALIAS)):
            lists[key] = [frame.offset for frame in self.of_kind(kind)]
        return encode_frame(INDEX, encode_section(0x0801, lists, self.order), self.order)

    def plain(self) -> dict[str, dict[str, Any]]:
        """Forward outputs under their plain names ("Plain view")."""
        outputs = [
            r for r in self.records.values() if ROLES[r["role"]] == "output" and r["phase"] == 0 and not r["flags"] & 1
        ]
        seen: dict[str, list[int]] = {}
        view: dict[str, dict[str, Any]] = {}
        for record in sorted(outputs, key=lambda r: (r["seen"], r["record"])):
            op = record["operator"]
            path = ".".join(filter(None, (op["root"], "" if op["root"] and op["path"] == "." else op["path"])))
            name = "/".join(filter(None, (path, op["op_name"])))
            calls = seen.setdefault(name, [])
            if record["call_begin"] not in calls:
                calls.append(record["call_begin"])
            n = calls.index(record["call_begin"])
            key = (f"{name}::call{n}" if n else name) + (f".{record['arg']}" if record["arg"] else "")
            if record["payload"]:
                view.setdefault(key, record)
        return view


def passes_of_pack(data: bytes) -> list[PassFile]:
    """The passes of a packed file, by a walk. A torn one ends where the next begins."""
    order = "<" if data[:8] == PACK_MAGIC else ">"
    own = decode(FILE_HEADER, data, 0, order)[0]
    if own["checksum"] != hash64(data[:56]) or own["magic"] != int.from_bytes(PACK_MAGIC, "little"):
        raise FormatError("not a packed file")
    begins = []
    for at in range(PACK_ALIGN, len(data) - 63, PACK_ALIGN):
        header = decode(FILE_HEADER, data, at, order)[0]
        known = header["magic"] == int.from_bytes(PASS_MAGIC, "little") and header["checksum"] == hash64(
            data[at : at + 56]
        )
        if known and (header["pid"], header["job_hash"]) == (own["pid"], own["job_hash"]):
            begins.append(at)
    passes = []
    for begin, end in zip(begins, [*begins[1:], len(data)], strict=True):
        image = data[begin:end]
        for cut in range(len(image) & ~7, max(len(image) - PACK_ALIGN, 63), -8):
            footer = decode(FOOTER, image, cut - 64, order)[0]
            if footer["magic"] == int.from_bytes(FOOTER_MAGIC, "little") and footer["index_offset"] < cut:
                image = image[:cut]
                break
        passes.append(PassFile(image, data))
    return passes


def members_of_node(data: bytes) -> dict[str, bytes]:
    """The files in a node file, by name: extents from 4,096 on, each a page of heads and then its data."""
    order = "<" if data[:8] == NODE_MAGIC else ">"
    if decode(FILE_HEADER, data, 0, order)[0]["checksum"] != hash64(data[:56]):
        raise FormatError("not a node file")
    (end, _, _, checksum) = struct.unpack_from(order + "4Q", data, 512)
    if checksum != hash64(data[512:536]):
        raise FormatError("the state of the node file is damaged")
    names, sizes, extents = {}, {}, {}
    at = 4096
    while at < end:
        _, own, length, first, offset = struct.unpack_from(order + "5Q", data, at)
        known = struct.unpack_from(order + "Q", data, at + 56)[0] == hash64(data[at : at + 56])
        if not known or data[at : at + 8] != struct.pack(order + "Q", EXTENT_MAGIC) or own != at:
            at += 4096  # damaged
            continue
        body = data[at + 4096 : at + 4096 + length]
        extents.setdefault(first, {})[offset] = body + bytes(length - len(body))
        if first == at:
            (letters,) = struct.unpack_from(order + "Q", data, at + 64)
            names[at] = data[at + 72 : at + 72 + letters].decode()
            (sizes[at],) = struct.unpack_from(order + "Q", data, at + 512)
        at += 4096 + length
    whole = {first: b"".join(part for _, part in sorted(parts.items())) for first, parts in extents.items()}
    return {name: whole[first][: sizes[first]] for first, name in names.items() if name}


class SlotFile:
    """A clock slot file: who, how far, and the messages that the ring still has."""

    def __init__(self, data: bytes) -> None:
        self.header = self._part(SLOT_HEADER, data, 0)
        if self.header["magic"] != b"TDMSLOT1":
            raise FormatError("offset 0: not a slot file")
        self.pulse = self._part(SLOT_PULSE, data, 192)
        self.messages = []
        count, slots = self.pulse["messages"], self.header["slots"]
        for n in range(max(1, count - slots + 1), count + 1):
            slot = self._part(SLOT, data, 256 + 64 * ((n - 1) % slots))
            if slot["number"] == n:
                self.messages.append(slot)

    @staticmethod
    def _part(fields: Any, data: bytes, at: int) -> dict[str, Any]:
        values, end = decode(fields, data, at, "<")
        if values["checksum"] != hash64(data[at : end - 8]):
            raise FormatError(f"offset {at}: checksum")
        return values


def swap_width(record: dict[str, Any]) -> int:
    """Bytes of the number that byte order applies to; 1 for packed elements."""
    if record["elements_per_unit"] != 1 or record["bits_per_element"] % 8:
        return 1
    width = record["bits_per_element"] // 8
    return width // 2 if "complex" in record["dtype"] else width


def swap(data: bytes, width: int) -> bytes:
    return b"".join(data[at : at + width][::-1] for at in range(0, len(data), width))


def stored_shape(record: dict[str, Any]) -> list[int]:
    """Sizes of what is stored: a strided dimension of stride 0 once."""
    if record["layout"] != 0 or not record["strides"]:
        return record["sizes"]
    return [
        1 if stride == 0 and size > 0 else size for size, stride in zip(record["sizes"], record["strides"], strict=True)
    ]


# ---- codec 2 ----
BLOCK = 256 * 1024


def logical(place: dict[str, Any], stored: bytes, order: str) -> bytes:
    """The bytes of a payload in whatever codec."""
    if place["codec"] == 0:
        return stored
    if place["codec"] != 2:
        raise NotImplementedError(f"codec {place['codec']}")
    blocks = -(-place["logical_bytes"] // BLOCK)
    ends = [0, *struct.unpack_from(f"{order}{blocks}Q", stored)]
    chunks = stored[8 * blocks :]
    out = b"".join(blosc_chunk(chunks[begin:end]) for begin, end in itertools.pairwise(ends))
    if len(out) != place["logical_bytes"]:
        raise FormatError(f"codec 2: {len(out)} bytes, expected {place['logical_bytes']}")
    return out


def blosc_chunk(chunk: bytes) -> bytes:
    """A Blosc 1 chunk of zstd blocks (github.com/Blosc/c-blosc, README_CHUNK_FORMAT.rst)."""
    flags, width = chunk[2], chunk[3]
    total, block_bytes, _ = struct.unpack_from("<3I", chunk, 4)
    if flags & 2:
        return chunk[16 : 16 + total]
    if flags >> 5 != 4:
        raise NotImplementedError(f"Blosc compressor {flags >> 5}")
    blocks = -(-total // block_bytes)
    out = b""
    for block, at in enumerate(struct.unpack_from(f"<{blocks}I", chunk, 16)):
        want = min(block_bytes, total - block * block_bytes)
        whole = want == block_bytes
        splits = width if not flags & 16 and whole else 1
        data = b""
        for _ in range(splits):
            (size,) = struct.unpack_from("<i", chunk, at)
            part = chunk[at + 4 : at + 4 + size]
            data += part if size == want // splits else unzstd(part, want // splits)
            at += 4 + size
        if flags & 1 and width > 1:
            data = unshuffle(data, width)
        if flags & 4 and len(data) // width % 8 == 0:
            data = unshuffle_bits(data, width)
        out += data
    return out


def unzstd(data: bytes, size: int) -> bytes:
    library = ctypes.CDLL(ctypes.util.find_library("zstd") or "libzstd.so.1")
    library.ZSTD_decompress.restype = ctypes.c_size_t
    library.ZSTD_decompress.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    out = ctypes.create_string_buffer(size)
    if library.ZSTD_decompress(out, size, data, len(data)) != size:
        raise FormatError("codec 2: zstd")
    return out.raw


def unshuffle(data: bytes, width: int) -> bytes:
    """First bytes of all numbers, then second bytes, ...; what is no whole number stays at the end."""
    count = len(data) // width
    out = bytearray(data)
    for place in range(width):
        out[place : count * width : width] = data[place * count : (place + 1) * count]
    return bytes(out)


def unshuffle_bits(data: bytes, width: int) -> bytes:
    """Bit 0 of the first bytes of all numbers, then bit 1, ...; eight numbers a byte, the first in the lowest bit."""
    count = len(data) // width
    out = bytearray(count * width) + data[count * width :]
    row = count // 8
    for place in range(width):
        for bit in range(8):
            at = (place * 8 + bit) * row
            for i in range(count):
                out[i * width + place] |= (data[at + i // 8] >> (i % 8) & 1) << bit
    return bytes(out)


# ---- the other byte order ----
def swapped_file(data: bytes) -> bytes:
    """A little-endian pass file as a big-endian machine would have written it: every integer, payloads and the hashes
    of their bytes."""
    file, order = PassFile(data), ">"
    by_offset = {
        r["payload"]["offset"]: r for r in file.records.values() if r["payload"] and not r["payload"]["same_as"]
    }
    out = sealed(FILE_HEADER, file.header, order)
    digests: dict[int, bytes] = {}
    for frame in File(data).frames:
        if frame.kind == PAD:
            out += encode_frame(PAD, frame.body, order)
            continue
        if frame.kind == PAYLOAD:
            owner = by_offset[frame.offset + 32]
            body = swap(frame.body, swap_width(owner))
            digests[owner["record"]] = tile_digests(body)
            low = struct.unpack(">Q", hash128(digests[owner["record"]])[8:])[0]
            out += encode_frame(PAYLOAD, body, order, low)
            continue
        body = b""
        for number, values in frame.sections:
            if values is None:
                raise FormatError(f"section {number:#06x} cannot be swapped")
            record = frame.section(0x0501)["record"] if frame.kind == RECORD else 0
            payload = file.records[record]["payload"] if record else None
            mine = digests.get(payload["same_as"] or record) if payload else None
            if number == 0x0503 and mine is not None:
                values = {"hash": hash128(mine)}
            if number == 0x0504 and mine is not None:
                values = {"digests": list(mine)}
            body += encode_section(number, values, order)
        out += encode_frame(frame.kind, body, order)
    return out + sealed(FOOTER, file.footer or {}, order)


def main(arguments: list[str]) -> int:
    if len(arguments) == 3 and arguments[0] == "--swap":
        Path(arguments[2]).write_bytes(swapped_file(Path(arguments[1]).read_bytes()))
        return 0
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    file = File(Path(arguments[0]).read_bytes())
    for frame in file.frames:
        sections = [{"section": f"{id_:#06x}", **(values or {})} for id_, values in frame.sections]
        line = {"offset": frame.offset, "kind": frame.kind, "bytes": len(frame.body), "sections": sections}
        print(json.dumps(line, default=bytes.hex))
    print(json.dumps({"footer": file.footer, "torn": file.torn}))
    return 1 if file.torn else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
