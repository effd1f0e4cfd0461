// How fast this machine copies, hashes and writes, for tdump-run --estimate.
#pragma once

#include <string>

#include "core/status.h"

namespace tdump::launch {

// Bytes a second of one thread, measured beside whatever else the machine does now: it did so when
// the steps were timed. 0: not known.
struct Rates {
  double copy = 0;  // from memory to memory
  double hash = 0;
  double statistics = 0;  // of float32
  double write = 0;       // to files in the folder of the run, as far as the page cache takes it
  double disk = 0;        // the same, until it is on the disk
  unsigned cores = 0;     // that this process may use; 0: not known
};

// The folder, or what of the path to it is there.
std::string NearestFolder(const std::string& folder);

// `folder`: of the run, there or not; a file without a name is written where it will be.
Rates MeasureRates(const std::string& folder);

// A line each, "copy 5000000000": what --rates FILE writes and reads.
std::string RatesText(const Rates& rates);
Result<Rates> ReadRates(const std::string& file);
// An error where the file is there and is none of those; before a job is run for it.
Status CheckRates(const std::string& file);
// Those in `file`, which is written where it is not there; measured where no file is named.
Result<Rates> RatesFor(const std::string& file, const std::string& folder);

}  // namespace tdump::launch
