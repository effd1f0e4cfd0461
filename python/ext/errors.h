// Status of the C++ layers as Python exceptions. Everything bound throws StatusError; the
// translator that RegisterErrors installs turns it into: corrupt -> tdump.DamagedError, not found
// -> FileNotFoundError, invalid -> ValueError, not in this version -> NotImplementedError, anything
// else -> OSError. The message is the status's, which names file and offset.
#pragma once

#include <nanobind/nanobind.h>

#include <stdexcept>
#include <utility>

#include "core/status.h"

namespace tdump::python {

struct StatusError : std::runtime_error {
  explicit StatusError(const Status& status)
      : std::runtime_error(status.message()), code(status.code()) {}
  StatusCode code;
};

inline void Check(const Status& status) {
  if (!status.ok()) throw StatusError(status);
}

template <class T>
T ValueOf(Result<T>&& result) {
  Check(result.status());
  return std::move(*result);
}

void RegisterErrors(nanobind::module_& module);

}  // namespace tdump::python
