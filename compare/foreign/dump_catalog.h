// DumpCatalog: which steps and ranks a dump of another tool has, told by the names of its files and
// directories. Layouts:
//
//   passes   DIR/TP0_PP0_Rank0_pid77/Pass00000.pt (SGLang), DIR/rank0_pid77/pass00000.pt (phyai):
//            a dictionary name -> tensor for each engine step
//   tagged   DIR/step=0___rank=0___dump_index=1___name=q.pt (SGLang's dumper): a file a tensor
//   probe    DIR/step0/rank0/dump.json, dump_tensor_data/ (msprobe); proc77 for rank0 where the job
//            has no ranks
//   exports  DIR/step0_rank0.safetensors, or .npz (tdump-export): a file for each pass of a run
//   files    one file of tensors, or a directory of them: one step of one rank
//
// A directory further inside (one rank, one step) is taken as well.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/env.h"
#include "core/status.h"

namespace tdump::compare::foreign {

enum class DumpKind : uint8_t { kPasses, kTagged, kProbe, kFiles };
std::string_view ToString(DumpKind kind);

struct DumpUnit {
  uint64_t step = 0;
  int32_t rank = 0;
  uint32_t process = 0;  // of several processes that had the rank: which
  bool extra = false;    // a step that the rank ran beyond the others
  std::string directory;
  std::vector<std::string> files;  // in it; of kProbe none: all of it
};

struct DumpCatalog {
  DumpKind kind = DumpKind::kFiles;
  std::vector<DumpUnit> units;                 // by step, rank, process, extra
  std::map<int32_t, std::string> coordinates;  // of a rank: "tp=1 pp=0"
  std::optional<int32_t> rank;                 // `path` was the directory of one rank
};

// Errors: kNotFound: none of these, naming what was looked for; kInvalidArgument: several dumps in
// one directory, naming them.
Result<DumpCatalog> FindDump(Env* env, const std::string& path);

}  // namespace tdump::compare::foreign
