// What users write where a tool asks for a run or a record
// (docs/guide.md, "Naming runs and records").
//
//   RUN      = directory | "latest" | RUN "@" generation | RUN "/rank" N | rank directory
//            | pass file | packed file [ "#" ordinal of a pass ]
//   ADDRESS  = RUN [ ":" step [ "/" rank [ "/" name ] ] ]
//   name     = plain name or key text, each with "::callN", "@role" and "#arg" left out at will:
//              latest:4/2/encoder.layer.0.attention    runs/a:0/1/mlp/aten::mm::call1@input#1
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/env.h"
#include "core/key.h"
#include "core/status.h"
#include "io/pass_store.h"

namespace tdump::io {

struct RunRef {
  std::string text;  // as written
  // What PassStore::Open takes; relative to the working directory, "latest" resolved.
  std::string path;
  std::optional<uint32_t> generation;  // none: the newest
  std::optional<int32_t> rank;         // none: all
};

struct Address {
  RunRef run;
  std::optional<uint64_t> step;
  std::optional<int32_t> rank;
  std::string name;  // as written; empty: all records
};

// Error: kNotFound, saying which runs are there instead.
Result<RunRef> ResolveRun(Env* env, std::string_view text);
// A path that exists as it is written is a run, whatever colons it holds.
Result<Address> ResolveAddress(Env* env, std::string_view text);

// Whether an address's `name` means the record or call with this key. A name without "::callN"
// means call 0; one without role, arg or marks ("~m1.b") means any.
bool NameMatches(std::string_view name, const Key& key);

// The generation a reference means: its own, else the newest of the
// store (0 when it has no process).
uint32_t GenerationOf(const RunRef& run, const PassStore& store);

}  // namespace tdump::io
