// The body of a record's frame without the digests of its tiles, which of a large tensor are nearly
// all of it.
#pragma once

#include <cstddef>
#include <vector>

#include "io/frame_file.h"

namespace tdump::io {

// The digests are not read, so the checksum of the body is not looked at. Each section that is kept
// is checked by its own; damage in a section's header shows as a kind of section that is not known,
// or does not decode, or has not the length that the payload's asks for. Empty: the digests are
// few, or something is not as expected, which the whole body tells.
std::vector<std::byte> BodyWithoutTiles(FrameCursor* cursor, const Frame& frame);

}  // namespace tdump::io
