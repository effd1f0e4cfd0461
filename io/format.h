// The byte layout of pass files and manifests: constants and fixed headers. docs/format.md is the
// specification; this file is its C++ form. Both kinds of file are one FileHeader and then frames;
// a pass file ends with a FileFooter.
//
// All integers are little-endian. A file written on a big-endian machine has `byte_order` swapped
// and is read as such.
//
//   file   = FileHeader (64 bytes) { frame } [ index frame, FileFooter (64 bytes) ]
//   frame  = FrameHeader (32 bytes) body padding-to-8
//   body   = { section }            for every kind but kPad and kPayload
//          | payload bytes          for kPayload: starts at a multiple of 64 (4096 when longer than
//                                   1 MiB); a kPad frame in front of it makes room
//   section= SectionHeader (24 bytes) archive padding-to-8
//   packed = FileHeader padding-to-4096 { file padding-to-4096 }     several passes in one file;
//            offsets inside a pass count from its own FileHeader
//   node   = FileHeader, NodeState at 512, padding-to-4096 { extent }    files of many processes
//   extent = ExtentHeader (a page), data (whole pages)
//
// A frame is valid when its header checksum and its body checksum hold. Reading stops at the first
// header that is not a frame (a torn tail); everything before it stands.
#pragma once

#include <cstdint>

namespace tdump::io {

inline constexpr uint64_t kPassMagic = 0x3153'5341'5044'5400;      // file bytes "\0TDPASS1"
inline constexpr uint64_t kManifestMagic = 0x314E'414D'5044'5400;  // file bytes "\0TDPMAN1"
inline constexpr uint64_t kPackMagic = 0x314B'4350'5044'5400;      // file bytes "\0TDPPCK1"
inline constexpr uint64_t kNodeMagic = 0x3144'4F4E'5044'5400;      // file bytes "\0TDPNOD1"
inline constexpr uint64_t kExtentMagic = 0x3154'5845'5044'5400;    // "\0TDPEXT1"
inline constexpr uint64_t kFooterMagic = 0x3144'4E45'5044'5400;    // file bytes "\0TDPEND1"
inline constexpr uint32_t kByteOrder = 0x0102'0304;
inline constexpr uint32_t kFrameMagic = 0x4D52'4654;  // file bytes "TFRM"
// A reader refuses a larger major; a larger minor it reads, skipping what it does not know.
inline constexpr uint16_t kVersionMajor = 1;
inline constexpr uint16_t kVersionMinor = 0;

inline constexpr uint64_t kHashTile = 16 * 1024;
inline constexpr uint64_t kPayloadAlign = 64;
inline constexpr uint64_t kLargePayload = 1 << 20;
inline constexpr uint64_t kLargePayloadAlign = 4096;
inline constexpr uint64_t kManifestReserve = 64 * 1024;
inline constexpr uint64_t kPackAlign = 4096;  // a pass in a packed file begins at a multiple

struct FileHeader {
  uint64_t magic = 0;
  uint32_t byte_order = kByteOrder;
  uint16_t version_major = kVersionMajor;
  uint16_t version_minor = kVersionMinor;
  uint64_t ordinal = 0;  // of the pass; 0 in a manifest
  int32_t rank = 0;
  uint32_t generation = 0;
  int64_t pid = 0;
  uint64_t job_hash = 0;    // XXH3-64 of the job key
  uint64_t created_ns = 0;  // wall clock, since the epoch
  uint64_t checksum = 0;    // XXH3-64 of the 56 bytes before
};
static_assert(sizeof(FileHeader) == 64);

enum class FrameKind : uint16_t {
  kPad = 0,
  kPass = 1,      // sections: PassSection
  kName = 2,      // NameSection: an interned string, before its first use
  kOperator = 3,  // OperatorSection: before its first use
  kCall = 4,      // CallSection
  kRecord = 5,    // RecordSection and its companions; after its payload frame
  kPayload = 6,
  kAlias = 7,    // AliasSection
  kIndex = 8,    // IndexSection
  kPassEnd = 9,  // PassEndSection
  // In manifests.
  kIdentity = 32,
  kPassDone = 33,
  kStepMap = 34,
  kExpect = 35,  // an operator the plan selects
  kRule = 36,    // how many operators a rule matched
  kNote = 37,
  kClose = 38,
  kAgreement = 39,  // transport, lag, world seen
  kRemoved = 41,    // passes whose files were removed
  kMerged = 40,     // head of a merged manifest
};

// Of a payload frame: stored in a codec other than 0.
inline constexpr uint16_t kFrameCompressed = 1;

struct FrameHeader {
  uint32_t magic = kFrameMagic;
  uint16_t kind = 0;
  uint16_t flags = 0;       // kFrame...; readers ignore what they do not know
  uint64_t body_bytes = 0;  // without padding
  // XXH3-64 of the body; for kPayload the low 64 bits of the payload's tile hash.
  uint64_t body_checksum = 0;
  uint64_t checksum = 0;  // XXH3-64 of the 24 bytes before
};
static_assert(sizeof(FrameHeader) == 32);

struct SectionHeader {
  uint32_t id = 0;
  uint32_t reserved = 0;
  uint64_t bytes = 0;     // of the archive, without padding
  uint64_t checksum = 0;  // XXH3-64 of the archive
};
static_assert(sizeof(SectionHeader) == 24);

struct FileFooter {
  uint64_t magic = kFooterMagic;
  uint64_t index_offset = 0;  // of the index frame's header
  uint64_t index_bytes = 0;   // of the whole index frame, padding included
  uint64_t records = 0;
  uint64_t calls = 0;
  uint64_t payload_bytes = 0;
  uint64_t reserved = 0;
  uint64_t checksum = 0;  // XXH3-64 of the 56 bytes before
};
static_assert(sizeof(FileFooter) == 64);

// Of a node file. All fields are 64 bits wide.
struct NodeState {
  uint64_t end = 0;      // the next extent begins here
  uint64_t changes = 0;  // one more with each extent, name and removal
  uint64_t reserved = 0;
  uint64_t checksum = 0;  // XXH3-64 of the 24 bytes before
};
static_assert(sizeof(NodeState) == 32);

struct ExtentHeader {
  uint64_t magic = kExtentMagic;
  uint64_t at = 0;      // of this header in the file
  uint64_t bytes = 0;   // of data, behind the page of the header
  uint64_t first = 0;   // `at` of its member's first extent
  uint64_t offset = 0;  // of its data in the member
  uint64_t reserved[2] = {};
  uint64_t checksum = 0;  // XXH3-64 of the 56 bytes before
};
static_assert(sizeof(ExtentHeader) == 64);

// Behind the header of a member's first extent, and with it in one sector of 512 bytes.
struct ExtentName {
  uint64_t length = 0;  // 0: the member was removed
  char text[424] = {};
  uint64_t checksum = 0;  // XXH3-64 of the 432 bytes before
};
static_assert(sizeof(ExtentName) == 440);

// In the next sector.
struct MemberSize {
  uint64_t bytes = 0;
  uint64_t checksum = 0;  // XXH3-64 of the 8 bytes before
};
static_assert(sizeof(MemberSize) == 16);

inline constexpr uint64_t kNodeStateAt = 512;
inline constexpr uint64_t kExtentPage = 4096;  // extents, their data and its end are at multiples
inline constexpr uint64_t kExtentNameAt = sizeof(ExtentHeader);
inline constexpr uint64_t kMemberSizeAt = 512;

// Of a payload's start, in the file and on its way there.
inline constexpr uint64_t AlignOf(uint64_t payload_bytes) {
  return payload_bytes > kLargePayload ? kLargePayloadAlign : kPayloadAlign;
}

inline constexpr uint64_t PadTo(uint64_t offset, uint64_t align) {
  return (offset + align - 1) / align * align;
}

}  // namespace tdump::io
