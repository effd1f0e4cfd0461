#include "core/operator_table.h"

namespace tdump {
namespace {

std::string TableKey(const OperatorInfo& info) {
  std::string key(1, static_cast<char>('0' + static_cast<int>(info.kind)));
  for (const std::string* field : {&info.root, &info.path, &info.op}) {
    key += *field;
    key += '\0';
  }
  return key;
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
  auto [it, added] = ids_.try_emplace(TableKey(info), size_.load(std::memory_order_relaxed));
  if (!added) return it->second;
  const uint32_t id = it->second;
  // 4 M operators: names with a counter in them; the caller records nothing for it.
  if (id >= kChunk * kChunks) {
    ids_.erase(it);
    return kNoOperator;
  }
  std::atomic<OperatorInfo*>& chunk = chunks_[id / kChunk];
  if (chunk.load(std::memory_order_relaxed) == nullptr) {
    chunk.store(new OperatorInfo[kChunk], std::memory_order_release);
  }
  chunk.load(std::memory_order_relaxed)[id % kChunk] = info;
  size_.store(id + 1, std::memory_order_release);
  return id;
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
