"""Lints that the files whose code runs on the job's own threads, for every operator and tensor that is recorded,
format no text: they hand values over, and the writer makes the text (core/call_text.h). Exit status 1 and one line per
offence.

tests/e2e/test_hot_path.py counts calls of functions that can be interposed; what a compiler puts inline, as it does
std::to_chars of an integer, only the sources show."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

HOT = (
    "collectors/torch/*.cc",
    "collectors/torch/*.h",
    "collectors/python/*.cc",
    "collectors/python/*.h",
    "collectors/device/*.cc",
    "collectors/device/*.h",
    "core/argument_list.h",
    "core/call_text.h",
    "core/gate.h",
    "core/index_text.h",
    "core/operator_table.*",
    "core/recorder.*",
    "filters/compiled_plan.cc",
    "filters/rule_matcher.cc",
    "io/arena.*",
    "io/capture_entry.*",
    "io/capture_room.cc",
    "io/capture_sink.cc",
    "io/capture_stream.cc",
    "io/entry_queue.h",
    "io/futex.h",
    "io/operator_losses.*",
    "io/pass_slots.*",
    "launch/runtime/late_plan.h",
    "launch/runtime/late_sink.*",
)
FORMATS = re.compile(
    r"\b(\w*stringstream\b|fmt::|(?:to_chars|to_string|\w*printf|std::format|\w+\.str|PyObject_(?:Repr|Str|Format)|"
    r"PyUnicode_FromFormat)(?=\())"
)
# What is left, and why it is not there for every call. Each must still be found.
ALLOWED = {
    "collectors/torch/aten_operators.cc": {"std::to_string(arguments.size() - 1)": "once for each operator"},
    "collectors/torch/device_tensors.cc": {"std::to_string(": "notes about a device, once for each text"},
    "collectors/torch/device_text.cc": {"device.str()": "once for each device"},
    "collectors/torch/optimizer_state.cc": {"std::to_string(i++)": "an optimizer that keeps lists of tensors: LBFGS"},
    "collectors/torch/tensor_view.cc": {"std::to_string(*number)": "a tensor whose sizes are not all numbers"},
    "collectors/python/flatten.cc": {"PyObject_Repr(value)": "a str that is not ASCII, an int beyond 64 bits"},
    "collectors/python/hooks.cc": {"std::snprintf(error": "a predicate that failed"},
    "collectors/python/local_parts.cc": {"PyObject_Str(object)": "once for each layout of a tensor"},
    "collectors/python/tap.cc": {"PyObject_Str(object)": "a name or tag that is no str; of a str, itself"},
    "core/index_text.h": {"std::to_chars(to": "a position beyond the table"},
}


def offences(path: str, text: str, allowed: dict[str, str]) -> list[str]:
    """The lines of `text`, the file `path` (relative to the root), that format; the allowances nothing uses."""
    found, unused = [], dict(allowed)
    for number, line in enumerate(text.splitlines(), 1):
        code = line.split("//", 1)[0]
        for snippet in allowed:
            if snippet in code:
                unused.pop(snippet, None)
                code = code.replace(snippet, "")
        if match := FORMATS.search(code):
            found.append(f"{path}:{number}: {match[1]} on a thread of the job; hand the value to the writer")
    return found + [f"{path}: no longer contains '{snippet}', which hot_path.py allows" for snippet in unused]


def main() -> int:
    found = []
    for pattern in HOT:
        files = sorted(ROOT.glob(pattern))
        if not files:
            found.append(f"{pattern}: no such file, see hot_path.py")
        for file in files:
            path = file.relative_to(ROOT).as_posix()
            found += offences(path, file.read_text(encoding="utf-8"), ALLOWED.get(path, {}))
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
