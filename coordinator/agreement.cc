#include "coordinator/agreement.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace tdump::coordinator {
namespace {

using Kind = AgreementMessage::Kind;

constexpr size_t kReportsKept = 4096;
constexpr size_t kUsualLag = 256;  // steps
constexpr int64_t kRest = 500;
// Nobody waits for what a process that is alone says: only tools read it, while it runs and when it
// was killed.
constexpr int64_t kPaceAloneNs = 1'000'000'000;
constexpr uint8_t kAgreed = 1, kExtra = 2, kRecorded = 4;  // StepMapSection::flags

int64_t SteadyNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

AgreementOptions Completed(AgreementOptions options, bool alone) {
  if (!options.now_ns) options.now_ns = SteadyNs;
  if (alone && options.pace_ns != 0) options.pace_ns = std::max(options.pace_ns, kPaceAloneNs);
  return options;
}

}  // namespace

Agreement::Agreement(AgreementOptions options, std::unique_ptr<AgreementTransport> transport,
                     SlotWriter* slots, io::ManifestWriter* manifest)
    : options_(Completed(std::move(options), transport == nullptr)),
      transport_(std::move(transport)),
      transport_name_(transport_ != nullptr ? transport_->name() : "none"),
      slots_(slots),
      manifest_(manifest),
      pace_(options_.pace_ns, kRest),
      alone_(transport_ == nullptr),
      decider_(alone_ ? options_.rank : 0) {
  reports_.reserve(kUsualLag);
  open_.reserve(kUsualLag);
  if (options_.lockstep && slots_ != nullptr) slots_->SetLockstep();
  if (Decides()) BecomeDecider();
}

void Agreement::RunsInLockstep() noexcept {
  std::lock_guard lock(mutex_);
  options_.lockstep = true;
  if (slots_ != nullptr) slots_->SetLockstep();
  if (aligner_ != nullptr) aligner_->UseTimes();
}

std::string_view Agreement::transport_name() const { return transport_name_; }

uint64_t Agreement::settled() const {
  std::lock_guard lock(mutex_);
  return settled_;
}

uint64_t Agreement::GlobalOf(uint64_t local) const {
  const auto own = extras_.find(options_.rank);
  if (own == extras_.end()) return local;
  const auto before = std::distance(own->second.begin(), own->second.lower_bound(local));
  return local - static_cast<uint64_t>(before);
}

uint64_t Agreement::NumberOf(uint64_t local) noexcept {
  std::lock_guard lock(mutex_);
  return GlobalOf(local);
}

void Agreement::Ended(const EndedStep& step) noexcept {
  try {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    if (alone_) return EndedAlone(step);
    const AgreementMessage report{.kind = Kind::kReport,
                                  .mode = static_cast<uint8_t>(step.mode),
                                  .rank = options_.rank,
                                  .local = step.local,
                                  .shape = step.shape,
                                  .began_ns = step.began_ns};
    ended_ = step.local + 1;
    if (reports_.empty()) oldest_report_ns_ = Now();
    reports_.push_back(report);
    if (reports_.size() > kReportsKept) reports_.erase(reports_.begin());
    if (step.recorded) open_.push_back({step.local, true});
    Say(report);
    Exchange(false);
  } catch (...) {  // out of memory: the step stays unagreed
  }
}

// Agrees with itself; a job that writes nothing calls this in every step.
void Agreement::EndedAlone(const EndedStep& step) {
  ended_ = settled_ = step.local + 1;
  if (step.recorded) WriteStep({step.local, true}, true);
  Flush(false);
}

void Agreement::Poll() noexcept {
  try {
    std::lock_guard lock(mutex_);
    if (!closed_) Exchange(true);
  } catch (...) {
  }
}

void Agreement::Say(const AgreementMessage& message) {
  if (slots_ != nullptr) slots_->Add(message);
  if (message.kind == Kind::kReport && Decides()) {
    aligner_->Report(message.rank, StepReportOf(message), Now());
  } else if (transport_ != nullptr) {
    transport_->Send(message);
  }
}

void Agreement::Exchange(bool eager) {
  if (transport_ != nullptr) {
    int32_t before;
    do {
      before = decider_;
      transport_->Poll(decider_, eager, [this](const AgreementMessage& message) { Take(message); });
      PassOverSilent();
    } while (decider_ != before);
  }
  if (Decides()) Decide();
  SettleOwn();
  Flush(eager);
}

void Agreement::Take(const AgreementMessage& message) {
  switch (message.kind) {
    case Kind::kReport:
      if (Decides() && message.rank != options_.rank)
        aligner_->Report(message.rank, StepReportOf(message), Now());
      return;
    case Kind::kExtra:
      TakeExtra(message.rank, message.local);
      return;
    case Kind::kColumn:
      settled_ = std::max(settled_, message.global);
      return;
    case Kind::kLost:
      lost_.insert(message.rank);
      return;
    case Kind::kLeave:
      if (Decides() && message.rank != options_.rank) {
        aligner_->Leave(message.rank);
        if (gone_.insert(message.rank).second && transport_ != nullptr) transport_->Send(message);
      }
      Gone(message.rank);
      return;
    case Kind::kNone:
      return;
  }
}

void Agreement::TakeExtra(int32_t rank, uint64_t local) {
  extras_[rank].insert(local);
  if (rank != options_.rank) return;
  const auto known = std::find_if(open_.begin(), open_.end(),
                                  [local](const Step& step) { return step.local == local; });
  if (known == open_.end()) {
    const auto place = std::find_if(open_.begin(), open_.end(),
                                    [local](const Step& step) { return step.local > local; });
    open_.insert(place, {local, false});
  }
}

// The next lowest rank decides when the deciding one is gone.
void Agreement::Gone(int32_t rank) {
  if (rank == options_.rank) return;
  gone_.insert(rank);
  if (Decides()) return;
  while (decider_ < options_.rank && gone_.contains(decider_)) ++decider_;
  if (Decides()) {
    BecomeDecider();
  } else if (rank < options_.rank) {
    ReportAgain();  // it decided, or passed reports on
  }
}

void Agreement::BecomeDecider() {
  aligner_ = std::make_unique<StepAligner>(
      options_.world,
      StepAligner::Options{.by_time = options_.lockstep, .silence_ns = options_.silence_ns});
  std::vector<uint64_t> counts(static_cast<size_t>(std::max(options_.world, 1)));
  for (const auto& [rank, steps] : extras_) {
    if (static_cast<size_t>(rank) < counts.size()) counts[static_cast<size_t>(rank)] = steps.size();
  }
  aligner_->ContinueFrom(settled_, counts);
  for (int32_t rank : gone_) {
    if (lost_.contains(rank)) {
      aligner_->Lose(rank);
    } else {
      aligner_->Leave(rank);
    }
  }
  for (const AgreementMessage& report : reports_)
    aligner_->Report(report.rank, StepReportOf(report), Now());
}

void Agreement::ReportAgain() {
  if (transport_ == nullptr) return;
  for (const AgreementMessage& report : reports_) transport_->Send(report);
}

// A deciding rank that does not answer and shows no life.
void Agreement::PassOverSilent() {
  if (Decides() || reports_.empty()) return;
  if (Now() - oldest_report_ns_ <= options_.silence_ns) return;
  if (!transport_->Silent(decider_, options_.silence_ns)) return;
  lost_.insert(decider_);
  oldest_report_ns_ = Now();  // the next one gets its time
  Gone(decider_);
}

void Agreement::Decide() {
  const StepAligner::Progress progress = aligner_->Advance(Now());
  for (const ExtraStep& extra : progress.extras) {
    TakeExtra(extra.rank, extra.local);
    Say({.kind = Kind::kExtra,
         .flags = extra.by_time ? AgreementMessage::kByTime : uint8_t{0},
         .rank = extra.rank,
         .local = extra.local});
  }
  for (int32_t rank : progress.lost) {
    lost_.insert(rank);
    Say({.kind = Kind::kLost, .rank = rank});
  }
  if (aligner_->columns() <= settled_) return;
  settled_ = aligner_->columns();
  Say({.kind = Kind::kColumn, .global = settled_});
}

void Agreement::SettleOwn() {
  const auto report = std::find_if(
      reports_.begin(), reports_.end(),
      [this](const AgreementMessage& sent) { return GlobalOf(sent.local) >= settled_; });
  if (report != reports_.begin()) oldest_report_ns_ = Now();
  reports_.erase(reports_.begin(), report);
  const auto& own = extras_[options_.rank];
  const auto step = std::find_if(open_.begin(), open_.end(), [&](const Step& known) {
    return GlobalOf(known.local) >= settled_ && !own.contains(known.local);
  });
  for (auto done = open_.begin(); done != step; ++done) WriteStep(*done, true);
  open_.erase(open_.begin(), step);
}

void Agreement::WriteStep(const Step& step, bool agreed) {
  const bool extra = extras_[options_.rank].contains(step.local);
  io::StepMapSection entry;
  entry.local_step = step.local;
  entry.global_step = GlobalOf(step.local);
  entry.flags = static_cast<uint8_t>((agreed ? kAgreed : 0) | (extra ? kExtra : 0) |
                                     (step.recorded ? kRecorded : 0));
  if (agreed) {
    entry.lag = static_cast<uint32_t>(ended_ - 1 - step.local);
    max_lag_ = std::max(max_lag_, entry.lag);
  }
  if (manifest_ != nullptr) manifest_->AppendLater(entry);
}

void Agreement::Flush(bool eager) {
  if (slots_ == nullptr) return;
  const int64_t began = Now();
  if (!eager && !pace_.Due(began)) return;
  (void)slots_->Flush(ended_, settled_);
  pace_.Took(began, Now());
}

void Agreement::LeaveTransport() noexcept {
  try {
    std::lock_guard lock(mutex_);
    if (transport_ == nullptr || closed_) return;
    Exchange(true);
    transport_->Send({.kind = Kind::kLeave, .rank = options_.rank, .local = ended_});
    transport_->Close();
    transport_.reset();
    WriteSummary();  // in case the process ends without exit handlers
  } catch (...) {
  }
}

void Agreement::Close() noexcept {
  try {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    Exchange(true);
    Say({.kind = Kind::kLeave, .rank = options_.rank, .local = ended_});
    if (slots_ != nullptr) {
      (void)slots_->Flush(ended_, settled_);
      (void)slots_->SetState(SlotState::kExiting);
    }
    closed_ = true;
    if (transport_ != nullptr) transport_->Close();
    FinishOwn();
  } catch (...) {
  }
}

void Agreement::FinishOwn() {
  for (const Step& step : open_) WriteStep(step, false);
  open_.clear();
  WriteSummary();
}

void Agreement::WriteSummary() {
  io::AgreementSection entry;
  entry.transport = transport_name_;
  entry.max_lag = max_lag_;
  entry.lost.assign(lost_.begin(), lost_.end());
  if (manifest_ != nullptr) (void)manifest_->Append(entry);
}

}  // namespace tdump::coordinator
