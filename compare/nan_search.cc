#include "compare/nan_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "compare/element.h"
#include "compare/job_text.h"
#include "compare/metrics.h"
#include "compare/record_patterns.h"
#include "compare/report_lines.h"
#include "core/text.h"

namespace tdump::compare {
namespace {

constexpr size_t kMostProbed = 16;             // passes
constexpr uint64_t kProbe = 256 << 10;         // bytes of a pass
constexpr uint64_t kProbeOfRecord = 64 << 10;  // of them
constexpr uint64_t kScan = uint64_t{1} << 30;  // bytes
constexpr uint64_t kTile = 64 << 10;           // bytes; of whole elements, whatever their size

bool HoldsNan(std::span<const double> numbers) {
  return std::any_of(numbers.begin(), numbers.end(), [](double x) { return std::isnan(x); });
}

class NanSearch {
 public:
  NanSearch(const RunSide& side, const DiffReport& report, const DiffOptions& options)
      : side_(side), options_(options), may_be_alone_(report.counts.unpaired_b > 0) {
    std::set<uint64_t> steps;
    for (const auto& [step_a, step_b] : report.steps) steps.insert(step_b);
    for (const PassRef& pass : side.passes()) {
      if (steps.contains(pass.step) && IsSelected(side, options.pairing, pass.rank))
        passes_.push_back(pass);
    }
  }

  std::optional<NanRecords> Run() {
    const std::optional<size_t> first = FindPass();
    if (!first) return std::nullopt;
    uint64_t left = kScan;
    size_t i = *first;
    for (; i < passes_.size() && left > 0; ++i) ScanPass(passes_[i], &left);
    found_.at_least |= i < passes_.size();
    return found_.records == 0 ? std::nullopt : std::optional(found_);
  }

 private:
  enum class Seen : uint8_t { kNone, kSome, kUnknown };  // kUnknown: not all of it was looked at

  // The first pass that is seen to have some, of those that are probed.
  std::optional<size_t> FindPass() {
    const size_t every = (passes_.size() + kMostProbed - 1) / kMostProbed;
    size_t next = 0;  // that was not probed
    for (size_t i = 0; i < passes_.size(); ++i) {
      const bool is_probed = i % every == 0 || i + 1 == passes_.size();
      if (!is_probed) continue;
      const Seen seen = Probe(passes_[i]);
      if (seen == Seen::kSome) {
        for (; next < i; ++next) {
          const Seen before = Probe(passes_[next]);
          if (before == Seen::kSome) break;
          found_.at_least |= before == Seen::kUnknown;
        }
        return next;
      }
      found_.at_least |= seen == Seen::kUnknown || next < i;
      next = i + 1;
    }
    return std::nullopt;
  }

  // What may hold NaN, in order of time. `all`: false where of some nothing is known.
  std::vector<uint64_t> RecordsOf(const StepView& view, bool* all) const {
    std::vector<std::pair<uint64_t, uint64_t>> records;  // time, id
    const Status status = view.ForEachTensor([&](const io::Record& record) {
      const NumberKind kind = FormatOf(record.dtype).kind;
      const bool known = record.statistics || record.payload;
      const bool is_number = kind == NumberKind::kFloat || kind == NumberKind::kComplex;
      if (!is_number) return true;
      if (options_.pass.select && !options_.pass.select(NameOf(record))) return true;
      const bool alone =
          may_be_alone_ && options_.allow_unpaired && options_.allow_unpaired.Match(record);
      if (alone) return true;
      *all &= known;
      if (known) records.emplace_back(std::max(record.seen, record.call_begin), record.id);
      return true;
    });
    *all &= status.ok();
    std::sort(records.begin(), records.end());
    std::vector<uint64_t> ids;
    for (const auto& [time, id] : records) ids.push_back(id);
    return ids;
  }

  Seen Probe(const PassRef& pass) const {
    const auto view = side_.Open(pass);
    if (!view.ok()) return Seen::kUnknown;
    bool all = true;
    const std::vector<uint64_t> ids = RecordsOf(**view, &all);
    uint64_t left = kProbe;
    size_t i = ids.size();
    while (i > 0 && left > 0) {
      const auto record = (*view)->Get(ids[--i]);
      const uint64_t most = std::min(kProbeOfRecord, left);
      uint64_t unread = most;
      const Seen seen = record.ok() ? Look(**view, *record, &unread) : Seen::kUnknown;
      if (seen == Seen::kSome) return seen;
      all &= seen == Seen::kNone;
      left -= most - unread;
    }
    return all && i == 0 ? Seen::kNone : Seen::kUnknown;
  }

  void ScanPass(const PassRef& pass, uint64_t* left) {
    const auto view = side_.Open(pass);
    if (!view.ok()) {
      found_.at_least = true;
      return;
    }
    bool all = true;
    for (const uint64_t id : RecordsOf(**view, &all)) {
      const auto record = (*view)->Get(id);
      const Seen seen = record.ok() ? Look(**view, *record, left) : Seen::kUnknown;
      found_.at_least |= seen == Seen::kUnknown;
      if (seen != Seen::kSome) continue;
      if (++found_.records > 1) continue;
      found_.rank = pass.rank;
      found_.step = pass.step;
      found_.title = ShownName(NameOf(*record)) + ", " + Printable(ObservationText(record->key));
    }
    found_.at_least |= !all;
  }

  // `left`: bytes that may be read; what was read is taken off.
  static Seen Look(const StepView& view, const io::Record& record, uint64_t* left) {
    if (record.statistics) return record.statistics->nan > 0 ? Seen::kSome : Seen::kNone;
    const NumberFormat format = FormatOf(record.dtype);
    const uint64_t unit = record.dtype.unit_bytes();
    const auto read = view.Open(record);
    if (!read.ok() || unit == 0) return Seen::kUnknown;
    const uint64_t bytes_of_record = record.payload->logical_bytes;
    const uint64_t end = std::min(*left, bytes_of_record) / unit * unit;
    std::vector<std::byte> bytes;
    std::vector<double> numbers;
    for (uint64_t at = 0; at < end; at += bytes.size()) {
      bytes.resize(std::min(end - at, std::max<uint64_t>(1, kTile / unit) * unit));
      if (!(*read)(at, bytes).ok()) return Seen::kUnknown;
      *left -= bytes.size();
      numbers.resize(bytes.size() / unit *
                     static_cast<size_t>(NumbersPerUnit(record.dtype, format)));
      DecodeFloat(record.dtype, format, bytes, numbers);
      if (HoldsNan(numbers)) return Seen::kSome;
    }
    return end + unit > bytes_of_record ? Seen::kNone : Seen::kUnknown;
  }

  const RunSide& side_;
  const DiffOptions& options_;
  const bool may_be_alone_;  // records of this side
  std::vector<PassRef> passes_;
  NanRecords found_;
};

}  // namespace

std::optional<NanRecords> FindNan(const RunSide& b, const DiffReport& report,
                                  const DiffOptions& options) {
  return NanSearch(b, report, options).Run();
}

bool IsNanNote(std::string_view note) {
  if (note.starts_with("at least ")) note.remove_prefix(9);
  note.remove_prefix(std::min(note.find(' '), note.size()));
  return note.starts_with(" record holds NaN on both sides, first") ||
         note.starts_with(" records hold NaN on both sides, first");
}

std::string NanNote(const NanRecords& found) {
  return fmt::format("{}{} hold{} NaN on both sides, first{}: {}, step {}, {}",
                     found.at_least ? "at least " : "", Plural(found.records, "record"),
                     found.records == 1 ? "s" : "", found.at_least ? " seen" : "",
                     RankText(found.rank), found.step, found.title);
}

}  // namespace tdump::compare
