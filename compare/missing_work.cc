#include "compare/missing_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "compare/origin_finder.h"
#include "compare/report_lines.h"
#include "compare/roles.h"
#include "compare/same_bytes.h"

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

  // Of outcome `i` on this side, until the next call; null: it cannot be read.
  const io::Record* Paired(size_t i) const {
    const RecordIds& ids = pass_.outcomes[i].ids;
    const uint64_t id = side_ == 'A' ? ids.a : ids.b;
    if (const io::Record* known = view_.Known(id)) return known;
    auto record = view_.Get(id);
    if (!record.ok()) return nullptr;
    paired_ = *std::move(record);
    return &paired_;
  }
  // In order of time, without those that need no partner.
  const std::vector<io::Record>& alone() const { return alone_; }
  // Those.
  const std::vector<io::Record>& allowed() const { return allowed_; }
  const StepView& view() const { return view_; }
  char name() const { return side_; }

 private:
  const PassDiff& pass_;
  const char side_;
  const StepView& view_;
  mutable io::Record paired_;
  std::vector<io::Record> alone_, allowed_;
};

// Of each record, until `visit` returns false. Parameters, and what an optimizer keeps, are of no
// micro-batch.
void ForEachMicroBatch(const Side& side, size_t paired,
                       const std::function<bool(uint32_t)>& visit) {
  const auto goes_on = [&](const io::Record& record) {
    return IsWeight(record.key.role) || visit(record.key.micro);
  };
  for (const auto* records : {&side.alone(), &side.allowed()}) {
    if (!std::all_of(records->begin(), records->end(), goes_on)) return;
  }
  for (size_t i = 0; i < paired; ++i) {
    const io::Record* record = side.Paired(i);
    if (record != nullptr && !goes_on(*record)) return;
  }
}

std::optional<MissingWork> MicroBatchOnlyIn(const Side& side, const Side& other, size_t paired,
                                            std::optional<uint64_t> first) {
  std::set<uint32_t> lacking, others, own;
  for (const io::Record& record : side.alone()) {
    if (!IsWeight(record.key.role)) lacking.insert(record.key.micro);
  }
  if (lacking.empty()) return std::nullopt;
  // Mostly the other side's first record tells that it has it too.
  ForEachMicroBatch(other, paired, [&](uint32_t micro) {
    others.insert(micro);
    lacking.erase(micro);
    return !lacking.empty();
  });
  if (lacking.empty()) return std::nullopt;
  ForEachMicroBatch(side, paired, [&](uint32_t micro) { return own.insert(micro), true; });
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
  const bool of_a = side.name() == 'A';
  work.micro_batches_a = of_a ? own.size() : others.size();
  work.micro_batches_b = of_a ? others.size() : own.size();
  return work;
}

// Records of one call.
using Call = std::vector<const io::Record*>;

// Of two tensors of one shape and dtype: by hash, else by statistics; true where nothing tells.
// `read`: values too, where they were kept without a hash; else these are not equal.
bool AreEqual(const StepView& view, const io::Record& in, const io::Record& out, bool read) {
  if (in.hash && out.hash) return *in.hash == *out.hash;
  if (in.sizes != out.sizes || in.dtype != out.dtype) return false;
  if (!in.payload || !out.payload) {
    const std::optional<Summary> before = view.SummaryOf(in), after = view.SummaryOf(out);
    return !before || !after || *before == *after;
  }
  if (!read) return false;
  auto a = view.Open(in), b = view.Open(out);
  if (!a.ok() || !b.ok()) return true;
  const auto same = SameBytes({&in, *std::move(a)}, {&out, *std::move(b)});
  return !same.ok() || *same;
}

// Whether all that it returned is something that it was given.
bool ChangesNothing(const StepView& view, const Call& call, bool read) {
  return std::all_of(call.begin(), call.end(), [&](const io::Record* out) {
    if (!IsOutput(out->key.role)) return true;
    return std::any_of(call.begin(), call.end(), [&](const io::Record* in) {
      return !IsOutput(in->key.role) && AreEqual(view, *in, *out, read);
    });
  });
}

// Calls of modules, by begin, that end before `first` with an output, as far as no values are read.
std::map<uint64_t, Call> CallsBefore(const Side& side, uint64_t first) {
  std::map<uint64_t, Call> calls;
  for (const io::Record& record : side.alone()) {
    if (record.kind == OperatorKind::kModule && !IsWeight(record.key.role) && !record.key.recompute)
      calls[record.call_begin].push_back(&record);
  }
  std::erase_if(calls, [&](const auto& of) {
    const io::Record& last = *of.second.back();
    return last.seen >= first || !IsOutput(last.key.role) ||
           ChangesNothing(side.view(), of.second, /*read=*/false);
  });
  return calls;
}

// Between the last record that agrees and the first difference, outcome `at`.
std::optional<MissingWork> ModuleOnlyIn(const Side& side, const PassDiff& pass, size_t at,
                                        uint64_t first) {
  std::map<uint64_t, Call> calls = CallsBefore(side, first);
  // Those right before the difference tell soonest.
  for (size_t i = 0; i < pass.outcomes.size() && !calls.empty(); ++i) {
    const size_t next = i <= at ? at - i : i;
    const io::Record* record = side.Paired(next);
    if (record == nullptr || IsWeight(record->key.role)) continue;
    calls.erase(record->call_begin);
    const Outcome& outcome = pass.outcomes[next];
    const bool agrees = outcome.comparison.verdict.Judged() && !outcome.fails;
    if (!agrees || record->seen >= first) continue;
    std::erase_if(calls, [&](const auto& of) { return of.second.front()->seen <= record->seen; });
  }
  for (const auto& [begin, call] : calls) {
    if (ChangesNothing(side.view(), call, /*read=*/true)) continue;
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
  for (const Side* side : {&a, &b}) {
    const Side& other = side == &a ? b : a;
    const io::Record* differing = first ? side->Paired(first->outcome) : nullptr;
    const auto until = differing != nullptr ? std::optional(differing->seen) : std::nullopt;
    std::optional<MissingWork> work = MicroBatchOnlyIn(*side, other, pass.outcomes.size(), until);
    if (!work && until && other.alone().empty())
      work = ModuleOnlyIn(*side, pass, first->outcome, *until);
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
