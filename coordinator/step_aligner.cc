#include "coordinator/step_aligner.h"

#include <algorithm>
#include <cstdlib>

namespace tdump::coordinator {
namespace {

constexpr size_t kReportsKept = 4096;  // of one rank; more wait only when another rank is silent
constexpr size_t kLookAhead = 8;       // steps
constexpr size_t kLagsKept = 8;
constexpr size_t kLagsNeeded = 2;
constexpr int64_t kClockGrainNs = 1'000'000;

size_t Index(int32_t rank) { return static_cast<size_t>(rank); }

// Of two in the middle the lower one. Puts the values into another order.
int64_t Median(std::vector<int64_t>* values) {
  auto middle = values->begin() + static_cast<ptrdiff_t>((values->size() - 1) / 2);
  std::nth_element(values->begin(), middle, values->end());
  return *middle;
}

// Largest distance of a value from `center`.
int64_t Spread(const std::vector<int64_t>& values, int64_t center) {
  int64_t spread = 0;
  for (int64_t value : values) spread = std::max(spread, std::abs(value - center));
  return spread;
}

}  // namespace

StepAligner::StepAligner(int32_t world, Options options)
    : options_(options), members_(static_cast<size_t>(std::max(world, 1))) {}

void StepAligner::ContinueFrom(uint64_t columns, const std::vector<uint64_t>& extras) {
  column_ = columns;
  for (size_t rank = 0; rank < members_.size() && rank < extras.size(); ++rank)
    members_[rank].extras = extras[rank];
}

void StepAligner::Report(int32_t rank, const StepReport& report, int64_t now_ns) {
  if (rank < 0 || Index(rank) >= members_.size()) return;
  Member& member = members_[Index(rank)];
  const auto place =
      std::lower_bound(member.reports.begin(), member.reports.end(), report.local,
                       [](const StepReport& known, uint64_t local) { return known.local < local; });
  member.lost = false;
  const bool settled = report.local < member.extras + column_;
  if (settled || (place != member.reports.end() && place->local == report.local)) return;
  member.reports.insert(place, report);
  if (member.reports.size() > kReportsKept) member.DropFirst();
  if (waiting_since_ns_ < 0) waiting_since_ns_ = now_ns;
}

void StepAligner::Leave(int32_t rank) {
  if (rank >= 0 && Index(rank) < members_.size()) members_[Index(rank)].left = true;
}

void StepAligner::Lose(int32_t rank) {
  if (rank >= 0 && Index(rank) < members_.size()) members_[Index(rank)].lost = true;
}

bool StepAligner::Has(const Member& member) const {
  return !member.reports.empty() && member.Global(member.reports.front()) == column_;
}

const StepReport* StepAligner::Next(const Member& member) const {
  return member.reports.size() > 1 ? &member.reports[1] : nullptr;
}

// Steps that were settled without this rank.
void StepAligner::DropSettled(Member* member) {
  std::vector<StepReport>& reports = member->reports;
  const auto first = std::find_if(reports.begin(), reports.end(), [&](const StepReport& report) {
    return member->Global(report) >= column_;
  });
  reports.erase(reports.begin(), first);
}

void StepAligner::FindReporting() {
  reporting_.clear();
  for (size_t rank = 0; rank < members_.size(); ++rank) {
    if (Has(members_[rank])) reporting_.push_back(static_cast<int32_t>(rank));
  }
}

bool StepAligner::EveryoneReported(int64_t now_ns, Progress* progress) {
  const bool impatient = waiting_since_ns_ >= 0 && now_ns - waiting_since_ns_ > options_.silence_ns;
  bool all = true;
  for (size_t rank = 0; rank < members_.size(); ++rank) {
    Member& member = members_[rank];
    if (!member.reports.empty() || member.left || member.lost) continue;
    if (impatient) {
      member.lost = true;
      progress->lost.push_back(static_cast<int32_t>(rank));
    } else {
      all = false;
    }
  }
  return all;
}

// The shape most ranks have; among equals the one that more of the other ranks come to with their
// next step, else that of the lowest rank.
StepAligner::Majority StepAligner::ShapeOfColumn(const std::vector<int32_t>& ranks) {
  supports_.clear();
  const auto find = [this](uint64_t shape) {
    return std::find_if(supports_.begin(), supports_.end(),
                        [&](const auto& entry) { return entry.first == shape; });
  };
  for (int32_t rank : ranks) {
    const uint64_t shape = members_[Index(rank)].reports.front().shape;
    auto entry = find(shape);
    if (entry == supports_.end())
      entry = supports_.insert(entry, {shape, {.fronts = 0, .followers = 0, .first = rank}});
    ++entry->second.fronts;
  }
  for (int32_t rank : ranks) {
    const Member& member = members_[Index(rank)];
    const StepReport* next = Next(member);
    if (next == nullptr || next->shape == member.reports.front().shape) continue;
    const auto found = find(next->shape);
    if (found != supports_.end()) ++found->second.followers;
  }
  const auto less = [](const auto& a, const auto& b) {
    const Support &x = a.second, &y = b.second;
    if (x.fronts != y.fronts) return x.fronts < y.fronts;
    if (x.followers != y.followers) return x.followers < y.followers;
    return x.first > y.first;
  };
  const auto best = std::max_element(supports_.begin(), supports_.end(), less);
  const auto as_many = std::count_if(supports_.begin(), supports_.end(), [&](const auto& entry) {
    return entry.second.fronts == best->second.fronts;
  });
  return {best->first, supports_.size() == 1, as_many > 1};
}

// How many steps the rank ran before one of `shape`; 0: none of its next steps is.
size_t StepAligner::StepsUntil(const Member& member, uint64_t shape) const {
  const size_t end = std::min(member.reports.size(), kLookAhead + 1);
  for (size_t i = 1; i < end; ++i) {
    if (member.reports[i].shape == shape) return i;
  }
  return 0;
}

void StepAligner::TakeOut(int32_t rank, bool by_time, Progress* progress) {
  Member& member = members_[Index(rank)];
  progress->extras.push_back({rank, member.reports.front().local, by_time});
  member.DropFirst();
  ++member.extras;
}

StepAligner::Outcome StepAligner::ByShape(const std::vector<int32_t>& ranks, bool patient,
                                          Progress* progress) {
  const Majority majority = ShapeOfColumn(ranks);
  if (majority.unanimous) {
    for (int32_t rank : ranks) members_[Index(rank)].apart = false;
    return Outcome::kDecided;
  }
  for (int32_t rank : ranks) {
    Member& member = members_[Index(rank)];
    const bool fits = member.reports.front().shape == majority.shape;
    if (fits) member.apart = false;
    if (!patient || member.left || member.apart) continue;
    // What comes next settles a draw, and tells an extra step.
    if (majority.draw && Next(member) == nullptr) return Outcome::kUndecided;
    if (!fits && StepsUntil(member, majority.shape) == 0 && member.reports.size() <= kLookAhead)
      return Outcome::kUndecided;
  }
  for (int32_t rank : ranks) {
    Member& member = members_[Index(rank)];
    if (member.reports.front().shape == majority.shape) continue;
    const bool surplus = member.left && member.reports.size() == 1 && !member.apart;
    const size_t extra = surplus ? 1 : StepsUntil(member, majority.shape);
    member.apart = extra == 0;
    for (size_t i = 0; i < extra; ++i) TakeOut(rank, false, progress);
    if (extra != 0) return Outcome::kExtraFound;
  }
  return Outcome::kDecided;
}

int64_t StepAligner::OthersBegan(const std::vector<int32_t>& ranks, int32_t except) {
  values_.clear();
  for (int32_t rank : ranks) {
    if (rank != except) values_.push_back(members_[Index(rank)].reports.front().began_ns);
  }
  return Median(&values_);
}

StepAligner::Outcome StepAligner::ByTime(const std::vector<int32_t>& ranks, bool patient,
                                         Progress* progress) {
  if (!options_.by_time || ranks.size() < 2) return Outcome::kDecided;
  for (int32_t rank : ranks) {
    const Member& member = members_[Index(rank)];
    if (member.lags.size() < kLagsNeeded) continue;
    values_ = member.lags;
    const int64_t usual = Median(&values_);
    const int64_t spread = Spread(member.lags, usual);
    const int64_t expected = OthersBegan(ranks, rank) + usual;
    const int64_t early = expected - member.reports.front().began_ns;
    if (early <= 4 * spread + kClockGrainNs) continue;
    const StepReport* next = Next(member);
    if (next == nullptr) {
      if (patient && !member.left) return Outcome::kUndecided;
      continue;
    }
    if (std::abs(next->began_ns - expected) * 4 > early) continue;
    TakeOut(rank, true, progress);
    return Outcome::kExtraFound;
  }
  return Outcome::kDecided;
}

void StepAligner::Settle(const std::vector<int32_t>& ranks) {
  for (int32_t rank : ranks) {
    Member& member = members_[Index(rank)];
    if (ranks.size() < 2) break;
    member.lags.push_back(member.reports.front().began_ns - OthersBegan(ranks, rank));
    if (member.lags.size() > kLagsKept) member.lags.erase(member.lags.begin());
  }
  for (int32_t rank : ranks) members_[Index(rank)].DropFirst();
  ++column_;
}

// The reports of the present column were lost on the way.
void StepAligner::SkipToReported() {
  uint64_t column = ~uint64_t{0};
  for (const Member& member : members_) {
    if (!member.reports.empty()) column = std::min(column, member.Global(member.reports.front()));
  }
  column_ = column;
}

StepAligner::Progress StepAligner::Advance(int64_t now_ns) {
  Progress progress;
  while (true) {
    for (Member& member : members_) DropSettled(&member);
    const bool any = std::any_of(members_.begin(), members_.end(),
                                 [](const Member& member) { return !member.reports.empty(); });
    if (!any) {
      waiting_since_ns_ = -1;
      return progress;
    }
    if (waiting_since_ns_ < 0) waiting_since_ns_ = now_ns;
    if (!EveryoneReported(now_ns, &progress)) return progress;
    FindReporting();
    const std::vector<int32_t>& ranks = reporting_;
    if (ranks.empty()) {
      SkipToReported();
      continue;
    }
    const bool patient = now_ns - waiting_since_ns_ <= options_.silence_ns;
    Outcome outcome = ByShape(ranks, patient, &progress);
    if (outcome == Outcome::kDecided) outcome = ByTime(ranks, patient, &progress);
    if (outcome == Outcome::kUndecided) return progress;
    if (outcome == Outcome::kDecided) {
      Settle(ranks);
      waiting_since_ns_ = -1;
    }
  }
}

}  // namespace tdump::coordinator
