#include "io/pack_scan.h"

#include <algorithm>
#include <cstring>

#include "io/byte_order.h"
#include "io/format.h"
#include "io/frame_file.h"
#include "io/pass_scan.h"

namespace tdump::io {
namespace {

constexpr uint64_t kWindow = 16 * 1024;
constexpr uint64_t kLargestSearch = 256 * kPackAlign;

// Length of a pass that begins the slice `file`: to the end of its footer, else 0.
uint64_t WholeBytes(const FrameFile& file) {
  FrameCursor cursor(file, kWindow);
  uint64_t offset = sizeof(FileHeader);
  while (offset < file.size()) {
    const Result<Frame> frame = cursor.At(offset);
    if (!frame.ok()) return 0;
    offset = frame->end();
    if (frame->kind == FrameKind::kIndex) return offset + sizeof(FileFooter);
  }
  return 0;
}

// The next multiple of kPackAlign at or behind `from` where the magic of a pass stands; `to` when
// there is none. Mostly it stands at the first: the window grows as long as it does not.
Result<uint64_t> NextMagic(const ReadableFile& file, uint64_t from, uint64_t to) {
  std::vector<std::byte> window(kPackAlign);
  for (uint64_t at = PadTo(from, kPackAlign); at < to;) {
    TDUMP_ASSIGN_OR_RETURN(const size_t got, file.ReadAt(at, window));
    for (uint64_t i = 0; i + sizeof(uint64_t) <= got && at + i < to; i += kPackAlign) {
      uint64_t magic;
      std::memcpy(&magic, window.data() + i, sizeof magic);
      if (magic == kPassMagic || magic == SwapBytes(kPassMagic)) return at + i;
    }
    at += window.size();
    window.resize(std::min(kLargestSearch, window.size() * 4));
  }
  return to;
}

}  // namespace

bool IsPackedFile(Env* env, const std::string& path) {
  return FrameFile::Open(env, path, kPackMagic).ok();
}

Result<std::vector<PackedPass>> ScanPack(Env* env, const std::string& path, uint64_t from,
                                         uint64_t to) {
  TDUMP_ASSIGN_OR_RETURN(const auto pack, FrameFile::Open(env, path, kPackMagic));
  TDUMP_ASSIGN_OR_RETURN(const auto file, env->OpenRead(path));
  to = std::min(to, file->Size());
  std::vector<PackedPass> passes;
  const auto end_last = [&](uint64_t end) {
    if (!passes.empty() && !passes.back().complete)
      passes.back().bytes = end - passes.back().offset;
  };
  for (uint64_t at = std::max(from, kPackAlign); at < to;) {
    TDUMP_ASSIGN_OR_RETURN(at, NextMagic(*file, at, to));
    if (at >= to) break;
    const auto slice = FrameFile::Open(env, path, kPassMagic, at);
    // A tensor may hold the bytes of a pass file: one of another process.
    const bool ours = slice.ok() && (*slice)->header().pid == pack->header().pid &&
                      (*slice)->header().job_hash == pack->header().job_hash;
    if (!ours) {
      at += kPackAlign;
      continue;
    }
    end_last(at);
    PackedPass& pass = passes.emplace_back();
    pass.offset = at;
    pass.info = InfoOf((*slice)->header(), ReadPassSection(**slice));
    const uint64_t whole = WholeBytes(**slice);
    if (whole != 0 && whole <= file->Size() - at) {
      const auto exact = FrameFile::Open(env, path, kPassMagic, at, whole);
      pass.complete = exact.ok() && (*exact)->Footer().ok();
    }
    pass.bytes = pass.complete ? whole : file->Size() - at;
    at += pass.complete ? PadTo(whole, kPackAlign) : kPackAlign;
  }
  end_last(to);
  return passes;
}

Result<std::vector<PackedPass>> ScanPack(Env* env, const std::string& path) {
  return ScanPack(env, path, 0, FrameFile::kToTheEnd);
}

}  // namespace tdump::io
