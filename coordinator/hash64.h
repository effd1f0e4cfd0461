// XXH3-64, plain and chained. The job hash of file headers is Hash64(job key).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tdump::coordinator {

uint64_t Hash64(std::string_view bytes, uint64_t seed = 0);
std::string Hex8(uint64_t hash);  // the low 32 bits, 8 digits

}  // namespace tdump::coordinator
