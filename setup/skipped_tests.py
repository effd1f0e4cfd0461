"""Prints which tests skipped themselves and why, from ctest's JUnit file. pytest gives the reasons under -rs."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET


def reasons(case: ET.Element) -> list[str]:
    printed = (case.findtext("system-out") or "").splitlines()
    lines = [line for line in printed if line.startswith("SKIPPED ")]
    if not lines and case.get("status") in ("notrun", "disabled"):
        lines = printed or ["SKIPPED"]
    return [f"{case.get('name')}: {line.replace('../', '')}" for line in lines]


def main(path: str) -> None:
    lines = [line for case in ET.parse(path).iter("testcase") for line in reasons(case)]
    print(f"\n{len(lines)} places where tests skipped themselves" + (":" if lines else ""))
    print("\n".join(lines))


if __name__ == "__main__":
    main(sys.argv[1])
