# Sourced by ./demo and ./check: brings what is missing, says what and why, does nothing when all is there.
# Sets: TDUMP_PYTHON (the interpreter of .venv), and Open MPI's variables for root and few cores.
# Debian packages come through apt-get (as root; a user needs them installed already), Python packages through pip.
# With torch_release set (./check --torch): that torch instead of the pinned one, in an environment of its own.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
torch_release=${torch_release:-}
venv=.venv${torch_release:+-torch-$torch_release}

say() { printf 'setup: %s\n' "$*" >&2; }

requirements() {
  if [ -n "$torch_release" ]; then
    sed "s/^torch==.*/torch==$torch_release/" setup/requirements.txt
  else
    cat setup/requirements.txt
  fi
}

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

# Lines of the requirements that the Python $1 lacks: not there at all, or of another version in its own folder. (What
# it sees from a Python below may have any version.)
missing_python_packages() {
  "$1" - "$(requirements)" <<'EOF'
import sys
from importlib.metadata import PackageNotFoundError, distribution

for line in sys.argv[1].splitlines():
    name, _, pinned = line.strip().partition("==")
    if not pinned:
        continue
    try:
        found = distribution(name)
        own = str(found.locate_file("")).startswith(sys.prefix)
        if found.version.split("+")[0] == pinned or not own:
            continue
    except PackageNotFoundError:
        pass
    print(line.strip())
EOF
}

# The environment sees what $1 sees, its own packages first. (venv --system-site-packages would not do for a Python that is
# itself of a virtual environment.)
make_venv_over() {
  "$1" -m venv "$venv"
  "$1" -c 'import sys; print("\n".join(p for p in sys.path if p.endswith(("site-packages", "dist-packages"))))' \
    >"$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/packages_below.pth"
}

has_wanted_torch() {
  "$1" -c 'import sys, torch; sys.exit(sys.argv[1] not in ("", torch.__version__.split("+")[0]))' "$torch_release" 2>/dev/null
}

# Says so where pip cannot get such a torch.
install_with_pip() {
  local said status=0
  said=$("$venv/bin/python" -m pip install -q --disable-pip-version-check "$@" 2>&1) || status=$?
  [ -z "$said" ] || printf '%s\n' "$said" >&2
  [ $status -ne 0 ] || return 0
  case $said in
    *'(from versions: none)'*) say "pip finds no release at all of what it names above: is there a network?" ;;
    *'No matching distribution found for torch=='*)
      say "there is no torch $torch_release for $("$venv/bin/python" -V); those there are stand above"
      [ -z "$torch_release" ] || rm -rf "$venv"
      ;;
  esac
  return $status
}

# The pinned packages go into .venv. What python3 (or $PYTHON) already has is reused if torch is among it, whatever its
# version (unless one is asked for); and where every package is there already (a cluster without network) nothing is
# installed at all.
install_python_packages() {
  local stamp base=${PYTHON:-python3} missing
  stamp="$venv/.tdump-$(requirements | sha256sum | cut -c1-12)"
  TDUMP_PYTHON="$PWD/$venv/bin/python"
  [ -e "$stamp" ] && return
  if [ ! -x "$venv/bin/python" ]; then
    if has_wanted_torch "$base"; then
      say "reusing the torch of $base; $venv sees the packages of that Python"
      make_venv_over "$base"
    else
      "$base" -m venv "$venv"
    fi
  fi
  missing=$(missing_python_packages "$venv/bin/python")
  if [ -n "$missing" ]; then
    say "installing Python packages into $venv:" $missing
    case $missing in
      *torch==*) say "pip is running: torch is about 6 GB on disk and takes some minutes, in which nothing more is printed" ;;
    esac
    install_with_pip $missing
  fi
  touch "$stamp"
}

# logged NAME COMMAND...: builds; the end of the log if that fails.
logged() {
  local log="build-$1.log"
  mkdir -p build
  if ! "${@:2}" >"build/$log" 2>&1; then
    tail -n 40 "build/$log" >&2
    say "the build failed; the whole log is build/$log"
    return 1
  fi
}

build_preset() { cmake --preset "$1" && cmake --build --preset "$1" --target "${@:2}"; }

build() {  # build PRESET [TARGET...]
  local preset=$1
  shift
  say "building preset '$preset' (a few minutes the first time; log: build/build-$preset.log)"
  logged "$preset" build_preset "$preset" "${@:-all}"
}

install_debian_packages
install_python_packages
export TDUMP_PYTHON
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
