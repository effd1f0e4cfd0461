#!/usr/bin/env bash
# The form of the sources: clang-format on C++, ruff on Python, include directions (layers.py), no
# formatting on the threads of the job (hot_path.py).
set -euo pipefail
cd "$(dirname "$0")/../.."
python=.venv/bin/python
[ -x "$python" ] || python=python3
git ls-files '*.h' '*.cc' '*.c' | xargs clang-format --dry-run --Werror
"$python" -m ruff check --quiet .
"$python" -m ruff format --check --quiet .
"$python" tests/lint/layers.py
"$python" tests/lint/hot_path.py
