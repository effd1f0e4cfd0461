#include "python/ext/pass_file.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "core/key.h"
#include "io/pass_reader.h"
#include "io/value_parts.h"
#include "python/ext/errors.h"
#include "python/ext/payload.h"
#include "python/ext/record_dict.h"

namespace nb = nanobind;

namespace tdump::python {
namespace {

// Bytes of a path as Python gives them: os.fsencode(path).
// `offset` other than 0: a pass of `bytes` in a packed file.
std::unique_ptr<io::PassReader> OpenPass(const nb::bytes& path, uint64_t offset, uint64_t bytes) {
  const std::string file(path.c_str(), path.size());
  nb::gil_scoped_release release;
  if (offset != 0) return ValueOf(io::PassReader::Open(Env::Posix(), file, offset, bytes));
  return ValueOf(io::PassReader::Open(Env::Posix(), file));
}

// What the plain view is made from, of every record that can be read, in file
// order. Far smaller than the records.
struct Entry {
  uint64_t id;
  std::string name;
  std::string arg;
  uint64_t call_begin;
  uint64_t seen;
  bool plain;                        // an output of the forward phase, not recomputed
  int values;                        // ValuesOf
  std::vector<std::string> aliases;  // `name` by the other paths of a shared module
};

std::vector<std::string> AliasNames(const io::Record& record) {
  std::vector<std::string> names;
  for (const std::string& path : record.aliases)
    names.push_back(PlainName(record.key.root, path, record.key.op));
  return names;
}

// 1: its own. 2: those of its components, if they kept theirs. 0: none.
int ValuesOf(const io::Record& record) {
  if (record.payload || record.slice) return 1;
  const bool composite = record.layout >= Layout::kSparseCoo && record.layout <= Layout::kJagged;
  return composite && record.reason == SkipReason::kNone ? 2 : 0;
}

nb::tuple Entries(const io::PassReader& pass) {
  std::vector<Entry> entries;
  Status status;
  {
    nb::gil_scoped_release release;
    entries.reserve(pass.record_count());
    status = pass.ForEachRecord([&](const io::Record& record) {
      const Key& key = record.key;
      const bool plain =
          key.role == Role::kOutput && key.phase == Phase::kForward && !key.recompute;
      entries.push_back({record.id, PlainName(key.root, key.path, key.op), key.arg,
                         record.call_begin, record.seen, plain, ValuesOf(record),
                         AliasNames(record)});
      return true;
    });
  }
  nb::list list;
  for (const Entry& entry : entries) {
    list.append(nb::make_tuple(entry.id, Text(entry.name), Text(entry.arg), entry.call_begin,
                               entry.seen, entry.plain, entry.values, Texts(entry.aliases)));
  }
  return nb::make_tuple(list, status.ok() ? nb::none() : Text(status.message()));
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

uint64_t FindRecord(const io::PassReader& pass, const std::string& text) {
  return ValueOf(pass.Find(ValueOf(ParseKey(text)))).id;
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
      .def("entries", Entries, "(tuples of what the plain view needs, the first error or None)")
      .def("record",
           [](const io::PassReader& pass, uint64_t id) { return ToDict(ValueOf(pass.Get(id))); })
      .def("find", FindRecord, "id of the record with this key text")
      .def("calls", Calls, nb::arg("first"), nb::arg("count"))
      .def("payload", OpenPayload, nb::arg("id"), nb::arg("verify"))
      .def("verify", Verify);
  module.def("open_pass", OpenPass);
}

}  // namespace tdump::python
