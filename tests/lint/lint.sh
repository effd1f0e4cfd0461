#!/usr/bin/env bash
# The form of the sources: clang-format on C++, ruff on Python, include directions (layers.py).
set -euo pipefail
cd "$(dirname "$0")/../.."
python=.venv/bin/python
[ -x "$python" ] || python=python3
git ls-files '*.h' '*.cc' '*.c' | xargs clang-format --dry-run --Werror
"$python" -m ruff check --quiet .
"$python" -m ruff format --check --quiet .
"$python" tests/lint/layers.py
