// Breadcrumbs: which operator each thread of a process began last, in a file that is mapped into
// the process, so that what was stored is in it whatever ends the process (SIGSEGV, SIGKILL,
// _exit). io/breadcrumb_ring.h writes it, tdump-view --crash reads it.
//
//   Header  (kCrumbHeaderBytes)   magic, version, sizes, who; the checksum of all before it
//   Crumb   [entries]             a ring: the n-th crumb is at n % entries
//   names   [names_bytes]         a name at each 8 bytes: u16 length, then so many bytes
//
// Little-endian. A crumb is two words, each stored whole: the time, then what happened. A process
// that ends between the two leaves an older crumb with a newer time, never half of one. The lap of
// the ring is part of the crumb (modulo 256), so nothing else has to be kept up to date to tell the
// newest: crumbs of lap L are newer than those of lap L - 1, others are left from a store that came
// very late.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/status.h"

namespace tdump::io {

inline constexpr uint64_t kCrumbMagic = 0x6272'6370'6d75'6474;  // "tdumpcrb"
inline constexpr uint32_t kCrumbVersion = 1;
inline constexpr size_t kCrumbHeaderBytes = 256;
inline constexpr uint32_t kCrumbEntries = 2048;
inline constexpr uint32_t kCrumbNameBytes = (256 << 10) - kCrumbHeaderBytes - 16 * kCrumbEntries;
inline constexpr size_t kCrumbFileBytes = 256 << 10;
inline constexpr size_t kLongestCrumbName = 1000;  // bytes; a longer one is cut

struct CrumbHeader {
  uint64_t magic = kCrumbMagic;
  uint32_t version = kCrumbVersion;
  uint32_t entries = kCrumbEntries;
  uint32_t names_bytes = kCrumbNameBytes;
  int32_t rank = 0;
  int32_t world = 1;
  uint32_t reserved = 0;
  int64_t pid = 0;
  uint64_t start_time = 0;  // of the process, as in core/identity.h
  uint64_t created_ns = 0;  // since the epoch
  char host[64] = {};       // ends with a NUL
  uint64_t checksum = 0;    // XXH3-64 of the fields above
};
static_assert(sizeof(CrumbHeader) == 128);

// What happened, in one word: from the lowest bit up. A word that is 0 is no crumb.
struct CrumbWord {
  static constexpr uint64_t kStepBits = 28, kNameBits = 18;
  static constexpr uint64_t kNoStep = (uint64_t{1} << kStepBits) - 1;  // not known, or larger

  uint64_t step = kNoStep;
  uint64_t name = 0;   // offset among the names / 8; 0: none found room
  uint8_t thread = 0;  // number of the thread, in order of first use, modulo 256
  uint8_t lap = 0;     // of the ring, modulo 256
  bool ended = false;  // it returned to the host; else it began

  uint64_t Pack() const;
  static std::optional<CrumbWord> Unpack(uint64_t word);
};

struct Crumb {
  std::string name;
  bool ended = false;
  uint8_t thread = 0;
  std::optional<uint64_t> step;
  uint64_t time_ns = 0;  // since the epoch
};

struct Breadcrumbs {
  CrumbHeader header;
  std::vector<Crumb> crumbs;  // oldest first
  uint64_t unreadable = 0;    // crumbs of neither of the last two laps
  bool cut = false;           // the file is shorter than it says

  // Of each thread the innermost operator that began and did not return; the one that began last
  // comes first. Ends whose beginning the ring has overwritten are left out.
  std::vector<const Crumb*> Open() const;
  // The newest that began, and that ended; null: none.
  const Crumb* LastBegun() const { return Last(false); }
  const Crumb* LastEnded() const { return Last(true); }

 private:
  const Crumb* Last(bool ended) const;
};

// The bytes may be cut anywhere, or forged. Error: they do not begin with a sound header.
Result<Breadcrumbs> ReadBreadcrumbs(std::span<const std::byte> bytes);

}  // namespace tdump::io
