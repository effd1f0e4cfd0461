#include "python/ext/errors.h"

namespace tdump::python {
namespace {

PyObject* damaged_error = nullptr;  // lives as long as the interpreter

PyObject* TypeFor(StatusCode code) {
  switch (code) {
    case StatusCode::kCorrupt:
      return damaged_error;
    case StatusCode::kNotFound:
      return PyExc_FileNotFoundError;
    case StatusCode::kInvalidArgument:
    case StatusCode::kOutOfRange:
      return PyExc_ValueError;
    case StatusCode::kUnsupported:
      return PyExc_NotImplementedError;
    default:
      return PyExc_OSError;
  }
}

void Translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const StatusError& error) {
    PyErr_SetString(TypeFor(error.code), error.what());
  }
}

}  // namespace

void RegisterErrors(nanobind::module_& module) {
  damaged_error = PyErr_NewExceptionWithDoc(
      "tdump.DamagedError",
      "Bytes on disk are not what the format says. The message names file and offset.", nullptr,
      nullptr);
  if (damaged_error == nullptr) throw nanobind::python_error();
  module.attr("DamagedError") = nanobind::handle(damaged_error);
  nanobind::register_exception_translator(Translate);
}

}  // namespace tdump::python
