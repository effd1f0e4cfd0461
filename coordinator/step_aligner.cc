#include "coordinator/step_aligner.h"

#include <algorithm>
#include <cstdlib>

namespace tdump::coordinator {
namespace {

constexpr size_t kReportsKept = 4096;  // of one rank; more wait only when another rank is silent
constexpr size_t kLookAhead = 8;       // steps that others may be further
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

void StepAligner::KeepOrder(int32_t rank) {
  if (rank >= 0 && Index(rank) < members_.size()) members_[Index(rank)].keeps_order = true;
}

void StepAligner::TakeOutOtherShapes(int32_t rank) {
  if (rank >= 0 && Index(rank) < members_.size()) members_[Index(rank)].by_shape = true;
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

bool StepAligner::AnyLeft(const std::vector<int32_t>& ranks) const {
  return std::any_of(ranks.begin(), ranks.end(),
                     [this](int32_t rank) { return members_[Index(rank)].left; });
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

void StepAligner::CountFollowers(const std::vector<int32_t>& ranks,
                                 std::array<Support, kModes>* supports) const {
  for (int32_t rank : ranks) {
    const Member& member = members_[Index(rank)];
    std::array<bool, kModes> comes_to{};
    for (const StepReport& report : member.reports)
      comes_to[static_cast<size_t>(report.mode) % kModes] = true;
    comes_to[static_cast<size_t>(member.reports.front().mode) % kModes] = false;
    for (size_t mode = 0; mode < kModes; ++mode)
      (*supports)[mode].followers += comes_to[mode] ? 1 : 0;
  }
}

// The mode most ranks are in; among equals the one that more of the other ranks come to, else that
// of the lowest rank. Ranks that do something else count where there are no others.
StepAligner::Column StepAligner::ColumnOf(const std::vector<int32_t>& ranks) {
  std::array<Support, kModes> supports;
  const bool all_apart = std::all_of(ranks.begin(), ranks.end(),
                                     [this](int32_t rank) { return members_[Index(rank)].apart; });
  for (int32_t rank : ranks) {
    const Member& member = members_[Index(rank)];
    if (member.apart && !all_apart) continue;
    Support& support = supports[static_cast<size_t>(member.reports.front().mode) % kModes];
    if (support.fronts++ == 0) support.first = rank;
  }
  const auto in_column = [](const Support& support) { return support.fronts > 0; };
  const bool one_mode = std::count_if(supports.begin(), supports.end(), in_column) == 1;
  if (!one_mode) CountFollowers(ranks, &supports);
  const auto less = [](const Support& x, const Support& y) {
    if (x.fronts != y.fronts) return x.fronts < y.fronts;
    if (x.fronts == 0) return false;
    if (x.followers != y.followers) return x.followers < y.followers;
    return x.first > y.first;
  };
  const auto best = std::max_element(supports.begin(), supports.end(), less);
  const auto as_many = std::count_if(supports.begin(), supports.end(), [&](const Support& support) {
    return support.fronts == best->fronts && support.followers == best->followers;
  });
  const auto mode = static_cast<StepMode>(best - supports.begin());
  return {.mode = mode, .shape = ShapeOf(ranks, mode), .draw = as_many > 1};
}

// The one most ranks have, of those that are not taken by it; 0 where all are or none is.
uint64_t StepAligner::ShapeOf(const std::vector<int32_t>& ranks, StepMode mode) {
  const bool asked = std::any_of(ranks.begin(), ranks.end(),
                                 [this](int32_t rank) { return members_[Index(rank)].by_shape; });
  if (!asked) return 0;
  shapes_.clear();
  for (int32_t rank : ranks) {
    const Member& member = members_[Index(rank)];
    const StepReport& report = member.reports.front();
    if (!member.by_shape && report.mode == mode) shapes_.push_back(report.shape);
  }
  std::sort(shapes_.begin(), shapes_.end());
  uint64_t shape = 0;
  ptrdiff_t most = 0;
  for (auto at = shapes_.begin(); at != shapes_.end();) {
    const auto next = std::upper_bound(at, shapes_.end(), *at);
    if (next - at > most) {
      most = next - at;
      shape = *at;
    }
    at = next;
  }
  return shape;
}

bool StepAligner::Fits(const Member& member, const StepReport& report, const Column& column) {
  if (report.mode != column.mode) return false;
  return !member.by_shape || column.shape == 0 || report.shape == column.shape;
}

// How many steps the rank ran before one that fits; 0: none of its next steps does. Of a rank that
// does something else not all of them are looked at.
size_t StepAligner::StepsUntil(const Member& member, const Column& column) {
  const size_t end =
      member.apart ? std::min(member.reports.size(), kLookAhead + 1) : member.reports.size();
  for (size_t i = 1; i < end; ++i) {
    if (Fits(member, member.reports[i], column)) return i;
  }
  return 0;
}

// What a rank does next may tell more: the ranks that are in the present step have not gone on
// without it, or, in a draw, not all have.
bool StepAligner::MustWait(const std::vector<int32_t>& ranks, const Column& column) const {
  bool open = false, all_went_on = true;
  for (int32_t rank : ranks) {
    const Member& member = members_[Index(rank)];
    const bool fits = Fits(member, member.reports.front(), column);
    const bool went_on = member.reports.size() > kLookAhead;
    if (went_on && fits && !column.draw) return false;
    if (member.left || member.apart || member.keeps_order) continue;
    all_went_on = all_went_on && went_on;
    open |= column.draw || (!fits && StepsUntil(member, column) == 0);
  }
  return open && !(column.draw && all_went_on);
}

// Of the `steps` next steps of a rank, in another mode than the present one all, some rank that is
// in the present one has a later one like it: they were in the same steps, one of them in another
// mode. Otherwise the others were waiting.
bool StepAligner::RanAlong(const std::vector<int32_t>& ranks, const Member& member, size_t steps,
                           const Column& column) const {
  if (member.by_shape) return false;
  return std::any_of(ranks.begin(), ranks.end(), [&](int32_t rank) {
    const std::vector<StepReport>& reports = members_[Index(rank)].reports;
    if (reports.front().mode != column.mode) return false;
    for (size_t i = 1; i < std::min(steps, reports.size()); ++i) {
      if (reports[i].mode == member.reports[i].mode) return true;
    }
    return false;
  });
}

void StepAligner::TakeOut(int32_t rank, bool by_time, Progress* progress) {
  Member& member = members_[Index(rank)];
  progress->extras.push_back({rank, member.reports.front().local, by_time});
  member.DropFirst();
  ++member.extras;
}

StepAligner::Outcome StepAligner::ByMode(const std::vector<int32_t>& ranks, bool patient,
                                         Progress* progress) {
  const Column column = ColumnOf(ranks);
  const auto fits = [&](const Member& member) {
    return Fits(member, member.reports.front(), column);
  };
  for (int32_t rank : ranks) {
    Member& member = members_[Index(rank)];
    if (fits(member)) member.apart = false;
  }
  if (patient && MustWait(ranks, column)) return Outcome::kUndecided;
  bool found = false;
  for (int32_t rank : ranks) {
    Member& member = members_[Index(rank)];
    if (fits(member) || member.keeps_order) continue;
    const bool surplus = member.left && member.reports.size() == 1 && !member.apart;
    const size_t extra = surplus ? 1 : StepsUntil(member, column);
    member.apart = extra == 0;
    if (RanAlong(ranks, member, extra, column)) continue;
    for (size_t i = 0; i < extra; ++i) TakeOut(rank, false, progress);
    found = found || extra != 0;
  }
  return found ? Outcome::kExtraFound : Outcome::kDecided;
}

std::optional<int64_t> StepAligner::OthersBegan(const std::vector<int32_t>& ranks, int32_t except,
                                                size_t which) {
  values_.clear();
  for (int32_t rank : ranks) {
    const std::vector<StepReport>& reports = members_[Index(rank)].reports;
    if (rank == except) continue;
    if (reports.size() <= which) return std::nullopt;
    values_.push_back(reports[which].began_ns);
  }
  return Median(&values_);
}

StepAligner::Outcome StepAligner::ByTime(const std::vector<int32_t>& ranks, bool patient,
                                         Progress* progress) {
  if (!options_.by_time || ranks.size() < 2) return Outcome::kDecided;
  for (int32_t rank : ranks) {
    const Member& member = members_[Index(rank)];
    if (member.lags.size() < kLagsNeeded || member.keeps_order) continue;
    values_ = member.lags;
    const int64_t usual = Median(&values_);
    const int64_t noise = 4 * Spread(member.lags, usual) + kClockGrainNs;
    const int64_t present = *OthersBegan(ranks, rank, 0) + usual;
    const int64_t early = present - member.reports.front().began_ns;
    if (early <= noise) continue;
    const StepReport* next = Next(member);
    const std::optional<int64_t> their_next = OthersBegan(ranks, rank, 1);
    if (next == nullptr || !their_next) {
      if (patient && !AnyLeft(ranks)) return Outcome::kUndecided;
      continue;
    }
    const int64_t from_present = std::abs(next->began_ns - present);
    const int64_t from_next = std::abs(next->began_ns - (*their_next + usual));
    // Where a rank was late instead, this one waits for it within the step: both begin the next.
    const bool told_apart = *their_next + usual - present > noise;
    if (!told_apart || from_present * 4 > early || from_present >= from_next) continue;
    TakeOut(rank, true, progress);
    return Outcome::kExtraFound;
  }
  return Outcome::kDecided;
}

void StepAligner::Settle(const std::vector<int32_t>& ranks) {
  for (int32_t rank : ranks) {
    Member& member = members_[Index(rank)];
    if (ranks.size() < 2) break;
    member.lags.push_back(member.reports.front().began_ns - *OthersBegan(ranks, rank, 0));
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
    Outcome outcome = ByMode(ranks, patient, &progress);
    if (outcome == Outcome::kDecided) outcome = ByTime(ranks, patient, &progress);
    if (outcome == Outcome::kUndecided) return progress;
    if (outcome == Outcome::kDecided) {
      Settle(ranks);
      waiting_since_ns_ = -1;
    }
  }
}

}  // namespace tdump::coordinator
