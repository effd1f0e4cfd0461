// EarlierPayloads: what the passes of one packed file hold, by content, so that an unchanged tensor
// (weights, constants) is stored once. Bounded: short payloads are not worth a reference, and when
// the table is full no more are taken in. Writer thread only.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "core/types.h"
#include "io/hash.h"
#include "io/sections.h"

namespace tdump::io {

// What makes two payloads the same.
struct PayloadContent {
  Hash128 hash;
  uint64_t bytes;
  DType dtype;
  bool operator==(const PayloadContent&) const = default;
};
struct PayloadContentHash {
  size_t operator()(const PayloadContent& content) const { return LowWord(content.hash); }
};

struct EarlierPayload {
  PayloadSection payload;         // as in its own pass
  EarlierPayloadSection earlier;  // where that is
};

class EarlierPayloads {
 public:
  // nullptr: no earlier pass than `ordinal` has it.
  const EarlierPayload* Find(const PayloadContent& content, uint64_t ordinal) const {
    const auto found = payloads_.find(content);
    const bool earlier = found != payloads_.end() && found->second.earlier.ordinal != ordinal;
    return earlier ? &found->second : nullptr;
  }
  void Add(const PayloadContent& content, const EarlierPayload& payload) {
    if (content.bytes >= kWorthwhile && payloads_.size() < kMost)
      payloads_.emplace(content, payload);
  }

 private:
  static constexpr uint64_t kWorthwhile = 1024;
  static constexpr size_t kMost = 1 << 17;
  std::unordered_map<PayloadContent, EarlierPayload, PayloadContentHash> payloads_;
};

}  // namespace tdump::io
