"""tdump-export: what a run holds, in the formats of other tools. The command line."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import shlex
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple, NoReturn

from tdump import _io
from tdump._export_files import near_names, plural
from tdump.reader import DamagedError, Pass, PassEntry, Record, Run
from tdump.reader import open as open_run

_TOOL = "tdump-export"
_ABOUT = "Write tensors of a run, or the index of all its records, in a format that other tools read."
_TEACH = """\
ADDRESS is RUN, RUN:STEP, RUN:STEP/RANK or RUN:STEP/RANK/NAME, as for tdump-view; RUN a directory, 'latest',
RUN@GENERATION, RUN/rankN, the directory of a rank or a pass file.

  --npy          one .npy a tensor, and names.tsv: which is which
  --npz          one .npz for each step and rank
  --safetensors  one .safetensors for each step and rank
  --txt          text from which every value reads back as the same bits (by tdump-view)
  --parquet      no values: records.parquet has a row for each record (step, rank, key, shape, dtype, statistics,
                 hash, bytes), passes.parquet one for each step of a rank; for DuckDB, Spark, Dask, pandas; needs
                 pyarrow

Tensors go by their keys; one whose key comes a second time in a pass has its id behind it, 'KEY (ID)'.
numpy has no bfloat16, float8 and the like: .npy and .npz hold their bits as unsigned integers, and the name of the
dtype stands in names.tsv, in the .npz as an entry of its own, 'dtypes'.

Examples:
  tdump-export runs/a --parquet -o index
  tdump-export runs/a:0/2 --npz -o out --select 'layers\\.3\\.'
  tdump-export runs/a:0/2/encoder.layer.3@input#0 --npy -o out

Records without values (kept by hash or statistics) are in --parquet and --txt only; how many were left out is told.

Exit status: 0 done, 1 none of the records has values, so that nothing was written, 2 trouble, nothing that was asked
for is there, or not all of it could be read (the rest is written). tdump-diff reads .npz and .safetensors back under
the keys.
"""
_MOST_NAMES = 20_000


class Trouble(Exception):
    """Something to tell the user; ends the tool with status 2."""


class Selection:
    """The records of a run that an address and --select ask for. ``damage`` grows while they are visited."""

    def __init__(self, address: str, patterns: list[str]) -> None:
        self._shown, self._step, self._rank, self._name = _io.resolve_address(os.fsencode(address))
        self.run: Run = open_run(self._shown, as_="numpy", allow_damage=True)
        self.damage = [str(item) for item in self.run.damage]
        self._select = [re.compile(pattern) for pattern in patterns]
        self._stems: set[str] = set()
        self._names: set[str] = set()  # of operators, for those who misspell one
        self._opened = self._matched = 0
        self.without_values: Counter[str] = Counter()  # what was kept of them: how many records
        self.of_unknown_dtypes = 0  # records whose dtypes the format does not have

    def passes(self) -> Iterator[tuple[PassEntry, Pass]]:
        """In the order of the run; those that cannot be opened go into ``damage``."""
        for entry in self._meant():
            if entry.error:
                self.damage.append(f"{entry.file}: {entry.error}")
                continue
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # told below
                    opened = self.run.open(entry)
            except (DamagedError, OSError) as error:
                self.damage.append(str(error))
                continue
            if not entry.part:
                self.damage.extend(map(str, opened.damage))
            self._opened += 1
            yield entry, opened

    def _meant(self) -> list[PassEntry]:
        """Of the step and rank that the address names. A step is an agreed number; if no pass has it, the job's own."""
        of_rank = [entry for entry in self.run.passes if self._rank in (None, entry.rank)]
        by_step = [entry for entry in of_rank if self._step in (None, entry.step)]
        return by_step or [entry for entry in of_rank if self._step == entry.job_step]

    def records(self, opened: Pass) -> Iterator[Record]:
        """In the order of the file."""
        for record in opened.records() if self._name is None else self._named(opened):
            if len(self._names) < _MOST_NAMES:
                self._names.add(record.name)
            if self._wants(record):
                self._matched += 1
                yield record

    def _named(self, opened: Pass) -> Iterator[Record]:
        """Those that the name of the address means. Where there are none, the names of others are kept to be told."""
        assert self._name is not None
        found = False
        for record in opened._records_named(self._name):
            found = True
            yield record
        if not found:
            self._names.update(record.name for record in itertools.islice(opened.records(), _MOST_NAMES))

    def stem(self, entry: PassEntry) -> str:
        """The start of the names of what is written of a pass, another one for each."""
        process = f"_p{entry.process}" if entry.process else ""
        stem = first = f"step{entry.step}_rank{entry.rank}{process}{'_extra' if entry.extra else ''}"
        number = 1
        while stem in self._stems:
            number += 1
            stem = f"{first}_{number}"
        self._stems.add(stem)
        return stem

    def why_nothing(self) -> str:
        """After the visit: why nothing was written, with what is there; empty where something matched."""
        if self._matched or self.damage:
            return ""
        if not self._opened:
            steps, ranks = {e.step for e in self.run.passes}, {e.rank for e in self.run.passes}
            if not steps:
                return "the run holds no pass"
            return (
                f"no pass of step {'any' if self._step is None else self._step}, rank "
                f"{'any' if self._rank is None else self._rank}; the run has steps {min(steps)} to {max(steps)}, "
                f"ranks {min(ranks)} to {max(ranks)}"
            )
        asked = [self._name] if self._name is not None else []
        asked += [f"--select {pattern.pattern}" for pattern in self._select]
        if not asked:
            return ""
        near = near_names(asked[0].removeprefix("--select "), self._names)
        near = f". Near: {', '.join(map(repr, near))}" if near else ""
        lists = f"tdump-view {shlex.quote(self._shown)} --names lists them"
        return f"no record matches {' and '.join(asked)}{near}; {lists}"

    def left_out(self) -> str:
        """What is not in the formats that hold values, and why; empty where all is."""
        told = []
        if count := self.of_unknown_dtypes:
            told.append(f"{count:,} left out, of dtypes that the format does not have")
        if count := sum(self.without_values.values()):
            kept = ", ".join(sorted(self.without_values))
            told.append(f"{plural(count, 'record')} without values left out (kept: {kept}; level full keeps them)")
        return "; ".join(told)

    def _wants(self, record: Record) -> bool:
        return not self._select or any(pattern.search(record.name) for pattern in self._select)


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=_TOOL, description=_ABOUT, epilog=_TEACH, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("address", metavar="ADDRESS|RUN")
    formats = parser.add_mutually_exclusive_group(required=True)
    for name in ("npy", "npz", "safetensors", "txt", "parquet"):
        formats.add_argument(f"--{name}", dest="format", action="store_const", const=name)
    parser.add_argument("-o", "--output", metavar="DIR", required=True, help="where to; made if it is not there")
    parser.add_argument("--select", metavar="RE", action="append", default=[], help="only operators with such a name")
    parser.add_argument("--json", action="store_true", help="say it as one JSON document")
    parser.add_argument("--quiet", action="store_true", help="say nothing but errors")
    parser.add_argument("--no-color", action="store_true", help="as of the other tools; there are no colours")
    parser.add_argument("--version", action="version", version=_version())
    return parser.parse_args(arguments)


def _version() -> str:
    try:
        return f"{_TOOL} {version('tdump')}"
    except PackageNotFoundError:
        return _TOOL


class Exported(NamedTuple):
    """What was written, in words (empty: nothing), what could not be read, and what was left out."""

    written: str
    damage: list[str]
    left_out: str


def _make_directory(output: str) -> Path:
    directory = Path(output)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise Trouble(f"-o {output}: a file is in the way; -o names a directory, which is made if needed") from None
    return directory


def _export(options: argparse.Namespace) -> Exported:
    try:
        selection = Selection(options.address, options.select)
    except re.error as error:
        raise Trouble(f"--select: {error}") from None
    directory = _make_directory(options.output)
    if options.format == "parquet":
        from tdump._export_parquet import write_index as write
    else:
        from tdump._export_arrays import WRITERS

        write = WRITERS[options.format]
    written = write(selection, directory)
    if nothing := selection.why_nothing():
        raise Trouble(f"{options.address}: {nothing}")
    return Exported(written, selection.damage, selection.left_out())


def _as_text(options: argparse.Namespace) -> NoReturn:
    """tdump-view writes it; this process becomes it."""
    package = Path(__file__).parent  # an installed package has bin/ in it; a build or a prefix, some levels above
    places = [
        folder / "bin" / "tdump-view" for folder in (package, *package.resolve().parents[:4], *package.parents[:4])
    ]
    program = next((str(place) for place in places if place.exists()), "tdump-view")
    target = os.path.join(options.output, "")
    select = [word for pattern in options.select for word in ("--select", pattern)]
    how = [f"--{word}" for word in ("json", "quiet") if getattr(options, word)]
    _make_directory(options.output)
    os.execvp(program, [program, options.address, "--records", "--txt", target, *select, *how])


def main(arguments: list[str] | None = None) -> int:
    """The tool's exit status. None: the arguments of this process."""
    options = _parse(sys.argv[1:] if arguments is None else arguments)
    try:
        if options.format == "txt":
            _as_text(options)
        written, damage, left_out = _export(options)
    except (Trouble, DamagedError, OSError, ValueError, KeyError) as error:
        print(f"{_TOOL}: {error.args[0] if isinstance(error, KeyError) else error}", file=sys.stderr)
        return 2
    except MemoryError:
        print(f"{_TOOL}: not enough memory for one of the tensors: --select leaves it out", file=sys.stderr)
        return 2
    for text in damage:
        print(f"{_TOOL}: damaged: {text}", file=sys.stderr)
    status = 2 if damage else 0 if written else 1
    if options.json:
        fields = {"format": options.format, "output": options.output, "written": written, "left_out": left_out}
        print(json.dumps({**fields, "damage": damage, "status": status}))
        return status
    if not written:
        why = left_out or ("what is there cannot be read" if damage else "there is no record")
        print(f"{_TOOL}: nothing was written: {why}", file=sys.stderr)
    elif not options.quiet:
        print(f"{written}; {left_out}" if left_out else written)
    return status


def run() -> NoReturn:
    """What the installed command calls."""
    sys.exit(main())
