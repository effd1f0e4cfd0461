#include "python/ext/pass_file.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/node_env.h"
#include "io/pass_reader.h"
#include "io/pass_store.h"
#include "io/printed_name.h"
#include "io/value_parts.h"
#include "python/ext/errors.h"
#include "python/ext/name_index.h"
#include "python/ext/payload.h"
#include "python/ext/record_dict.h"

namespace nb = nanobind;

namespace tdump::python {
namespace {

// Bytes of a path as Python gives them: os.fsencode(path).
std::unique_ptr<io::PassReader> OpenPass(const nb::bytes& path) {
  const std::string file(path.c_str(), path.size());
  nb::gil_scoped_release release;
  return ValueOf(io::PassReader::Open(io::RunEnv(), file));
}

// `offset` other than 0: a pass of `bytes` in a packed file. The others: which pass the manifest
// has there.
std::unique_ptr<io::PassReader> OpenListedPass(const nb::bytes& path, uint64_t offset,
                                               uint64_t bytes, uint64_t ordinal, int32_t rank,
                                               int64_t pid) {
  const std::string file(path.c_str(), path.size());
  nb::gil_scoped_release release;
  auto pass = ValueOf(offset != 0 ? io::PassReader::Open(io::RunEnv(), file, offset, bytes)
                                  : io::PassReader::Open(io::RunEnv(), file));
  io::PassInfo listed;
  listed.ordinal = ordinal;
  listed.rank = rank;
  listed.pid = pid;
  Check(io::CheckWhose(pass->info(), listed, file));
  return pass;
}

// Name -> id, in the order of the list.
nb::dict NamesDict(const std::vector<NameIndex::Named>& list) {
  nb::dict names;
  for (const NameIndex::Named& named : list) {
    if (PyDict_SetDefault(names.ptr(), Text(named.name).ptr(), nb::int_(named.id).ptr()) == nullptr)
      throw nb::python_error();
  }
  return names;
}

// Bytes that are no UTF-8 come as Text() gave them away.
std::optional<uint64_t> FindKey(const NameIndex& names, const nb::str& text) {
  Py_ssize_t bytes = 0;
  if (const char* utf8 = PyUnicode_AsUTF8AndSize(text.ptr(), &bytes))
    return names.Find({utf8, static_cast<size_t>(bytes)});
  PyErr_Clear();
  const nb::bytes raw =
      nb::steal<nb::bytes>(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "surrogateescape"));
  if (!raw.is_valid()) throw nb::python_error();
  return names.Find({raw.c_str(), raw.size()});
}

// Of the records that the name of an address means (io/printed_name.h), in file order.
std::vector<uint64_t> FindNamed(const io::PassReader& pass, const nb::bytes& name) {
  const std::string text(name.c_str(), name.size());
  nb::gil_scoped_release release;
  std::vector<uint64_t> ids;
  (void)pass.ForEachRecord([&](const io::Record& record) {  // damage: told by names()
    if (io::NameMatchesPrinted(text, record)) ids.push_back(record.id);
    return true;
  });
  return ids;
}

std::unique_ptr<NameIndex> IndexNames(const io::PassReader& pass) {
  nb::gil_scoped_release release;
  return std::make_unique<NameIndex>(pass);
}

nb::list Calls(const io::PassReader& pass, uint64_t first, uint64_t count) {
  nb::list list;
  uint64_t position = 0;
  const Status status = pass.ForEachCall([&](const io::CallRecord& call) {
    if (position++ >= first) list.append(ToDict(call));
    return position < first + count;
  });
  if (list.size() == 0) Check(status);
  return list;
}

nb::list DamageOf(const io::PassReader& pass) {
  nb::list list;
  for (const io::Damage& damage : pass.damage()) list.append(ToTuple(damage));
  return list;
}

nb::list Verify(const io::PassReader& pass) {
  std::vector<io::Damage> found;
  {
    nb::gil_scoped_release release;
    Check(pass.Verify(&found));
  }
  nb::list list;
  for (const io::Damage& damage : found) list.append(ToTuple(damage));
  return list;
}

std::unique_ptr<Payload> OpenPayload(const io::PassReader& pass, uint64_t id, bool verify) {
  nb::gil_scoped_release release;
  const io::Record record = ValueOf(pass.Get(id));
  const bool is_slice = !record.payload && record.slice;
  return Payload::Open(pass, is_slice ? io::SliceAsRecord(record) : record, verify);
}

}  // namespace

void BindPassFile(nb::module_& module) {
  nb::class_<io::PassReader>(module, "PassFile")
      .def_prop_ro("path", [](const io::PassReader& pass) { return Text(pass.path()); })
      .def_prop_ro("info", [](const io::PassReader& pass) { return ToDict(pass.info()); })
      .def_prop_ro("complete", &io::PassReader::complete)
      .def_prop_ro("record_count", &io::PassReader::record_count)
      .def_prop_ro("damage", DamageOf)
      .def("names", IndexNames, "one walk over all records")
      .def("named", FindNamed, "ids of the records that the name of an address means")
      .def("record",
           [](const io::PassReader& pass, uint64_t id) { return ToDict(ValueOf(pass.Get(id))); })
      .def("calls", Calls, nb::arg("first"), nb::arg("count"))
      .def("payload", OpenPayload, nb::arg("id"), nb::arg("verify"))
      .def("verify", Verify);
  nb::class_<NameIndex>(module, "NameIndex")
      .def_prop_ro("kept", [](const NameIndex& names) { return NamesDict(names.kept()); })
      .def_prop_ro("not_kept", [](const NameIndex& names) { return NamesDict(names.not_kept()); })
      .def_prop_ro("aliases", [](const NameIndex& names) { return NamesDict(names.aliases()); })
      .def_prop_ro("order", [](const NameIndex& names) { return names.order(); })
      .def_prop_ro("error",
                   [](const NameIndex& names) {
                     const Status& status = names.status();
                     return status.ok() ? nb::none() : Text(status.message());
                   })
      .def("find", FindKey, "id of the record with this key text, or None");
  module.def("open_pass", OpenPass);
  module.def("open_listed_pass", OpenListedPass, nb::arg("path"), nb::arg("offset"),
             nb::arg("bytes"), nb::arg("ordinal"), nb::arg("rank"), nb::arg("pid"));
}

}  // namespace tdump::python
