// Runs made by hand of one module on several ranks.
#pragma once

#include <vector>

#include "io/statistics.h"
#include "tests/compare/diff_runs.h"

namespace tdump::compare {

inline Tensor Matrix(int64_t rows, int64_t columns, const std::vector<float>& values) {
  return MakeTensor<float>("float32", {rows, columns}, values);
}

inline const Tensor kInput = Matrix(2, 2, {1, 2, 3, 4});
inline const Tensor kWhole = Matrix(2, 4, {1, 2, 3, 4, 5, 6, 7, 8});
inline const Tensor kLeft = Matrix(2, 2, {1, 2, 5, 6});  // columns 0-1 of kWhole
inline const Tensor kRight = Matrix(2, 2, {3, 4, 7, 8});
inline const Tensor kWrongRight = Matrix(2, 2, {3, 4, 7, 9});

inline Tensor WithHashAlone(Tensor tensor) {
  tensor.record.payload.reset();
  tensor.record.parts_kept = kPartMeta | kPartHash;
  return tensor;
}

inline Tensor WithStatisticsAlone(Tensor tensor) {
  tensor.record.statistics = io::StatisticsOf(tensor.record.dtype, tensor.payload);
  tensor.record.hash.reset();
  tensor.record.payload.reset();
  tensor.record.parts_kept = kPartMeta | kPartStats;
  return tensor;
}

inline FakeRun OneRank(const Tensor& out) {
  FakeRun run(1);
  run.Pass(0, 0).Module("fc", kInput, out);
  return run;
}

inline FakeRun Ranks(const std::vector<Tensor>& outs) {
  FakeRun run(static_cast<int32_t>(outs.size()));
  for (size_t rank = 0; rank < outs.size(); ++rank)
    run.Pass(static_cast<int32_t>(rank), 0).Module("fc", kInput, outs[rank]);
  return run;
}

}  // namespace tdump::compare
