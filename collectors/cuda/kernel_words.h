// Words and warps, as every kernel names them. Includes nothing.
#pragma once

namespace tdump::collectors {

using u8 = unsigned char;
using u32 = unsigned int;
using u64 = unsigned long long;

constexpr u32 kWarp = 32;
constexpr u32 kFull = 0xffffffffu;
constexpr u32 kTileBytes = 16384;

}  // namespace tdump::collectors
