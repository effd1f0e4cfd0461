#include "compare/recomputed.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "compare/payload_view.h"
#include "compare/same_bytes.h"

namespace tdump::compare {
namespace {

// Behind them: "B: 6 records", and of those that differ the first key.
constexpr std::string_view kLeftOut =
    "computed anew by a checkpoint, and left out as equal to the first forward, which is compared, "
    "in ";
constexpr std::string_view kDiffers =
    "computed anew by a checkpoint otherwise than the first forward, in ";

bool IsAnew(const Key& key) { return key.recompute && key.phase == Phase::kForward; }

// Of all calls of an operator and argument, first or anew.
std::string NameOfCalls(Key key) {
  key.call = key.micro = key.chunk = key.lane = 0;
  key.recompute = false;
  return ToText(key);
}

struct Forward {
  uint64_t id = 0, seen = 0;
  uint32_t micro = 0, chunk = 0;
  bool anew = false;
};

// Of each that was computed anew its first forward; empty: it cannot be told for one of them.
void AddFirsts(std::vector<Forward> forwards, std::unordered_map<uint64_t, uint64_t>* firsts) {
  std::ranges::sort(forwards, {}, &Forward::seen);
  std::vector<std::pair<uint64_t, uint64_t>> found;
  const Forward* before = nullptr;
  for (const Forward& forward : forwards) {
    const bool was_anew = before == nullptr || before->anew;
    if (forward.anew == was_anew) return;
    if (forward.anew) {
      if (before->micro != forward.micro || before->chunk != forward.chunk) return;
      found.emplace_back(forward.id, before->id);
    }
    before = &forward;
  }
  firsts->insert(found.begin(), found.end());
}

// None: what was recorded does not tell, or cannot be read.
std::optional<bool> AreEqual(const StepView& view, const io::Record& x, const io::Record& y) {
  if (x.dtype != y.dtype || x.sizes != y.sizes || x.layout != y.layout) return false;
  // Hash and payload leave out the dimensions that are stored once.
  if (StoredOnce(x) != StoredOnce(y)) return std::nullopt;
  if (x.hash && y.hash) return *x.hash == *y.hash;
  if (!x.payload || !y.payload) return std::nullopt;
  auto of_x = view.Open(x), of_y = view.Open(y);
  if (!of_x.ok() || !of_y.ok()) return std::nullopt;
  const auto same = SameBytes({&x, *std::move(of_x), {}}, {&y, *std::move(of_y), {}});
  return same.ok() ? std::optional(*same) : std::nullopt;
}

bool HoldsAnew(const StepView& view) {
  bool holds = false;
  const Status status = view.ForEachTensor([&](const io::Record& record) {
    holds = record.key.recompute;
    return !holds;
  });
  return holds || !status.ok();
}

class Side {
 public:
  Side(bool of_a, PassDiff* diff)
      : view_(of_a ? *diff->a : *diff->b),
        other_(of_a ? *diff->b : *diff->a),
        alone_(of_a ? &diff->only_a : &diff->only_b),
        name_(of_a ? 'A' : 'B') {
    for (const uint64_t id : *alone_) {
      const auto record = view_.Get(id);
      if (record.ok() && IsAnew(record->key)) names_.insert(NameOfCalls(record->key));
    }
    if (names_.empty()) return;
    for (const Outcome& outcome : diff->outcomes)
      paired_.insert(of_a ? outcome.ids.a : outcome.ids.b);
  }

  void LeaveOut(std::vector<std::string>* notes) {
    if (names_.empty() || HoldsAnew(other_)) return;
    const auto firsts = Firsts();
    uint64_t differing = 0;
    std::string differs;  // the first key
    const size_t left = std::erase_if(*alone_, [&](uint64_t id) {
      const auto found = firsts.find(id);
      if (found == firsts.end() || !paired_.contains(found->second)) return false;
      const auto anew = view_.Get(id), first = view_.Get(found->second);
      if (!anew.ok() || !first.ok()) return false;
      const std::optional<bool> equal = AreEqual(view_, *anew, *first);
      if (equal == false && ++differing == 1) differs = ToText(anew->key);
      return equal.value_or(false);
    });
    if (left > 0) notes->push_back(fmt::format("{}{}: {}", kLeftOut, name_, left));
    if (differing > 0)
      notes->push_back(fmt::format("{}{}: {}, first {}", kDiffers, name_, differing, differs));
  }

 private:
  std::unordered_map<uint64_t, uint64_t> Firsts() const {
    std::unordered_map<std::string, std::vector<Forward>> forwards;
    const Status status = view_.ForEachTensor([&](const io::Record& record) {
      const Key& key = record.key;
      if (key.phase != Phase::kForward) return true;
      std::string name = NameOfCalls(key);
      if (names_.contains(name))
        forwards[std::move(name)].push_back(
            {record.id, record.seen, key.micro, key.chunk, key.recompute});
      return true;
    });
    std::unordered_map<uint64_t, uint64_t> firsts;
    if (!status.ok()) return firsts;  // what is damaged is told where it is read
    for (auto& [name, of_name] : forwards) AddFirsts(std::move(of_name), &firsts);
    return firsts;
  }

  const StepView& view_;
  const StepView& other_;
  std::vector<uint64_t>* const alone_;
  const char name_;
  std::unordered_set<std::string> names_;  // of forwards that are alone
  std::unordered_set<uint64_t> paired_;
};

}  // namespace

void LeaveOutRecomputed(const PassPair& pair, PassDiff* diff) {
  if (pair.a.part || pair.b.part || diff->a->is_assembled() || diff->b->is_assembled()) return;
  Side(true, diff).LeaveOut(&diff->notes);
  Side(false, diff).LeaveOut(&diff->notes);
}

bool SaysRecomputedDiffers(std::string_view note) { return note.starts_with(kDiffers); }

bool IsRecomputedNote(std::string_view note) {
  return note.starts_with(kLeftOut) || SaysRecomputedDiffers(note);
}

bool RecomputedNotes::Add(const std::string& note) {
  if (!IsRecomputedNote(note)) return false;
  const size_t number = note.find(": ") + 2;
  uint64_t records = 0;
  const auto end = std::from_chars(note.data() + number, note.data() + note.size(), records).ptr;
  Sum& sum = sums_[note.substr(0, number)];
  if (sum.records == 0) sum.first = note.substr(static_cast<size_t>(end - note.data()));
  sum.records += records;
  return true;
}

std::vector<std::string> RecomputedNotes::Sums() const {
  std::vector<std::string> notes;
  for (const auto& [head, sum] : sums_)
    notes.push_back(
        fmt::format("{}{} record{}{}", head, sum.records, sum.records == 1 ? "" : "s", sum.first));
  return notes;
}

}  // namespace tdump::compare
