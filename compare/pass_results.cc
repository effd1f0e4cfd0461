#include "compare/pass_results.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <string_view>
#include <utility>

#include "compare/late_pair.h"
#include "compare/late_view.h"
#include "compare/ordered_work.h"
#include "compare/pass_diff_archive.h"
#include "compare/stages.h"
#include "compare/trim_heap.h"
#include "compare/twin_view.h"

namespace tdump::compare {
namespace {

// From here on what judging took, some 100 bytes a pair, is worth the milliseconds of a trim.
constexpr size_t kManyPairs = 100'000;

// What a message of another process begins with; keys follow all but errors.
constexpr char kError = 'E', kWhole = 'W', kEqual = 'Q', kKnown = 'K';

std::string TextOf(const io::Hash128& keys) {
  return {reinterpret_cast<const char*>(keys.data()), keys.size()};
}

// As a stable sort, and in place: millions of outcomes are no small part of the memory.
void SortByOrder(std::vector<Outcome>* outcomes) {
  std::vector<uint32_t> from(outcomes->size());
  std::iota(from.begin(), from.end(), 0u);
  std::sort(from.begin(), from.end(), [&](uint32_t x, uint32_t y) {
    const uint64_t left = (*outcomes)[x].order, right = (*outcomes)[y].order;
    return left != right ? left < right : x < y;
  });
  for (uint32_t start = 0; start < from.size(); ++start) {
    if (from[start] == start) continue;
    Outcome first = std::move((*outcomes)[start]);
    uint32_t to = start;
    for (uint32_t next = from[to]; next != start; next = from[to]) {
      (*outcomes)[to] = std::move((*outcomes)[next]);
      from[to] = to;
      to = next;
    }
    (*outcomes)[to] = std::move(first);
    from[to] = to;
  }
}

// As the process that compared the pass saw it.
Result<std::unique_ptr<StepView>> WithTwins(Result<std::unique_ptr<StepView>> opened,
                                            const PassDiff& diff, uint64_t RecordIds::*id) {
  TDUMP_RETURN_IF_ERROR(opened.status());
  auto view = std::make_unique<TwinView>(*std::move(opened));
  for (const Outcome& outcome : diff.outcomes) {
    if (MayBeOfTwins(outcome.comparison)) view->Show(outcome.ids.*id);
  }
  return std::unique_ptr<StepView>(std::move(view));
}

}  // namespace

std::optional<io::Hash128> EqualKeys(const RunSide& a, const RunSide& b, const PassPair& pair) {
  const Result<io::PassDigest> of_a = a.DigestOf(pair.a);
  if (!of_a.ok()) return std::nullopt;
  const Result<io::PassDigest> of_b = b.DigestOf(pair.b);
  const bool equal = of_b.ok() && of_a->keys == of_b->keys && of_a->values == of_b->values;
  return equal ? std::optional(of_a->keys) : std::nullopt;
}

Status PassResults::ForEach(const std::vector<PassPair>& pairs, const Consume& consume) {
  std::vector<size_t> mine;  // process 0 takes all in hand, in order
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (team_ == nullptr || team_->rank() == 0 || OwnerOf(i) == static_cast<size_t>(team_->rank()))
      mine.push_back(i);
  }
  const bool first = team_ == nullptr || team_->rank() == 0;
  const auto is_own = [&](size_t i) {
    return team_ == nullptr || OwnerOf(i) == static_cast<size_t>(team_->rank());
  };
  const unsigned all = std::max(1u, options_.threads);
  const auto at_once =
      static_cast<unsigned>(std::clamp<size_t>(mine.size(), 1, ways_.one_at_a_time ? 1 : all));
  ThreadBudget budget(all - at_once);  // what passes do not use is left to their pairs
  PassDiffOptions options = options_;
  options.budget = &budget;
  if (ways_.by_step_before) {
    before_.emplace(a_, b_, pairs, options, [&](size_t i, size_t before) {
      return team_ == nullptr || OwnerOf(i) == OwnerOf(before);
    });
  }
  Status status;
  std::atomic<bool> enough{false};
  RunInOrder(
      mine.size(), at_once,
      [&](unsigned, size_t k) {
        if (!is_own(mine[k])) return Compared();
        return Produce(pairs[mine[k]], mine[k], options, !enough);
      },
      [&](size_t k, Compared&& compared) {
        const size_t i = mine[k];
        if (!first) {
          status = SendToFirst(compared);
          if (before_) before_->ForgetBefore(i);
          return status.ok();
        }
        // Even of what is no longer asked for: its sender waits.
        if (!is_own(i)) compared.diff = Receive(pairs[i], i, options, &status);
        if (before_ && status.ok() && !enough) JudgeByBefore(pairs[i], i, options, &compared.diff);
        if (status.ok() && !enough) enough = !consume(i, compared.diff);
        return status.ok() && (!enough || team_ != nullptr);
      },
      [&] { budget.Give(); });
  return status;
}

PassResults::Compared PassResults::Produce(const PassPair& pair, size_t i, PassDiffOptions options,
                                           bool is_asked) {
  if (before_ && before_->IsKnownTo(i)) options.before = [this, i] { return before_->Before(i); };
  options.is_first_step = before_ && IsFirstStep(pair);
  Compared compared = is_asked ? Compare(pair, i, options) : Compared();
  // Even of what is no longer asked for: the next one waits.
  if (before_) before_->Put(i, compared.diff.ok() ? compared.diff->get() : nullptr);
  return compared;
}

void PassResults::JudgeByBefore(const PassPair& pair, size_t i, const PassDiffOptions& options,
                                Diff* diff) {
  if (!before_->IsKnownTo(i) && diff->ok() && StepsBefore::IsNeeded(***diff)) {
    if (const auto before = before_->Before(i)) {
      PassDiffOptions with_before = options;
      with_before.before = [&before] { return before; };
      *diff = CompareAll(pair, with_before);
    }
  }
  if (team_ != nullptr) before_->Put(i, diff->ok() ? (*diff)->get() : nullptr);
  before_->ForgetBefore(i);
}

PassResults::Diff PassResults::CompareAll(const PassPair& pair,
                                          const PassDiffOptions& options) const {
  TDUMP_ASSIGN_OR_RETURN(PassDiff diff, diff_pair_(pair, options));
  SortByOrder(&diff.outcomes);
  if (diff.outcomes.size() > kManyPairs) TrimHeap();  // of what judging took
  return std::make_shared<const PassDiff>(std::move(diff));
}

std::optional<io::Hash128> PassResults::KeysOf(const PassPair& pair, size_t i) const {
  if (!ways_.by_digest) return std::nullopt;
  auto keys = i == 0 && ways_.first ? *ways_.first : EqualKeys(a_, b_, pair);
  // Inputs of the first stage alone are inputs of the model.
  if (keys && StageOf(a_, b_, pair).value_or(0) > 0) (*keys)[0] ^= 1;
  return keys;
}

PassResults::Compared PassResults::Compare(const PassPair& pair, size_t i,
                                           const PassDiffOptions& options) {
  if (const auto keys = KeysOf(pair, i)) return {CompareEqual(pair, *keys, options), keys};
  return {CompareAll(pair, options), std::nullopt};
}

PassResults::Diff PassResults::CompareEqual(const PassPair& pair, const io::Hash128& keys,
                                            const PassDiffOptions& options) {
  if (auto known = Find(keys)) return known;
  Diff diff = CompareAll(pair, options);
  // What a damaged pass says holds for no other.
  if (diff.ok() && (*diff)->damage.empty()) Keep(keys, *diff);
  return diff;
}

std::shared_ptr<const PassDiff> PassResults::Find(const io::Hash128& keys) {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) { return kept.keys == keys; });
  if (found == kept_.end()) return nullptr;
  std::rotate(kept_.begin(), found, found + 1);
  return kept_.front().diff;
}

void PassResults::Keep(const io::Hash128& keys, std::shared_ptr<const PassDiff> diff) {
  const std::lock_guard lock(mutex_);
  const auto is_this = [&](const Kept& kept) { return kept.keys == keys; };
  if (std::any_of(kept_.begin(), kept_.end(), is_this)) return;
  kept_.push_front({keys, std::move(diff)});
  if (kept_.size() > kMostKept) kept_.pop_back();
}

Status PassResults::SendToFirst(const Compared& compared) {
  if (!compared.diff.ok()) return team_->Send(kError + compared.diff.status().message());
  const PassDiff& diff = **compared.diff;
  const bool stands = compared.keys && diff.damage.empty();
  const io::Hash128 keys = stands ? *compared.keys : io::Hash128{};
  if (stands && !sent_.insert(keys).second) return team_->Send(kKnown + TextOf(keys));
  return team_->Send((stands ? kEqual : kWhole) + TextOf(keys) +
                     ArchivePassDiff(diff, options_.rules.get()));
}

PassResults::Diff PassResults::Receive(const PassPair& pair, size_t i,
                                       const PassDiffOptions& options, Status* broken) {
  Result<std::string> message = team_->Receive(static_cast<int>(OwnerOf(i)));
  if (!message.ok()) return *broken = message.status();
  std::string_view rest = *message;
  const char kind = rest.empty() ? kError : rest.front();
  rest.remove_prefix(std::min<size_t>(1, rest.size()));
  io::Hash128 keys{};
  if (kind == kError || rest.size() < keys.size()) return Corrupt(std::string(rest));
  std::memcpy(keys.data(), rest.data(), keys.size());
  rest.remove_prefix(keys.size());
  // One that was dropped to make room is compared here.
  if (kind == kKnown) return CompareEqual(pair, keys, options);
  Result<PassDiff> diff = UnarchivePassDiff(rest, options_.rules.get());
  if (!diff.ok()) return *broken = diff.status();
  auto shared = std::make_shared<PassDiff>(std::move(*diff));
  const auto late = std::make_shared<LatePair>(a_, b_, pair);
  const PassDiff* const of = shared.get();  // which owns the views
  shared->a = std::make_unique<LateView>(
      [late, of] { return WithTwins(late->TakeA(), *of, &RecordIds::a); });
  shared->b = std::make_unique<LateView>(
      [late, of] { return WithTwins(late->TakeB(), *of, &RecordIds::b); });
  const Diff result = std::shared_ptr<const PassDiff>(std::move(shared));
  if (kind == kEqual) Keep(keys, *result);
  return result;
}

}  // namespace tdump::compare
