#include "python/ext/run.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <map>
#include <memory>
#include <set>
#include <string>

#include "core/text.h"
#include "io/address.h"
#include "io/node_env.h"
#include "io/pass_store.h"
#include "python/ext/errors.h"
#include "python/ext/record_dict.h"

namespace nb = nanobind;

namespace tdump::python {
namespace {

constexpr uint8_t kAgreed = 1, kExtra = 2;  // StepMapSection::flags

nb::dict ToDict(const io::PassEntry& pass, const io::ProcessEntry& process,
                const io::StepMapSection* step) {
  nb::dict d = python::ToDict(pass.info);
  d["process"] = process.identity.process;
  d["directory"] = Text(process.directory);
  d["file"] = Text(pass.file);
  d["offset"] = pass.offset;
  d["step"] = step != nullptr ? step->global_step : pass.info.local_step;
  d["agreed"] = step != nullptr && (step->flags & kAgreed) != 0;
  d["extra"] = step != nullptr && (step->flags & kExtra) != 0;
  d["part"] = pass.part;
  d["records"] = pass.records;
  d["calls"] = pass.calls;
  d["file_bytes"] = pass.file_bytes;
  d["payload_bytes"] = pass.payload_bytes;
  d["error"] = Text(pass.error);
  return d;
}

void AppendProcess(const io::ProcessEntry& process, nb::list* passes, nb::list* damage) {
  std::map<uint64_t, const io::StepMapSection*> steps;
  for (const io::StepMapSection& step : process.steps) steps[step.local_step] = &step;
  for (const io::PassEntry& pass : process.passes) {
    const auto step = steps.find(pass.info.local_step);
    passes->append(ToDict(pass, process, step != steps.end() ? step->second : nullptr));
  }
  for (const io::Damage& item : process.damage) damage->append(ToTuple(item));
}

nb::dict ProcessDict(const io::ProcessEntry& process) {
  nb::dict d;
  d["directory"] = Text(process.directory);
  d["rank"] = process.identity.rank;
  d["world"] = process.identity.world;
  d["selected"] = process.identity.selected != 0;
  d["closed"] = process.close.has_value();
  return d;
}

void CheckGeneration(const io::PassStore& store, uint32_t wanted) {
  std::set<uint32_t> there;
  for (const io::ProcessEntry& process : store.processes())
    there.insert(process.identity.generation);
  if (there.empty() || there.contains(wanted)) return;
  std::string list;
  for (const uint32_t generation : there)
    list += (list.empty() ? "" : ", ") + std::to_string(generation);
  Check(NotFound("'" + Printable(store.run()) + "': the run has no generation " +
                 std::to_string(wanted) + "; it has " + list));
}

// RUN, step, rank and name of "RUN:STEP/RANK/NAME" (io/address.h), None for what it does not have.
nb::tuple ResolveAddress(const nb::bytes& address) {
  const std::string text(address.c_str(), address.size());
  const io::Address found = ValueOf(io::ResolveAddress(io::RunEnv(), text));
  return nb::make_tuple(Text(found.run.text), found.step, found.rank,
                        found.name.empty() ? nb::none() : Text(found.name));
}

// One generation, named as everywhere: a directory, "latest",
// RUN@generation, RUN/rankN (io/address.h).
nb::dict ReadRun(const nb::bytes& name) {
  const std::string text(name.c_str(), name.size());
  io::RunRef ref;
  std::unique_ptr<io::PassStore> store;
  {
    nb::gil_scoped_release release;
    ref = ValueOf(io::ResolveRun(io::RunEnv(), text));
    store = ValueOf(io::PassStore::Open(io::RunEnv(), ref.path));
  }
  const uint32_t generation = io::GenerationOf(ref, *store);
  if (ref.generation) CheckGeneration(*store, generation);
  nb::list passes, damage, processes;
  for (const io::ProcessEntry& process : store->processes()) {
    if (process.identity.generation != generation) continue;
    if (ref.rank && process.identity.rank != *ref.rank) continue;
    AppendProcess(process, &passes, &damage);
    processes.append(ProcessDict(process));
  }
  nb::dict run;
  run["path"] = Text(store->run());
  run["generation"] = generation;
  run["passes"] = passes;
  run["processes"] = processes;
  run["damage"] = damage;
  return run;
}

}  // namespace

void BindRun(nb::module_& module) {
  module.def("read_run", ReadRun, "passes, processes and damage of a run directory");
  module.def("resolve_address", ResolveAddress, "(run, step, rank, name) of an address");
}

}  // namespace tdump::python
