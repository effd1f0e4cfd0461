# Finds LibTorch inside the importable torch wheel without its TorchConfig.cmake, which fails without a GPU and mixes
# in the system's NCCL. Python: TDUMP_PYTHON_EXECUTABLE, else .venv, else python3.
#
# Defines: tdump_libtorch (C++ library), tdump_libtorch_python (adds libtorch_python and Python.h),
#          TDUMP_TORCH_VERSION, TDUMP_TORCH_LIB_DIR.
include_guard(GLOBAL)

if(NOT TDUMP_PYTHON_EXECUTABLE)
  if(EXISTS ${CMAKE_SOURCE_DIR}/.venv/bin/python)
    set(TDUMP_PYTHON_EXECUTABLE ${CMAKE_SOURCE_DIR}/.venv/bin/python CACHE FILEPATH "Python whose torch is used")
  else()
    find_program(TDUMP_PYTHON_EXECUTABLE NAMES python3 REQUIRED)
  endif()
endif()

set(_probe [=[
import importlib.util, os, re, sysconfig
spec = importlib.util.find_spec("torch")
assert spec, "torch is not importable"
root = os.path.dirname(spec.origin)
text = open(os.path.join(root, "version.py")).read()
version = re.search(r"__version__ = '([^']+)'", text).group(1)
print(";".join([root, version, sysconfig.get_paths()["include"], sysconfig.get_config_var("EXT_SUFFIX")]))
]=])
execute_process(COMMAND ${TDUMP_PYTHON_EXECUTABLE} -c "${_probe}"
  OUTPUT_VARIABLE _torch OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_VARIABLE _error RESULT_VARIABLE _rc)
if(NOT _rc EQUAL 0)
  message(FATAL_ERROR "No torch found with ${TDUMP_PYTHON_EXECUTABLE}: ${_error}\n"
    "Run ./demo or ./check once (they install it into .venv), name another Python with "
    "-DTDUMP_PYTHON_EXECUTABLE=..., or build without LibTorch: cmake --preset no-torch")
endif()
list(GET _torch 0 _root)
list(GET _torch 1 TDUMP_TORCH_VERSION)
list(GET _torch 2 TDUMP_PYTHON_INCLUDE_DIR)
list(GET _torch 3 TDUMP_PYTHON_EXT_SUFFIX)
set(TDUMP_TORCH_LIB_DIR ${_root}/lib)
message(STATUS "LibTorch ${TDUMP_TORCH_VERSION} (${_root})")

# libtorch (the umbrella) needs the CUDA libraries of the wheel; libtorch_cpu and libc10 are what a CPU program uses.
add_library(tdump_libtorch INTERFACE)
target_include_directories(tdump_libtorch SYSTEM INTERFACE
  ${_root}/include ${_root}/include/torch/csrc/api/include)
# NDEBUG always: at::RecordFunction has another layout without it (docs/design.md, "LibTorch").
target_compile_definitions(tdump_libtorch INTERFACE NDEBUG _GLIBCXX_USE_CXX11_ABI=1
  TDUMP_TORCH_VERSION="${TDUMP_TORCH_VERSION}")
target_link_libraries(tdump_libtorch INTERFACE
  ${TDUMP_TORCH_LIB_DIR}/libtorch_cpu.so ${TDUMP_TORCH_LIB_DIR}/libc10.so)

add_library(tdump_libtorch_python INTERFACE)
target_include_directories(tdump_libtorch_python SYSTEM INTERFACE ${TDUMP_PYTHON_INCLUDE_DIR})
target_link_libraries(tdump_libtorch_python INTERFACE tdump_libtorch ${TDUMP_TORCH_LIB_DIR}/libtorch_python.so)
