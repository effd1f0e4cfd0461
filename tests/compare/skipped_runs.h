// Runs of ranks of which one lacks what the others ran.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "tests/compare/job_runs.h"

namespace tdump::compare {

inline const Tensor kBatch = Matrix(4, 2, {1, 2, 3, 4, 5, 6, 7, 8});
inline const Tensor kFirstRows = Matrix(2, 2, {1, 2, 3, 4});
inline const Tensor kLastRows = Matrix(2, 2, {5, 6, 7, 8});

// The modules a, `name`, which the rank may lack, and c.
inline void RunThree(PassBuilder pass, const std::string& name, const Tensor& in,
                     const Tensor& of_a, const Tensor& of_c, bool without) {
  pass.Module("a", in, of_a);
  if (!without) pass.Module(name, in, in);
  pass.Module("c", in, of_c);
}

inline void ExpectSame(const DiffReport& report) {
  EXPECT_EQ(report.overall, Overall::kSame) << Joined(Text(report, 1, 4));
  EXPECT_EQ(report.counts.unpaired_a + report.counts.unpaired_b, 0u);
  EXPECT_FALSE(report.origin);
}

}  // namespace tdump::compare
