#include "io/breadcrumbs.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

namespace tdump::io {
namespace {

constexpr int kNameAt = 28, kThreadAt = 46, kLapAt = 54, kEndedAt = 62, kValidAt = 63;
constexpr uint64_t kCrumbBytes = 16;

uint64_t Bits(uint64_t word, int at, uint64_t count) {
  return word >> at & ((uint64_t{1} << count) - 1);
}

template <class T>
T Load(std::span<const std::byte> bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

std::string NameAt(std::span<const std::byte> names, uint64_t number) {
  const uint64_t at = 8 * number;
  if (number == 0) return "(an operator whose name found no room)";
  if (at + 2 > names.size()) return "(a name that is not readable)";
  const auto length = Load<uint16_t>(names, at);
  if (length == 0 || length > kLongestCrumbName || at + 2 + length > names.size())
    return "(a name that is not readable)";
  return {reinterpret_cast<const char*>(names.data()) + at + 2, length};
}

// The newest lap: most crumbs are of it and of the one before.
uint8_t NewestLap(const std::vector<std::optional<CrumbWord>>& words) {
  std::array<uint64_t, 256> count{};
  for (const auto& word : words) {
    if (word) ++count[word->lap];
  }
  uint8_t newest = 0;
  uint64_t most = 0;
  for (size_t lap = 0; lap < count.size(); ++lap) {
    const uint64_t both = count[lap] + count[(lap + 255) % 256];
    if (count[lap] == 0 || both <= most) continue;
    most = both;
    newest = static_cast<uint8_t>(lap);
  }
  return newest;
}

Result<CrumbHeader> ReadHeader(std::span<const std::byte> bytes) {
  if (bytes.size() < kCrumbHeaderBytes)
    return Corrupt(fmt::format("{} bytes are no file of breadcrumbs", bytes.size()));
  const auto header = Load<CrumbHeader>(bytes, 0);
  if (header.magic != kCrumbMagic) return Corrupt("no file of breadcrumbs: other first bytes");
  if (header.version != kCrumbVersion)
    return Unsupported(
        fmt::format("breadcrumbs of version {}, not {}: read them with the tdump "
                    "that wrote them",
                    header.version, kCrumbVersion));
  if (XXH3_64bits(bytes.data(), offsetof(CrumbHeader, checksum)) != header.checksum)
    return Corrupt("the header of the breadcrumbs does not match its checksum");
  if (header.entries == 0 || header.host[sizeof header.host - 1] != '\0')
    return Corrupt("the header of the breadcrumbs makes no sense");
  return header;
}

}  // namespace

uint64_t CrumbWord::Pack() const {
  return uint64_t{1} << kValidAt | uint64_t{ended} << kEndedAt | uint64_t{lap} << kLapAt |
         uint64_t{thread} << kThreadAt | name << kNameAt | step;
}

std::optional<CrumbWord> CrumbWord::Unpack(uint64_t word) {
  if ((word >> kValidAt) == 0) return std::nullopt;
  return CrumbWord{.step = Bits(word, 0, kStepBits),
                   .name = Bits(word, kNameAt, kNameBits),
                   .thread = static_cast<uint8_t>(word >> kThreadAt),
                   .lap = static_cast<uint8_t>(word >> kLapAt),
                   .ended = (word >> kEndedAt & 1) != 0};
}

Result<Breadcrumbs> ReadBreadcrumbs(std::span<const std::byte> bytes) {
  Breadcrumbs found;
  TDUMP_ASSIGN_OR_RETURN(found.header, ReadHeader(bytes));
  const uint64_t names_at = kCrumbHeaderBytes + kCrumbBytes * found.header.entries;
  found.cut = bytes.size() < names_at + found.header.names_bytes;
  const std::span<const std::byte> names =
      bytes.subspan(std::min<uint64_t>(names_at, bytes.size()));
  const uint64_t entries =
      std::min<uint64_t>(found.header.entries, (bytes.size() - kCrumbHeaderBytes) / kCrumbBytes);
  std::vector<std::optional<CrumbWord>> words(entries);
  for (size_t i = 0; i < entries; ++i)
    words[i] = CrumbWord::Unpack(Load<uint64_t>(bytes, kCrumbHeaderBytes + kCrumbBytes * i + 8));
  const uint8_t newest = NewestLap(words);
  for (const uint8_t lap : {static_cast<uint8_t>(newest - 1), newest}) {
    for (size_t i = 0; i < entries; ++i) {
      if (!words[i] || words[i]->lap != lap) continue;
      Crumb crumb{NameAt(names, words[i]->name), words[i]->ended, words[i]->thread, {}, 0};
      if (words[i]->step != CrumbWord::kNoStep) crumb.step = words[i]->step;
      crumb.time_ns = Load<uint64_t>(bytes, kCrumbHeaderBytes + kCrumbBytes * i);
      found.crumbs.push_back(std::move(crumb));
    }
  }
  const auto valid = std::count_if(words.begin(), words.end(), [](const auto& w) { return !!w; });
  found.unreadable = static_cast<uint64_t>(valid) - found.crumbs.size();
  return found;
}

std::vector<const Crumb*> Breadcrumbs::Open() const {
  std::array<std::vector<const Crumb*>, 256> threads;
  for (const Crumb& crumb : crumbs) {
    std::vector<const Crumb*>& open = threads[crumb.thread];
    if (!crumb.ended) {
      open.push_back(&crumb);
    } else if (!open.empty() && open.back()->name == crumb.name) {
      open.pop_back();
    }
  }
  std::vector<const Crumb*> innermost;
  for (const auto& open : threads) {
    if (!open.empty()) innermost.push_back(open.back());
  }
  std::sort(innermost.begin(), innermost.end(), std::greater<>());  // they lie in one vector
  return innermost;
}

const Crumb* Breadcrumbs::Last(bool ended) const {
  const auto last = std::find_if(crumbs.rbegin(), crumbs.rend(),
                                 [ended](const Crumb& crumb) { return crumb.ended == ended; });
  return last == crumbs.rend() ? nullptr : &*last;
}

}  // namespace tdump::io
