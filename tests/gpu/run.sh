#!/bin/bash
# Builds tdump on a machine with a CUDA device and proves there what no test here can: that captures of CUDA tensors
# are right, in order and cheap. Such a machine may have neither network nor our Debian packages, so they travel:
#
#   tests/gpu/run.sh pack     on a machine that has them (setup/setup.sh): collects headers and libraries into .gpu-deps
#   tests/gpu/run.sh          on the machine with the device, the tree and .gpu-deps beside it
#
# Without .gpu-deps the system's own packages are used. Needs there: g++, cmake, ninja, python3 with torch (CUDA),
# numpy, nanobind and pytest. BUILD names the build folder (default build-gpu), OUT one for results (JSON, logs), PARTS
# what to do (default "device build captures bench"). Every part has a time limit of its own; the exit status is that of
# the worst.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
deps=$root/.gpu-deps

# Headers, libraries and the files by which CMake and pkg-config find them; run-time libraries; pkg-config itself.
pack() {
  local packages="libyaml-cpp-dev libyaml-cpp0.7 libcereal-dev libpcre2-dev libpcre2-8-0 libcli11-dev libfmt-dev libfmt9
    libxxhash-dev libxxhash0 libzstd-dev libzstd1 nlohmann-json3-dev libgtest-dev libgmock-dev libhwy-dev libhwy1
    libblosc-dev libblosc1 liblz4-1 libsnappy1v5 zlib1g pkgconf-bin libpkgconf3"
  rm -rf "$deps" && mkdir -p "$deps" || return
  local package file
  for package in $packages; do
    dpkg -L "$package" 2>/dev/null | while read -r file; do
      case $file in
        /usr/include/*|*/cmake/*|*/pkgconfig/*|*/lib*.so*|*/libg*.a|/usr/bin/pkgconf) ;;
        *) continue ;;
      esac
      [ -f "$file" ] || continue
      local to=${file#/usr}
      to=$deps/${to#/}
      mkdir -p "$(dirname "$to")" && cp -a "$file" "$to"
    done
  done
  # From wherever they come to lie.
  find "$deps/lib" -path '*/pkgconfig/*.pc' -exec sed -i 's|^prefix=.*|prefix=${pcfiledir}/../../..|; s|/usr/|${prefix}/|g' {} +
  find "$deps/share" -path '*/pkgconfig/*.pc' -exec sed -i 's|^prefix=.*|prefix=${pcfiledir}/../..|; s|/usr/|${prefix}/|g' {} +
  du -sm "$deps"
}

if [ "${1:-}" = pack ]; then pack; exit; fi

cd "$root" || exit 2
build=${BUILD:-$root/build-gpu}
out=${OUT:-$build/results}
python=$(command -v python3)
mkdir -p "$out"
worst=0
started=$SECONDS

# part NAME SECONDS COMMAND...: runs it, says how it went and how long it took, keeps its output.
part() {
  local name=$1 limit=$2 from=$SECONDS
  shift 2
  timeout -k 5 "$limit" "$@" > "$out/$name.log" 2>&1
  local status=$?
  [ $status -gt $worst ] && worst=$status
  [ $status = 0 ] || { echo "---- the end of $name.log"; tail -n 40 "$out/$name.log"; }
  echo "==== $name: $([ $status = 0 ] && echo ok || echo "FAILED ($status)"), $((SECONDS - from)) s"
  return $status
}

configure=(-DCMAKE_BUILD_TYPE=Release -DTDUMP_MPI=OFF -DTDUMP_EXAMPLES=OFF "-DTDUMP_PYTHON_EXECUTABLE=$python")
if [ -d "$deps" ]; then
  libs=$deps/lib/x86_64-linux-gnu
  # Found at run time where they lie, also by each other; nothing else of the machine sees them.
  linking="-Wl,--disable-new-dtags,-rpath,$libs,-rpath-link,$libs"
  configure+=("-DCMAKE_PREFIX_PATH=$deps" "-DCMAKE_EXE_LINKER_FLAGS=$linking" "-DCMAKE_SHARED_LINKER_FLAGS=$linking"
    "-DCMAKE_MODULE_LINKER_FLAGS=$linking" "-DPKG_CONFIG_EXECUTABLE=$build/pkgconf")
  mkdir -p "$build"
  printf '#!/bin/sh\nPKG_CONFIG_LIBDIR=%s LD_LIBRARY_PATH=%s exec %s "$@"\n' \
    "$libs/pkgconfig:$deps/share/pkgconfig" "$libs" "$deps/bin/pkgconf" > "$build/pkgconf"
  chmod +x "$build/pkgconf"
fi
header=$("$python" -c 'import os, sysconfig; print(os.path.join(sysconfig.get_paths()["include"], "Python.h"))')
targets=(cuda_device_test tdump_cuda)
if [ -f "$header" ]; then
  targets+=(tdump tdump_torch tdump_shim tdump-run tdump_python_torch tdump_python_io)
else
  echo "no $header: without the Python parts"
  configure+=(-DTDUMP_PYTHON=OFF -DTDUMP_TORCH=OFF)
fi

wanted() { case " ${PARTS:-device build captures bench} " in *" $1 "*) true ;; *) false ;; esac; }

part configure 60 cmake -S "$root" -B "$build" -G Ninja "${configure[@]}" || exit $worst
if wanted device; then
  part build_device_test 90 cmake --build "$build" -j "$(nproc)" --target cuda_device_test
  part device_test 60 "$build/tests/cuda_device_test"
  grep -h '^measured' "$out/device_test.log" | cut -d' ' -f2-
fi
[ -f "$header" ] || exit $worst
if wanted build; then
  part build 180 cmake --build "$build" -j "$(nproc)" --target "${targets[@]}" || exit $worst
fi
export TDUMP_BUILD=$build
wanted captures && part captures 150 "$python" -m pytest -q -p no:cacheprovider tests/gpu
wanted bench && part bench 120 "$python" tests/gpu/bench_device.py --json "$out/bench.json" && cat "$out/bench.log"
echo "==== all: $([ $worst = 0 ] && echo ok || echo "FAILED ($worst)"), $((SECONDS - started)) s"
exit $worst
