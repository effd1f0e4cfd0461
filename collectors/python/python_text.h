// Names from Python: a str may hold what C strings and UTF-8 do not.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <optional>
#include <string>
#include <string_view>

namespace tdump::collectors {

// The whole of a str as UTF-8, with the NUL characters in it. Where it has surrogates: the bytes
// that they stand for (PEP 383), or "\udcNN" of others, kept in `made`. Valid as long as both are.
// None, with no Python error set: no str, or memory is out. Needs the GIL.
std::optional<std::string_view> Utf8Of(PyObject* text, std::string* made);

}  // namespace tdump::collectors
