#include "compare/missing_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "compare/origin_finder.h"
#include "compare/report_lines.h"
#include "compare/roles.h"

namespace tdump::compare {
namespace {

// What one side recorded in a pass.
class Side {
 public:
  Side(const PassDiff& pass, char side, const RecordPatterns& allowed)
      : pass_(pass), side_(side), view_(side == 'A' ? *pass.a : *pass.b) {
    for (const uint64_t id : side == 'A' ? pass.only_a : pass.only_b) {
      auto record = view_.Get(id);
      if (!record.ok()) continue;
      const bool is_allowed = allowed && allowed.Match(*record);
      (is_allowed ? allowed_ : alone_).push_back(*std::move(record));
    }
    const auto before = [](const io::Record& x, const io::Record& y) { return x.seen < y.seen; };
    std::stable_sort(alone_.begin(), alone_.end(), before);
  }

  // Of outcome `i` on this side.
  std::optional<io::Record> Paired(size_t i) const {
    const RecordIds& ids = pass_.outcomes[i].ids;
    auto record = view_.Get(side_ == 'A' ? ids.a : ids.b);
    return record.ok() ? std::optional(*std::move(record)) : std::nullopt;
  }
  // In order of time, without those that need no partner.
  const std::vector<io::Record>& alone() const { return alone_; }
  // Those.
  const std::vector<io::Record>& allowed() const { return allowed_; }
  char name() const { return side_; }

 private:
  const PassDiff& pass_;
  const char side_;
  const StepView& view_;
  std::vector<io::Record> alone_, allowed_;
};

// Parameters, and what an optimizer keeps, are of no micro-batch.
std::set<uint32_t> MicroBatchesIn(const Side& side, size_t paired) {
  std::set<uint32_t> numbers;
  for (const auto* records : {&side.alone(), &side.allowed()}) {
    for (const io::Record& record : *records) {
      if (!IsWeight(record.key.role)) numbers.insert(record.key.micro);
    }
  }
  for (size_t i = 0; i < paired; ++i) {
    const auto record = side.Paired(i);
    if (record && !IsWeight(record->key.role)) numbers.insert(record->key.micro);
  }
  return numbers;
}

std::optional<MissingWork> MicroBatchOnlyIn(const Side& side, const std::set<uint32_t>& own,
                                            const std::set<uint32_t>& others,
                                            std::optional<uint64_t> first) {
  if (own.size() <= others.size() || others.empty()) return std::nullopt;
  MissingWork work;
  work.side = side.name();
  for (const io::Record& record : side.alone()) {
    if (IsWeight(record.key.role) || others.contains(record.key.micro)) continue;
    if (work.records++ > 0) continue;
    if (first && *first < record.seen) return std::nullopt;
    work.key = record.key;
    work.name = NameOf(record);
  }
  if (work.records == 0) return std::nullopt;
  const bool of_a = side.name() == 'A';
  work.micro_batches_a = of_a ? own.size() : others.size();
  work.micro_batches_b = of_a ? others.size() : own.size();
  return work;
}

// Records of one call.
using Call = std::vector<const io::Record*>;

bool ChangesNothing(const Call& call) {
  const auto is = [](bool output) {
    return [output](const io::Record* record) { return IsOutput(record->key.role) == output; };
  };
  return std::all_of(call.begin(), call.end(), [&](const io::Record* out) {
    if (!is(true)(out)) return true;
    return std::any_of(call.begin(), call.end(), [&](const io::Record* in) {
      return is(false)(in) && in->hash && out->hash && *in->hash == *out->hash;
    });
  });
}

// Between the last record that agrees and `first`.
std::optional<MissingWork> ModuleOnlyIn(const Side& side, const PassDiff& pass, uint64_t first) {
  uint64_t last = 0;
  std::set<uint64_t> paired;  // calls
  for (size_t i = 0; i < pass.outcomes.size(); ++i) {
    const auto record = side.Paired(i);
    if (!record || IsWeight(record->key.role)) continue;
    paired.insert(record->call_begin);
    const Outcome& outcome = pass.outcomes[i];
    const bool agrees = outcome.comparison.verdict.Judged() && !outcome.fails;
    if (agrees && record->seen < first) last = std::max(last, record->seen);
  }
  std::map<uint64_t, Call> calls;
  for (const io::Record& record : side.alone()) {
    if (record.kind == OperatorKind::kModule && !IsWeight(record.key.role) &&
        !record.key.recompute && !paired.contains(record.call_begin))
      calls[record.call_begin].push_back(&record);
  }
  for (const auto& [begin, call] : calls) {
    const bool is_between = call.front()->seen > last && call.back()->seen < first;
    if (!is_between || !IsOutput(call.back()->key.role) || ChangesNothing(call)) continue;
    MissingWork work;
    work.side = side.name();
    work.records = call.size();
    work.key = call.front()->key;
    work.name = PlainName(work.key.root, work.key.path, work.key.op);
    return work;
  }
  return std::nullopt;
}

std::optional<MissingWork> MissingIn(const PassDiff& pass, const RecordPatterns& allowed,
                                     const std::optional<FirstDifference>& first) {
  const Side a(pass, 'A', allowed), b(pass, 'B', allowed);
  if (a.alone().empty() && b.alone().empty()) return std::nullopt;
  const std::set<uint32_t> numbers_a = MicroBatchesIn(a, pass.outcomes.size());
  const std::set<uint32_t> numbers_b = MicroBatchesIn(b, pass.outcomes.size());
  for (const Side* side : {&a, &b}) {
    const bool of_a = side == &a;
    const auto differing = first ? side->Paired(first->outcome) : std::nullopt;
    const auto until = differing ? std::optional(differing->seen) : std::nullopt;
    std::optional<MissingWork> work =
        MicroBatchOnlyIn(*side, of_a ? numbers_a : numbers_b, of_a ? numbers_b : numbers_a, until);
    const bool other_has_some = !(of_a ? b : a).alone().empty();
    if (!work && until && !other_has_some) work = ModuleOnlyIn(*side, pass, *until);
    if (work) return work;
  }
  return std::nullopt;
}

}  // namespace

void MissingWorkFinder::AddPass(const PassDiff& pass, const PassPair& pair,
                                const std::optional<FirstDifference>& first) {
  if (pass.only_a.empty() && pass.only_b.empty()) return;
  const bool is_whole = !pair.a.part && !pair.b.part && pass.damage.empty();
  if (!same_rules_ || !is_whole || (found_ && found_->step_b != pair.b.step)) return;
  std::optional<MissingWork> work = MissingIn(pass, *allowed_, first);
  if (!work) return;
  if (!found_)
    found_ = Found{.step_a = pair.a.step,
                   .step_b = pair.b.step,
                   .rank_a = pair.a.captured_rank(),
                   .ranks = {},
                   .work = *std::move(work)};
  else if (found_->work.key != work->key || found_->work.side != work->side)
    return;
  found_->ranks.push_back(pair.b.rank);
}

bool MissingWorkFinder::IsEarlierThan(const Origin& origin) const {
  if (origin.step != found_->step_b) return origin.step > found_->step_b;
  if (origin.kind == OriginKind::kInputs || origin.by_bits || !origin.row) return false;
  if (!origin.parameter.empty() && !IsOfOptimizer(origin.row->key)) return false;
  const auto& ranks = found_->ranks;
  if (std::find(ranks.begin(), ranks.end(), origin.rank) != ranks.end()) return true;
  if (ranks.front() == kAllRanks) return true;
  if (!found_->work.is_micro_batch()) return false;
  return IsOfOptimizer(origin.row->key) || origin.row->key.micro >= found_->work.key.micro;
}

void MissingWorkFinder::Replace(std::optional<Origin>* origin) const {
  if (!found_ || (*origin && !IsEarlierThan(**origin))) return;
  if (!*origin && !found_->work.is_micro_batch()) return;
  Origin missing;
  missing.kind = OriginKind::kMissing;
  missing.certain = found_->work.is_micro_batch();
  missing.step_a = found_->step_a;
  missing.step = found_->step_b;
  missing.rank_a = found_->rank_a;
  missing.rank = found_->ranks.front();
  if (missing.rank != kAllRanks) missing.ranks = found_->ranks;
  missing.name = found_->work.name;
  missing.path = found_->work.key.path;
  missing.op = found_->work.key.op;
  missing.missing = found_->work;
  if (*origin && (*origin)->row) {
    const Origin& next = **origin;
    missing.missing->follows =
        ShownName(next.name) + ", " + ObservationText(*next.row) +
        (next.step == missing.step ? "" : fmt::format(", of step {}", next.step));
  }
  *origin = std::move(missing);
}

}  // namespace tdump::compare
