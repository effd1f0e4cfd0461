// What one step of one rank of a dump holds.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compare/foreign/dump_catalog.h"
#include "compare/foreign/dump_names.h"
#include "compare/foreign/foreign_tensor.h"
#include "compare/summary.h"
#include "io/records.h"

namespace tdump::compare::foreign {

struct DumpTensor {
  NamedKey name;
  DType dtype;
  std::vector<int64_t> sizes;
  std::optional<ForeignTensor> values;  // none: only described
  std::string dims;                     // as the dump annotates it (settings/dims.h); "" for none
  std::optional<Summary> summary;       // of what has no values
};

struct DumpContents {
  std::vector<DumpTensor> tensors;  // in the dump's order
  std::vector<std::string> skipped;
  std::vector<io::Damage> damage;  // files that could not be read; the others are there
};

DumpContents ReadDump(const std::shared_ptr<OpenFiles>& files, DumpKind kind, const DumpUnit& unit);

}  // namespace tdump::compare::foreign
