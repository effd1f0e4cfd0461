// Amounts as people write them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/status.h"

namespace tdump::filters {

// "256MiB", "2GiB", "10 GB", "4096". KiB MiB GiB TiB are powers of 1,024, kB MB GB TB of 1,000.
Result<uint64_t> ParseBytes(std::string_view text);
// The largest binary unit that divides it: 268435456 -> "256MiB".
std::string FormatBytes(uint64_t bytes);

// "30s", "500ms", "2m", "1h", "30" (seconds).
Result<double> ParseSeconds(std::string_view text);
std::string FormatSeconds(double seconds);

}  // namespace tdump::filters
