"""Prints the end of what each failed test printed, from the JUnit file of ctest: the end of a log tells no reason."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET

LINES = 40


def main(path: str) -> None:
    for case in ET.parse(path).iter("testcase"):
        if case.get("status") != "fail":
            continue
        printed = (case.findtext("system-out") or "").rstrip().splitlines()
        print(f"\n---- {case.get('name')} failed; the end of its output ({len(printed)} lines):")
        print("\n".join(printed[-LINES:]))


if __name__ == "__main__":
    main(sys.argv[1])
