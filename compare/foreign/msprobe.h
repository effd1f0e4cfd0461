// dump.json of msprobe: for each operator of a rank and step, in order, its tensors: dtype, shape,
// and in which file of dump_tensor_data the values are; without values the statistics (Max, Min,
// Mean, Norm, computed in float32) or the checksum.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compare/foreign/byte_source.h"
#include "compare/foreign/dump_names.h"
#include "compare/summary.h"
#include "core/types.h"

namespace tdump::compare::foreign {

struct ProbeTensor {
  NamedKey name;
  std::optional<DType> dtype;  // none: one that is not known
  std::vector<int64_t> sizes;
  std::string data_name;  // a file name; empty: no values
  std::optional<Summary> summary;
};

// Errors: kCorrupt, with the offset. A file name that leaves the directory is one.
Result<std::vector<ProbeTensor>> ReadProbeIndex(Bytes file);

}  // namespace tdump::compare::foreign
