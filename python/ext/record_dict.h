// What the readers of io return, as dictionaries of plain Python values: the fields
// of the dataclasses in python/tdump/_records.py. Texts of a file need not be UTF-8:
// bytes that are not become surrogates.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <string_view>
#include <vector>

#include "io/records.h"

namespace tdump::python {

nanobind::object Text(std::string_view text);
nanobind::tuple Texts(const std::vector<std::string>& texts);
nanobind::tuple Integers(const std::vector<int64_t>& values);
nanobind::dict ToDict(const io::PassInfo& info);
nanobind::dict ToDict(const io::Record& record);
nanobind::dict ToDict(const io::CallRecord& call);
nanobind::tuple ToTuple(const io::Damage& damage);  // file, offset, what

}  // namespace tdump::python
