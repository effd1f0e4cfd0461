#include "compare/same_bytes.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "compare/ordered_work.h"
#include "compare/page_buffer.h"

namespace tdump::compare {
namespace {

constexpr uint64_t kWindow = 256 * 1024;  // a multiple of the hash's tile

struct Reader {
  ReadBytes a, b;
  PageBuffer left, right;

  Result<bool> Same(uint64_t offset, uint64_t bytes) {
    left.Resize(bytes);
    right.Resize(bytes);
    TDUMP_RETURN_IF_ERROR(a(offset, {left.data(), bytes}));
    TDUMP_RETURN_IF_ERROR(b(offset, {right.data(), bytes}));
    return std::memcmp(left.data(), right.data(), bytes) == 0;
  }
};

}  // namespace

Result<bool> SameBytes(const Operand& a, const Operand& b, unsigned threads) {
  const uint64_t bytes = a.record->payload->logical_bytes;
  if (bytes != b.record->payload->logical_bytes) return false;
  const uint64_t windows = (bytes + kWindow - 1) / kWindow;
  if (!a.open || !b.open) threads = 1;
  std::vector<Reader> readers(1);
  readers[0] = {a.read, b.read, {}, {}};
  for (unsigned thread = 1; thread < std::min<uint64_t>(threads, windows); ++thread) {
    TDUMP_ASSIGN_OR_RETURN(ReadBytes left, a.open());
    TDUMP_ASSIGN_OR_RETURN(ReadBytes right, b.open());
    readers.push_back({std::move(left), std::move(right), {}, {}});
  }
  Result<bool> same = true;
  RunInOrder(
      windows, static_cast<unsigned>(readers.size()),
      [&](unsigned thread, size_t i) {
        const uint64_t offset = i * kWindow;
        return readers[thread].Same(offset, std::min(kWindow, bytes - offset));
      },
      [&](size_t, Result<bool>&& window) {
        same = std::move(window);
        return same.ok() && *same;
      });
  return same;
}

}  // namespace tdump::compare
