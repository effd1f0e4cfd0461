// VerifyPass: reads all of a pass file and says what does not hold.
#pragma once

#include <vector>

#include "core/status.h"
#include "io/frame_file.h"
#include "io/records.h"

namespace tdump::io {

// Appends to `damage`. The status is not ok only when the file cannot
// be read at all (operating system).
Status VerifyPass(const FrameFile& file, std::vector<Damage>* damage);

}  // namespace tdump::io
