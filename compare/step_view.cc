#include "compare/step_view.h"

#include <algorithm>
#include <cstring>

#include "core/key.h"

namespace tdump::compare {
namespace {

// A multiple of the hash tile: each tile is verified once.
constexpr uint64_t kReadAhead = 256 * 1024;

// Sequential reads of any size over one that is fetched in large aligned pieces.
ReadBytes ReadAhead(const io::PassReader& reader, const io::Record& record) {
  struct State {
    std::vector<std::byte> buffer;
    uint64_t offset = 0;
  };
  auto state = std::make_shared<State>();
  const uint64_t total = record.payload->logical_bytes;
  return [&reader, &record, state, total](uint64_t offset, std::span<std::byte> out) -> Status {
    if (offset > total || out.size() > total - offset)
      return Corrupt("payload is shorter than its shape needs");
    while (!out.empty()) {
      if (offset < state->offset || offset >= state->offset + state->buffer.size()) {
        state->offset = offset / kReadAhead * kReadAhead;
        state->buffer.resize(std::min(kReadAhead, total - state->offset));
        Status status = reader.ReadPayload(record, state->offset, state->buffer);
        if (!status.ok()) {
          state->buffer.clear();
          return status;
        }
      }
      const size_t at = offset - state->offset;
      const size_t count = std::min(out.size(), state->buffer.size() - at);
      std::memcpy(out.data(), state->buffer.data() + at, count);
      out = out.subspan(count);
      offset += count;
    }
    return {};
  };
}

}  // namespace

OnePass::OnePass(std::unique_ptr<io::PassReader> reader, bool part) : reader_(std::move(reader)) {
  if (!part) damage_ = reader_->damage();
}

Status OnePass::ForEachTensor(const VisitTensor& visit) const {
  return reader_->ForEachRecord(visit);
}

Result<io::Record> OnePass::Get(uint64_t id) const { return reader_->Get(id); }

Result<ReadBytes> OnePass::Open(const io::Record& record) const {
  if (!record.payload) return NotFound("the values of " + ToText(record.key) + " were not kept");
  return ReadAhead(*reader_, record);
}

Status OnePass::ForEachCall(const VisitCall& visit) const { return reader_->ForEachCall(visit); }

}  // namespace tdump::compare
