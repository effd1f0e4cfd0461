// Coverage as the text that the end of the job and tdump-view both print.
#pragma once

#include <cstddef>
#include <string>

#include "io/pass_store.h"
#include "io/run_index.h"

namespace tdump::coordinator {

struct CoverageOptions {
  std::string shown;    // how the user names the run: "latest", "runs/a"; empty: as in the index
  bool colour = false;  // ANSI colours on the verdict
  size_t most = 4;      // entries of a list before "and N more"
};

// Lines, each with a newline: "tdump: COMPLETE  RUN ...", then indented facts, then what to do
// next. Four lines when all is well. Safe for a terminal.
std::string CoverageText(const io::PassStore& store, const io::RunIndex& index,
                         const CoverageOptions& options);

}  // namespace tdump::coordinator
