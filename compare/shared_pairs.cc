#include "compare/shared_pairs.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <queue>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "compare/made_parts.h"
#include "compare/pass_diff_archive.h"
#include "io/hash.h"

namespace tdump::compare {
namespace {

constexpr size_t kPiece = 4096;              // pairs of a message
constexpr uint64_t kCostOfPair = 64 * 1024;  // in bytes that could be read meanwhile
constexpr int kMostProcesses = 0xFFFF;

// Of a step that could not be opened; no step has it.
constexpr uint64_t kNotOpened = 0;

struct Head {
  uint64_t fingerprint = kNotOpened;
  uint64_t pieces = 0;
};

uint64_t Mix(uint64_t hash, uint64_t more) {
  hash = (hash ^ more) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 29);
}
uint64_t Mix(uint64_t hash, const std::string& more) {
  return Mix(hash, std::hash<std::string>()(more));
}

// What of a tensor is not told by its id: how it was put together. Of a copy all is the tensor's.
uint64_t MixTensor(uint64_t hash, const StepView& view, uint64_t id) {
  hash = Mix(hash, id);
  const io::Record* known = view.Known(id);
  if (known == nullptr || known->id != id) return hash;
  hash = Mix(hash, std::string(known->dtype.view()));
  if (known->hash) hash = Mix(hash, io::LowWord(*known->hash));
  return Mix(Mix(hash, view.LayoutOf(id)), view.StateOf(id).message());
}

uint64_t FingerprintOf(const PassDiff& diff) {
  uint64_t hash = Mix(1, diff.outcomes.size());
  for (const Outcome& outcome : diff.outcomes) {
    hash = Mix(hash, outcome.key_hash);
    hash = MixTensor(hash, *diff.a, outcome.ids.a);
    hash = MixTensor(hash, *diff.b, outcome.ids.b);
  }
  for (const io::Damage& damage : diff.damage) hash = Mix(hash, damage.what);
  return hash == kNotOpened ? 1 : hash;
}

// Of a record's values, for what the other side kept instead of its own.
uint64_t BytesBeside(const io::Record& record, const StepView& other_view,
                     const io::Record& other) {
  const bool summarised = other_view.SummaryOf(other).has_value();
  return PartsLacking(record, other, summarised).bytes() ? record.payload->logical_bytes : 0;
}

// Bytes of a pair that are read, as far as is known before.
uint64_t BytesOf(const PassDiff& diff, const RecordIds& ids) {
  const io::Record* a = diff.a->Known(ids.a);
  const io::Record* b = diff.b->Known(ids.b);
  if (a == nullptr || b == nullptr) return 0;
  if (!a->payload || !b->payload)
    return BytesBeside(*a, *diff.b, *b) + BytesBeside(*b, *diff.a, *a);
  if (a->hash && a->hash == b->hash) return 0;
  return a->payload->logical_bytes + b->payload->logical_bytes;
}

}  // namespace

Result<bool> SharedPairs::AllAgree(Team* team, int64_t steps) {
  const int own = static_cast<int>(std::clamp<int64_t>(steps, -1, std::numeric_limits<int>::max()));
  TDUMP_ASSIGN_OR_RETURN(const int most, team->Largest(own));
  TDUMP_ASSIGN_OR_RETURN(const int least, team->Largest(-own));
  return most == -least && most >= 0 && team->size() <= kMostProcesses;
}

Result<SharedPairs::StepDecision> SharedPairs::Begin(StepDecision own) {
  const auto decision = team_->Largest(is_first() ? static_cast<int>(own) : 0);
  if (decision.ok()) return static_cast<StepDecision>(*decision);
  return status_ = decision.status();
}

// Pairs of which nothing is read in turn. The others the largest first, each to whom has least: no
// process has more than its share and one pair.
void SharedPairs::Deal(const PassDiff& diff) {
  const auto processes = static_cast<size_t>(team_->size());
  owners_.resize(diff.outcomes.size());
  std::vector<std::pair<uint64_t, uint32_t>> read;  // bytes, pair
  size_t others = 0;
  for (uint32_t i = 0; i < diff.outcomes.size(); ++i) {
    const uint64_t bytes = BytesOf(diff, diff.outcomes[i].ids);
    if (bytes > 0)
      read.emplace_back(bytes, i);
    else
      owners_[i] = static_cast<uint16_t>(others++ % processes);
  }
  std::sort(read.begin(), read.end(), [](const auto& x, const auto& y) {
    return x.first != y.first ? x.first > y.first : x.second < y.second;
  });
  using Load = std::pair<uint64_t, uint16_t>;  // what it has, process
  std::priority_queue<Load, std::vector<Load>, std::greater<>> loads;
  for (size_t process = 0; process < processes; ++process)
    loads.emplace(0, static_cast<uint16_t>(process));
  for (const auto& [bytes, pair] : read) {
    const auto [load, process] = loads.top();
    loads.pop();
    owners_[pair] = process;
    loads.emplace(load + bytes + kCostOfPair, process);
  }
  own_ = static_cast<size_t>(
      std::count(owners_.begin(), owners_.end(), static_cast<uint16_t>(team_->rank())));
  fingerprint_ = FingerprintOf(diff);
}

void SharedPairs::Send(const PassDiff* diff) { status_ = SendAll(diff); }

Status SharedPairs::SendAll(const PassDiff* diff) {
  std::vector<uint32_t> own;
  for (uint32_t i = 0; diff != nullptr && i < diff->outcomes.size(); ++i) {
    // What cannot be read here may be readable elsewhere.
    if (IsOwn(i) && diff->outcomes[i].error->empty()) own.push_back(i);
  }
  Head head;
  if (diff != nullptr) head = {fingerprint_, (own.size() + kPiece - 1) / kPiece};
  TDUMP_RETURN_IF_ERROR(team_->Send({reinterpret_cast<const char*>(&head), sizeof(head)}));
  for (size_t at = 0; at < own.size(); at += kPiece) {
    const auto piece = std::span(own).subspan(at, std::min(kPiece, own.size() - at));
    TDUMP_RETURN_IF_ERROR(team_->Send(ArchiveOutcomes(diff->outcomes, piece, rules_)));
  }
  return {};
}

std::vector<size_t> SharedPairs::Receive(PassDiff* diff,
                                         const std::function<void(Outcome*)>& placed) {
  std::vector<bool> missing(owners_.size());
  for (size_t i = 0; i < owners_.size(); ++i) missing[i] = !IsOwn(i);
  for (int process = 1; process < team_->size() && status_.ok(); ++process)
    status_ = ReceiveFrom(process, diff, placed, &missing);
  std::vector<size_t> again;
  for (size_t i = 0; i < missing.size() && status_.ok(); ++i) {
    if (missing[i]) again.push_back(i);
  }
  return again;
}

Status SharedPairs::ReceiveFrom(int process, PassDiff* diff,
                                const std::function<void(Outcome*)>& placed,
                                std::vector<bool>* missing) {
  TDUMP_ASSIGN_OR_RETURN(const std::string first, team_->Receive(process));
  Head head;
  if (first.size() != sizeof(head)) return Corrupt("a message of another process");
  std::memcpy(&head, first.data(), sizeof(head));
  for (uint64_t piece = 0; piece < head.pieces; ++piece) {
    TDUMP_ASSIGN_OR_RETURN(const std::string message, team_->Receive(process));
    if (head.fingerprint != fingerprint_) continue;
    TDUMP_ASSIGN_OR_RETURN(std::vector<NumberedOutcome> outcomes,
                           UnarchiveOutcomes(message, rules_));
    for (auto& [number, outcome] : outcomes) {
      if (number >= owners_.size() || owners_[number] != process)
        return Corrupt("a message of another process");
      diff->outcomes[number] = std::move(outcome);
      placed(&diff->outcomes[number]);
      (*missing)[number] = false;
    }
  }
  return {};
}

}  // namespace tdump::compare
