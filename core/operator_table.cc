#include "core/operator_table.h"

#include <algorithm>
#include <functional>
#include <string_view>

namespace tdump {
namespace {

bool SameKey(const OperatorInfo& a, const OperatorInfo& b) {
  return a.kind == b.kind && a.path == b.path && a.op == b.op && a.root == b.root;
}

size_t KeyHash(const OperatorInfo& info) {
  size_t hash = static_cast<size_t>(info.kind);
  for (const std::string* field : {&info.root, &info.path, &info.op}) {
    hash = (hash ^ std::hash<std::string_view>()(*field)) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  }
  return hash;
}

constexpr size_t kReserved = 79;  // bytes of each text; the longest name in LibTorch has 63

// An operator is first met amid the job's tensors. What is kept of it would lie between two of them
// where the allocator keeps these in one heap, and their room would never become one again. So the
// texts of a whole chunk take their room together; only longer ones take it when they come.
OperatorInfo* NewChunk(uint32_t operators) {
  std::unique_ptr<OperatorInfo[]> chunk(new OperatorInfo[operators]);
  for (uint32_t i = 0; i < operators; ++i) {
    for (std::string* text : {&chunk[i].path, &chunk[i].op, &chunk[i].cls})
      text->reserve(kReserved);
  }
  return chunk.release();
}

}  // namespace

OperatorTable::OperatorTable() : chunks_(new std::atomic<OperatorInfo*>[kChunks]) {
  for (uint32_t i = 0; i < kChunks; ++i) chunks_[i].store(nullptr, std::memory_order_relaxed);
}

OperatorTable::~OperatorTable() {
  for (uint32_t i = 0; i < kChunks; ++i) delete[] chunks_[i].load();
}

OperatorId OperatorTable::Intern(const OperatorInfo& info) {
  std::lock_guard lock(mutex_);
  const uint32_t id = size_.load(std::memory_order_relaxed);
  if (2 * size_t{id} >= places_.size()) GrowPlaces();
  OperatorId& place = PlaceOf(info);
  if (place != kNoOperator) return place;
  // 4 M operators: names with a counter in them; the caller records nothing for it.
  if (id >= kChunk * kChunks) return kNoOperator;
  std::atomic<OperatorInfo*>& chunk = chunks_[id / kChunk];
  if (chunk.load(std::memory_order_relaxed) == nullptr) {
    chunk.store(NewChunk(kChunk), std::memory_order_release);
  }
  chunk.load(std::memory_order_relaxed)[id % kChunk] = info;
  size_.store(id + 1, std::memory_order_release);
  return place = id;
}

OperatorId& OperatorTable::PlaceOf(const OperatorInfo& info) {
  for (size_t at = KeyHash(info);; ++at) {
    OperatorId& place = places_[at & (places_.size() - 1)];
    if (place == kNoOperator || SameKey(Get(place), info)) return place;
  }
}

void OperatorTable::GrowPlaces() {
  std::vector<OperatorId> before(std::max<size_t>(2 * kChunk, 2 * places_.size()), kNoOperator);
  before.swap(places_);
  for (const OperatorId id : before) {
    if (id != kNoOperator) PlaceOf(Get(id)) = id;
  }
}

const OperatorInfo& OperatorTable::Get(OperatorId id) const {
  return chunks_[id / kChunk].load(std::memory_order_acquire)[id % kChunk];
}

void OperatorTable::AddAlias(OperatorId id, const std::string& path) {
  std::lock_guard lock(mutex_);
  late_aliases_[id].push_back(path);
}

std::vector<std::string> OperatorTable::AliasesOf(OperatorId id) const {
  std::lock_guard lock(mutex_);
  auto it = late_aliases_.find(id);
  return it == late_aliases_.end() ? std::vector<std::string>{} : it->second;
}

}  // namespace tdump
