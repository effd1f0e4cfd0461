#include "compare/note_list.h"

#include <fmt/format.h>

#include <algorithm>

#include "compare/dequantised.h"
#include "compare/later_steps.h"
#include "compare/partial_sums.h"
#include "compare/report_lines.h"
#include "compare/text.h"

namespace tdump::compare {
namespace {

constexpr size_t kMostListed = 1000;

}  // namespace

void NoteList::AddPass(const PassDiff& pass) {
  for (const std::string& note : pass.notes) {
    if (recomputed_.Add(note)) continue;
    if (report_->notes.size() < kMostListed && told_.insert(note).second)
      report_->notes.push_back(note);
  }
}

void NoteList::Add(const PassDiff& pass, const PassPair& pair, const Outcome& outcome) {
  bool nan_on_both = false;
  for (const std::string& note : outcome.comparison.notes.Copy()) {
    if (note == *outcome.unresolved)
      AddUnresolved(note);
    else if (note.starts_with(kNanNote))
      nan_on_both = true;
    else if (!IsPrecisionNote(note))
      Count(note);
  }
  if (nan_on_both) AddNan(pass, pair, outcome);
  precision_hints_.Add(outcome);
  // Copies have one gradient, whatever rounding does.
  if (options_->across.empty()) update_hints_.Add(pass, pair, outcome);
  if (!outcome.fails || outcome.allowed) return;
  first_failing_ = std::min(first_failing_.value_or(pair.b.step), pair.b.step);
  mean_hints_.Add(pass, outcome);
  if (options_->across.empty()) state_hints_.Add(outcome);
}

void NoteList::AddNan(const PassDiff& pass, const PassPair& pair, const Outcome& outcome) {
  if (++nan_.records > 1) return;
  const Row row = MakeRow(pass, pair, outcome);
  nan_.rank = row.rank_b;
  nan_.step = row.step_b;
  nan_.title = ShownName(row.name) + ", " + ObservationText(row);
}

// Notes carry numbers (strides): their head, up to the colon, is counted.
void NoteList::Count(const std::string& note) {
  const size_t colon = std::min(note.find(':'), note.size());
  std::string head = note.substr(0, colon);
  if (const size_t in = head.find(" in "); in != std::string::npos) head.resize(in);
  if (counted_.size() >= kMostListed) return;
  Counted& counted = counted_[head];
  const bool names_key = head.starts_with("paired by ") || head.starts_with(kFaultOfSum) ||
                         head.ends_with(kNotDequantised) || note.starts_with(kShardsDiffer);
  if (++counted.pairs == 1 && names_key)
    counted.first = note.substr(std::min(colon + 2, note.size()));
}

// Whole: each says something else of another tensor.
void NoteList::AddUnresolved(const std::string& note) {
  if (std::find(unresolved_.begin(), unresolved_.end(), note) != unresolved_.end()) return;
  if (unresolved_.size() < std::min(kMostListed, std::max<size_t>(options_->top, 1)))
    unresolved_.push_back(note);
  else
    ++unresolved_left_;
}

void NoteList::AddUpdateHint() {
  const auto hint = update_hints_.Find(*report_);
  if (!hint) return;
  report_->notes.push_back(hint->text);
  const bool is_told =
      !LaterStepsHint(*report_, first_failing_, options_->pass.compute.has_value()).empty();
  if (std::string text = JudgeAloneText(*report_, first_failing_);
      hint->may_be_rounding && !is_told && !text.empty())
    report_->notes.push_back(std::move(text));
}

void NoteList::Finish() {
  std::vector<std::string>& notes = report_->notes;
  for (std::string& note : recomputed_.Sums()) notes.push_back(std::move(note));
  for (std::string& note : unresolved_) notes.push_back(std::move(note));
  if (unresolved_left_ > 0)
    notes.push_back(fmt::format("{} more could not be put together: --all, or --jsonl FILE",
                                CountText(unresolved_left_)));
  for (const auto& [note, counted] : counted_) {
    const std::string first = counted.first.empty() ? "" : ", first " + counted.first;
    notes.push_back(
        fmt::format("{} ({} pair{}){}", note, counted.pairs, counted.pairs == 1 ? "" : "s", first));
  }
  report_->counts.nan_on_both = nan_.records;
  // Of values that were not read nothing tells.
  const Counts& counts = report_->counts;
  nan_.at_least = counts.read < counts.paired;
  if (nan_.records > 0) notes.push_back(NanNote(nan_));
  if (std::string note = precision_hints_.Note(); !note.empty()) notes.push_back(std::move(note));
  for (std::string& note : state_hints_.Notes()) notes.push_back(std::move(note));
  AddUpdateHint();
  const bool has_row = report_->origin && report_->origin->row;
  for (std::string& note : mean_hints_.Notes(has_row ? report_->origin->row->remedy : ""))
    notes.push_back(std::move(note));
}

}  // namespace tdump::compare
