#include "compare/recomputed.h"

#include <fmt/format.h>

#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "compare/first_forwards.h"

namespace tdump::compare {
namespace {

using Answer = FirstForwards::Answer;

class Recomputed {
 public:
  Recomputed(const StepView& view, char side, std::vector<uint64_t>* alone)
      : view_(view), side_(side), alone_(alone), firsts_(view, *alone) {}

  void LeaveOut(std::vector<std::string>* notes) {
    for (const uint64_t id : *alone_) Look(id);
    FindTwins();
    if (left_.empty() && otherwise_.empty()) return;
    std::erase_if(*alone_, [&](uint64_t id) { return left_.contains(id); });
    AddNotes(notes);
  }

 private:
  void Look(uint64_t id) {
    const auto record = view_.Get(id);
    if (!record.ok() || !record->key.recompute) return;
    if (record->key.phase == Phase::kBackward) {
      if (record->key.role == Role::kGradInput) LookAtGradient(*record);
      return;
    }
    const Answer answer = firsts_.Ask(*record);
    if (answer == Answer::kNone) return;
    if (answer == Answer::kDiffers) return otherwise_.push_back(ToText(record->key));
    left_.insert(id);
    ++forwards_;
    if (answer == Answer::kUnread) ++unread_;
  }

  void LookAtGradient(const io::Record& record) {
    const auto first = firsts_.FirstKeyOf(record.key);
    if (first) gradients_.emplace_back(record.id, ToText(*first));
  }

  // Gradients that came through the first forward too, and have a partner there.
  void FindTwins() {
    if (gradients_.empty()) return;
    std::unordered_set<std::string> wanted, paired;
    for (const auto& [id, first] : gradients_) wanted.insert(first);
    const std::unordered_set<uint64_t> alone(alone_->begin(), alone_->end());
    const Status status = view_.ForEachTensor([&](const io::Record& record) {
      if (record.key.role != Role::kGradInput || alone.contains(record.id)) return true;
      if (std::string text = ToText(record.key); wanted.contains(text))
        paired.insert(std::move(text));
      return true;
    });
    if (!status.ok()) return;  // what is damaged is told where it is read
    for (const auto& [id, first] : gradients_) {
      if (paired.contains(first)) left_.insert(id);
    }
  }

  void AddNotes(std::vector<std::string>* notes) const {
    if (forwards_ > 0) {
      notes->push_back(fmt::format(
          "what a checkpoint computed anew in {} alone is left out: it equals a first forward of "
          "its name, which is compared",
          side_));
    }
    if (unread_ > 0) {
      notes->push_back(fmt::format(
          "of what a checkpoint computed anew in {} alone and is left out, {} of {} records have "
          "neither a hash nor values of at most 64 MiB, which would tell whether they equal their "
          "first forward",
          side_, unread_, forwards_));
    }
    if (left_.size() > forwards_) {
      notes->push_back(fmt::format(
          "gradients of inputs that came in {} alone through a forward that a checkpoint computed "
          "anew are left out: those through the first forward are compared",
          side_));
    }
    if (otherwise_.empty()) return;
    const size_t more = otherwise_.size() - 1;
    notes->push_back(fmt::format(
        "computed otherwise than its first forward in {}, or of a forward of another step: {}{}",
        side_, otherwise_.front(), more > 0 ? fmt::format(" and {} more", more) : std::string()));
  }

  const StepView& view_;
  const char side_;
  std::vector<uint64_t>* const alone_;
  const FirstForwards firsts_;
  std::unordered_set<uint64_t> left_;
  std::vector<std::pair<uint64_t, std::string>> gradients_;  // and the first of each
  std::vector<std::string> otherwise_;
  size_t forwards_ = 0, unread_ = 0;
};

}  // namespace

void LeaveOutRecomputed(PassDiff* diff) {
  Recomputed(*diff->a, 'A', &diff->only_a).LeaveOut(&diff->notes);
  Recomputed(*diff->b, 'B', &diff->only_b).LeaveOut(&diff->notes);
}

}  // namespace tdump::compare
