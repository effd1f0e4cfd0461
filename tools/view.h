// The faces of tdump-view. Each prints to standard output and returns the exit status.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/options.h"
#include "tools/record_filter.h"
#include "tools/run_source.h"

namespace tdump::tools {

inline constexpr const char* kViewTool = "tdump-view";

struct ViewRequest {
  LoadedRun run;
  std::string shown;  // how the user named the run: "latest", "runs/a@1"
  RecordFilter filter;
  CommonOptions common;
  std::string sort = "none";                // none, absmax, rms, nan, bytes
  uint64_t top = 40;                        // rows; ~0: all
  uint64_t values = 4;                      // of each record
  std::optional<std::vector<uint64_t>> at;  // of an element: values are those beside it
  bool exponents = false;                   // count those of all values
  unsigned jobs = 0;                        // threads; 0: one a core, at most 16
  std::string name_pattern;                 // of --names
  std::vector<std::string> select;          // the patterns behind the filter's
};

// "there are steps 0-5 on ranks 0-1": the passes of a run.
std::string PassesText(const LoadedRun& run);
// That no record is what was asked for, with names that come near. Status 2.
int FailWithoutRecords(const ViewRequest& request);
// The same of the passes that are asked for: which there are.
int FailWithoutPass(const ViewRequest& request);
// "ranks 0-7", of the whole job.
std::string RanksText(const io::RunIndex& index);

int ViewRun(const ViewRequest& request);       // coverage and signature; without a face asked for
int ViewCoverage(const ViewRequest& request);  // the same at length, by rank
int ViewNames(const ViewRequest& request);     // operators
int ViewRecords(const ViewRequest& request);   // a table of records
int ViewTensors(const ViewRequest& request);   // the records of one name, with values
int ViewLog(const ViewRequest& request);       // the calls of each pass, as a tree
int ViewNan(const ViewRequest& request);       // the first NaN in time
int ViewCrash(const ViewRequest& request);     // what each process was in when it ended
int ViewText(const ViewRequest& request, const std::string& path);  // exports
int ViewVerify(const ViewRequest& request);                         // reads every byte

}  // namespace tdump::tools
