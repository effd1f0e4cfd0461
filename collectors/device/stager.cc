#include "collectors/device/stager.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "core/statistics.h"
#include "core/statistics_tree.h"

namespace tdump::collectors {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kTile = 16384;  // of the hash
constexpr uint64_t kDigestBytes = 16;
constexpr Parts kNeedsBytes = kPartPayload | kPartSample | kPartSlice;
constexpr Parts kReduced = kPartHash | kPartStats;
constexpr std::string_view kOutOfMemory = "out of host memory";

uint64_t TilesOf(uint64_t bytes) { return (bytes + kTile - 1) / kTile; }

uint64_t RoundUp(uint64_t bytes) {
  return (bytes + StagingRing::kAlignment - 1) / StagingRing::kAlignment * StagingRing::kAlignment;
}

}  // namespace

// What lies in a copy's part of the ring: digests, counts and moments, payload; each may be
// missing.
struct Stager::Layout {
  explicit Layout(const Request& request)
      : payload_bytes(request.source.bytes()),
        to_host((request.parts & kNeedsBytes) != 0),
        staged(to_host || !request.source.plain()) {
    if ((request.parts & kPartHash) != 0) digest_bytes = TilesOf(payload_bytes) * kDigestBytes;
    if ((request.parts & kPartStats) == 0) return;
    const uint64_t elements = request.source.units * request.dtype.elements_per_unit;
    tiles = (elements + kTileElements - 1) / kTileElements;
  }

  uint64_t payload_bytes;
  bool to_host;               // the payload is wanted on the host
  bool staged;                // the payload is copied, for the host or for what is made of it
  uint64_t digest_bytes = 0;  // 0: not wanted
  uint64_t tiles = 0;         // of statistics; 0: not wanted

  uint64_t counts_at() const { return RoundUp(digest_bytes); }
  uint64_t moments_at() const { return counts_at() + RoundUp(sizeof(ValueCounts)); }
  uint64_t reduced_bytes() const {
    return tiles == 0 ? digest_bytes : moments_at() + tiles * sizeof(TileMoments);
  }
  uint64_t payload_at() const { return RoundUp(reduced_bytes()); }
  uint64_t bytes() const { return payload_at() + (staged ? payload_bytes : 0); }
  uint64_t fetched() const { return to_host ? bytes() : reduced_bytes(); }
};

class Stager::Copy final : public DeviceCopy {
 public:
  Copy(Stager* stager, uint32_t slot) : stager_(stager), slot_(slot) {}

  void Start(const Request& request, const Layout& layout, uint64_t at) {
    stage_ = Stage::kOnDevice;
    at_ = at;
    fetched_ = layout.fetched();
    payload_at_ = layout.payload_at();
    payload_bytes_ = layout.to_host ? layout.payload_bytes : 0;
    digest_bytes_ = layout.digest_bytes;
    counts_at_ = layout.counts_at();
    moments_at_ = layout.moments_at();
    tiles_ = layout.tiles;
    elements_ = request.source.units * request.dtype.elements_per_unit;
    error_.clear();
  }

  State Poll() noexcept override {
    if (stage_ == Stage::kReady) return State::kReady;
    if (stage_ == Stage::kFailed) return State::kFailed;
    switch (stager_->device_->Query(slot_)) {
      case EventState::kPending:
        return State::kPending;
      case EventState::kFailed:
        return Fail(stager_->device_->Error());
      case EventState::kReady:
        break;
    }
    if (stage_ == Stage::kOnDevice) return Fetch();
    stage_ = Stage::kReady;
    if (tiles_ != 0) FinishStatistics();
    return State::kReady;
  }
  std::span<const std::byte> payload() const noexcept override {
    return {Host() + payload_at_, payload_bytes_};
  }
  std::span<const uint8_t> digests() const noexcept override {
    return {reinterpret_cast<const uint8_t*>(Host()), digest_bytes_};
  }
  const Statistics* statistics() const noexcept override {
    return stage_ == Stage::kReady && tiles_ != 0 ? &statistics_ : nullptr;
  }
  std::string_view error() const noexcept override { return error_; }
  void Release() noexcept override {
    if (stage_ == Stage::kOnDevice || stage_ == Stage::kToHost)
      stager_->GiveLater(this);
    else
      stager_->Give(this);
  }

  uint32_t slot() const { return slot_; }

 private:
  enum class Stage : uint8_t { kOnDevice, kToHost, kReady, kFailed };

  const std::byte* Host() const { return stager_->memory_.host + at_; }
  State Fetch() noexcept {
    const Status status = stager_->device_->Fetch(stager_->memory_.host + at_,
                                                  stager_->memory_.device + at_, fetched_, slot_);
    if (!status.ok()) return Fail(status.message());
    stage_ = Stage::kToHost;
    return State::kPending;
  }
  void FinishStatistics() noexcept {
    const auto* counts = reinterpret_cast<const ValueCounts*>(Host() + counts_at_);
    const auto* tiles = reinterpret_cast<const TileMoments*>(Host() + moments_at_);
    MomentsTree tree;
    for (uint64_t tile = 0; tile < tiles_; ++tile) tree.Add(tiles[tile]);
    statistics_ = tdump::FinishStatistics(StatisticsKind::kReal, elements_, *counts, tree.Finish());
  }
  State Fail(std::string_view text) noexcept {
    stage_ = Stage::kFailed;
    try {
      error_ = text;
    } catch (...) {
    }
    stager_->Broken(text);
    return State::kFailed;
  }

  Stager* const stager_;
  const uint32_t slot_;  // and number of its event
  Stage stage_ = Stage::kReady;
  uint64_t at_ = 0, fetched_ = 0, payload_at_ = 0, payload_bytes_ = 0, digest_bytes_ = 0;
  uint64_t counts_at_ = 0, moments_at_ = 0, tiles_ = 0, elements_ = 0;
  Statistics statistics_;
  std::string error_;
};

Stager::Stager(Device* device, const StagerOptions& options, StagingMemory memory)
    : device_(device), options_(options), memory_(memory), ring_(options.bytes, options.copies) {
  for (uint32_t slot = 0; slot < options.copies; ++slot)
    copies_.push_back(std::make_unique<Copy>(this, slot));
  late_.reserve(options.copies);
}

Stager::~Stager() = default;

Result<std::unique_ptr<Stager>> Stager::Make(Device* device, const StagerOptions& options) noexcept
    try {
  StagingMemory memory;
  TDUMP_RETURN_IF_ERROR(device->Allocate(options.bytes, options.copies, &memory));
  return std::unique_ptr<Stager>(new Stager(device, options, memory));
} catch (...) {
  return Status(StatusCode::kNoSpace, std::string(kOutOfMemory));
}

Stager::Copy* Stager::TakeCopy(uint64_t bytes, int64_t max_wait_ns, int64_t* waited_ns) noexcept {
  if (bytes > ring_.capacity()) return nullptr;
  std::unique_lock lock(mutex_);
  ReclaimLate();
  uint32_t slot = ring_.Take(bytes);
  if (slot == StagingRing::kNone && max_wait_ns > 0) {
    const Clock::time_point start = Clock::now();
    room_.wait_until(lock, start + std::chrono::nanoseconds(max_wait_ns), [&] {
      slot = ring_.Take(bytes);
      return slot != StagingRing::kNone || broken_.load(std::memory_order_relaxed);
    });
    *waited_ns += std::chrono::nanoseconds(Clock::now() - start).count();
  }
  return slot == StagingRing::kNone ? nullptr : copies_[slot].get();
}

// False: there is nothing less to ask for. A tensor that is not contiguous needs as much room for
// this as for its payload.
bool Stager::Summarise(Request* request) noexcept {
  if (!request->summarise || !request->source.plain() || (request->parts & kNeedsBytes) == 0)
    return false;
  request->parts = kPartHash;
  if (device_->KnowsStatistics(request->dtype)) request->parts |= kPartStats;
  request->max_wait_ns = 0;
  return true;
}

Status Stager::EnqueuePayload(const Request& request, uint64_t to) noexcept {
  const StridedSource& source = request.source;
  if (source.plain()) return device_->Copy(to, source.address, source.bytes(), request.stream);
  return device_->Gather(to, source, 0, source.units, request.stream);
}

Status Stager::EnqueueReduction(const Request& request, const Layout& layout,
                                uint64_t at) noexcept {
  Reduction reduction{.from = layout.staged ? at + layout.payload_at() : request.source.address,
                      .bytes = layout.payload_bytes,
                      .dtype = request.dtype};
  if (layout.digest_bytes != 0) reduction.digests = at;
  if (layout.tiles != 0) {
    reduction.counts = at + layout.counts_at();
    reduction.moments = at + layout.moments_at();
  }
  return device_->Reduce(reduction, request.stream);
}

Status Stager::Enqueue(const Request& request, const Layout& layout, uint64_t at) noexcept {
  if (layout.staged) TDUMP_RETURN_IF_ERROR(EnqueuePayload(request, at + layout.payload_at()));
  return layout.reduced_bytes() != 0 ? EnqueueReduction(request, layout, at) : Status();
}

Stager::Outcome Stager::Begin(const Request& wanted) noexcept try {
  if (broken_.load(std::memory_order_acquire)) return {nullptr, SkipReason::kDeviceError, error()};
  if (device_->InGraphCapture(wanted.stream))
    return {nullptr, SkipReason::kCompiled, "CUDA graph capture"};
  Request request = wanted;
  if ((request.parts & kPartStats) != 0 && !device_->KnowsStatistics(request.dtype))
    request.parts |= kPartPayload;
  // Where the payload crosses anyway the sink makes the rest of it.
  if ((request.parts & kNeedsBytes) != 0) request.parts &= ~kReduced;
  Outcome outcome{nullptr, SkipReason::kStagingLimit, "memory.device is full"};
  for (;;) {
    const Layout layout(request);
    Copy* copy = TakeCopy(layout.bytes(), request.max_wait_ns, &outcome.waited_ns);
    if (copy == nullptr) {
      if (Summarise(&request)) continue;
      if (layout.bytes() > ring_.capacity()) outcome.detail = "larger than memory.device";
      return outcome;
    }
    const uint64_t at = ring_.offset(copy->slot());
    const Status status = Enqueue(request, layout, memory_.device + at);
    if (status.ok()) {
      copy->Start(request, layout, at);
      const Status marked = device_->Mark(copy->slot(), request.stream);
      if (!marked.ok()) return Broken(marked.message());
      return {.copy = copy, .waited_ns = outcome.waited_ns};
    }
    // Nothing of the copy may be under way when its room is given back: what was enqueued before
    // the refusal writes to that room, so the stager gives the room up with the device.
    if (status.code() != StatusCode::kUnsupported) return Broken(status.message());
    Give(copy);
    if (layout.to_host) return {nullptr, SkipReason::kCopyFailed, "not by this device"};
    if ((wanted.parts & kNeedsBytes) != 0) return outcome;       // a summary
    request.parts = (request.parts & ~kReduced) | kPartPayload;  // reduced by the sink
  }
} catch (...) {
  return {nullptr, SkipReason::kDeviceError, kOutOfMemory};
}

// The capacity of late_ is that of the ring.
void Stager::GiveLater(Copy* copy) noexcept {
  std::lock_guard lock(mutex_);
  late_.push_back(copy);
}

void Stager::ReclaimLate() noexcept {
  std::erase_if(late_, [this](Copy* copy) {
    if (device_->Query(copy->slot()) == EventState::kPending) return false;
    ring_.Give(copy->slot());
    return true;
  });
}

void Stager::Give(Copy* copy) noexcept {
  {
    std::lock_guard lock(mutex_);
    ring_.Give(copy->slot());
  }
  room_.notify_all();
}

// The room of pieces: small enough that several fit, so that one is copied while another is read.
bool Stager::CopyPiece(const Request& request, uint64_t offset, std::span<std::byte> out) noexcept
    try {
  const StridedSource& source = request.source;
  const uint64_t unit = source.unit_bytes;
  if (offset % unit != 0 || out.size() % unit != 0) return false;
  int64_t waited_ns = 0;
  Copy* copy = TakeCopy(out.size(), request.max_wait_ns, &waited_ns);
  if (copy == nullptr) return false;
  Request piece = request;
  piece.parts = kPartPayload;
  piece.source.units = out.size() / unit;
  const uint64_t at = ring_.offset(copy->slot());
  const Status status = source.plain() ? device_->Copy(memory_.device + at, source.address + offset,
                                                       out.size(), request.stream)
                                       : device_->Gather(memory_.device + at, source, offset / unit,
                                                         out.size() / unit, request.stream);
  copy->Start(piece, Layout(piece), at);
  const Status marked = status.ok() ? device_->Mark(copy->slot(), request.stream) : status;
  if (!marked.ok()) {
    Broken(marked.message());
    return false;
  }
  const bool ready = WaitUntilReady(copy, request.max_wait_ns);
  if (ready) std::memcpy(out.data(), copy->payload().data(), out.size());
  copy->Release();
  return ready;
} catch (...) {
  return false;
}

// False: failed, or not in time.
bool Stager::WaitUntilReady(Copy* copy, int64_t max_wait_ns) noexcept {
  const Clock::time_point until = Clock::now() + std::chrono::nanoseconds(max_wait_ns);
  for (;;) {
    switch (copy->Poll()) {
      case DeviceCopy::State::kReady:
        return true;
      case DeviceCopy::State::kFailed:
        return false;
      case DeviceCopy::State::kPending:
        break;
    }
    if (Clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

bool Stager::Pieces::CopyTo(uint64_t offset, std::span<std::byte> out) noexcept {
  const uint64_t unit = request_.source.unit_bytes;
  const uint64_t most = std::max(stager_->capacity() / 4 / unit * unit, unit);
  while (!out.empty()) {
    if (stager_->broken_.load(std::memory_order_acquire)) return false;
    const uint64_t bytes = std::min<uint64_t>(out.size(), most);
    if (!stager_->CopyPiece(request_, offset, out.first(bytes))) return false;
    offset += bytes;
    out = out.subspan(bytes);
  }
  return true;
}

uint32_t Stager::under_way() const noexcept {
  std::lock_guard lock(mutex_);
  return ring_.out();
}

std::string_view Stager::error() const noexcept {
  return broken_.load(std::memory_order_acquire) ? std::string_view(error_) : std::string_view();
}

Stager::Outcome Stager::Broken(std::string_view text) noexcept {
  {
    std::lock_guard lock(error_mutex_);
    if (!broken_.load(std::memory_order_relaxed)) {
      try {
        error_ = text;
      } catch (...) {
      }
      broken_.store(true, std::memory_order_release);
    }
  }
  room_.notify_all();
  return {nullptr, SkipReason::kDeviceError, error()};
}

}  // namespace tdump::collectors
