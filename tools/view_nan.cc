// The first NaN of a run in time.
//
//   1. Steps are taken in order, up to the first one in which a rank has NaN. Of each rank that
//      step's records are in the order of its program; the first that holds NaN is the rank's.
//   2. Clocks of ranks say nothing about who was first. Of several ranks one whose operator was
//      given finite inputs comes first: NaN was made there; others were handed it, or made it too.
//      Then the one that was less far in its own program, then the lowest.
// Statistics tell where they were kept, else the values are read.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "core/text.h"
#include "tools/coverage_json.h"
#include "tools/record_text.h"
#include "tools/value_stream.h"
#include "tools/view.h"

namespace tdump::tools {
namespace {

using Json = nlohmann::ordered_json;

bool IsKnown(const io::Record& record) { return record.statistics || record.payload; }

struct Found {
  io::Record record;
  Measure measure;
};

// Of one rank, in the step in which it has the first.
struct FirstOfRank {
  uint64_t step = 0;
  int32_t rank = 0;
  Found first;
  std::vector<Found> inputs;  // of its call, of which something is known
  bool born() const {
    return !inputs.empty() && std::none_of(inputs.begin(), inputs.end(),
                                           [](const Found& f) { return f.measure.nan > 0; });
  }
};

class NanFinder {
 public:
  explicit NanFinder(const ViewRequest& request) : request_(request) {}

  int Run() {
    const std::vector<const io::IndexedPass*> passes = SelectPasses(request_.run, request_.filter);
    if (passes.empty()) return FailWithoutPass(request_);
    for (const io::IndexedPass* place : passes) {
      if (!ranks_.empty() && place->global_step != ranks_.front().step) break;
      LookInto(*place);
    }
    if (seen_ == 0 && !trouble_) return FailWithoutRecords(request_);
    std::stable_sort(ranks_.begin(), ranks_.end(), [](const auto& x, const auto& y) {
      return std::tuple(!x.born(), x.first.record.seen, x.rank) <
             std::tuple(!y.born(), y.first.record.seen, y.rank);
    });
    const bool nothing_known = seen_ == unknown_;
    if (request_.common.json)
      Print(JsonText(AllJson()));
    else if (!request_.common.quiet && !nothing_known)
      Print(Text());
    if (nothing_known && !trouble_)
      return Fail(kViewTool,
                  fmt::format("not known: of {} neither values nor statistics were kept; to see "
                              "NaN capture with level: stats (or full)",
                              Plural(seen_, "record")));
    return trouble_ ? kExitTrouble : kExitOk;
  }

 private:
  void Trouble(const Status& status) {
    trouble_ = true;
    Fail(kViewTool, status.message());
  }

  void LookInto(const io::IndexedPass& place) {
    const auto pass = Open(request_.run, place);
    if (!pass.ok()) return Trouble(pass.status());
    std::vector<std::pair<uint64_t, uint64_t>> records;  // time, id
    const Status status = pass->reader->ForEachRecord([&](const io::Record& record) {
      if (!request_.filter.Takes(record)) return true;
      ++seen_;
      if (IsKnown(record))
        records.emplace_back(std::max(record.seen, record.call_begin), record.id);
      else
        ++unknown_;
      return true;
    });
    if (!status.ok()) Trouble(status);
    std::sort(records.begin(), records.end());
    for (const auto& [time, id] : records) {
      const auto found = MeasureOne(*pass->reader, id);
      if (!found || found->measure.nan == 0) continue;
      FirstOfRank first = {.step = place.global_step,
                           .rank = pass->process->identity.rank,
                           .first = *found,
                           .inputs = {}};
      AddInputs(*pass->reader, &first);
      ranks_.push_back(std::move(first));
      return;
    }
  }

  std::optional<Found> MeasureOne(const io::PassReader& reader, uint64_t id) {
    const auto record = reader.Get(id);
    if (!record.ok()) {
      Trouble(record.status());
      return std::nullopt;
    }
    const auto measure = MeasureRecord(reader, *record);
    if (measure.ok()) return Found{*record, *measure};
    Trouble(measure.status());
    return std::nullopt;
  }

  // Whatever the filter takes: they tell whether NaN was made here.
  void AddInputs(const io::PassReader& reader, FirstOfRank* first) {
    if (!IsMadeByCall(first->first.record.key.role)) return;
    const Key call = CallOf(first->first.record.key);
    const Role given = GivenRole(call);
    std::vector<uint64_t> ids;
    (void)reader.ForEachRecord([&](const io::Record& record) {
      if (record.key.role == given && IsKnown(record) && CallOf(record.key) == call)
        ids.push_back(record.id);
      return true;
    });
    for (const uint64_t id : ids) {
      if (auto found = MeasureOne(reader, id)) first->inputs.push_back(std::move(*found));
    }
  }

  // Of what the call was given. Gradients of parameters are sums, and what optimizers keep comes
  // from these.
  static bool IsMadeByCall(Role role) {
    return role == Role::kOutput || role == Role::kAfter || role == Role::kGradInput;
  }

  static Role GivenRole(const Key& key) {
    return key.phase == Phase::kBackward ? Role::kGradOutput : Role::kInput;
  }

  static Key CallOf(Key key) {
    key.role = Role::kOutput;
    key.arg.clear();
    return key;
  }

  static std::string MeasureText(const Found& found) {
    const Measure& m = found.measure;
    std::string text =
        fmt::format("{} {}", ShapeText(found.record), Printable(found.record.dtype.view()));
    text += fmt::format(", {} NaN, {} infinite", CountText(m.nan), CountText(m.infinite));
    return m.absmax_text.empty() ? text : text + ", absmax " + m.absmax_text;
  }

  static std::string PlaceText(const FirstOfRank& rank) {
    const io::Record& record = rank.first.record;
    return fmt::format("step {}, rank {}, {}, {}", rank.step, rank.rank, NameText(record.key),
                       RoleText(record.key));
  }

  std::string Text() const {
    const std::string unknown =
        unknown_ == 0
            ? ""
            : fmt::format("; of {} neither values nor statistics were kept", CountText(unknown_));
    if (ranks_.empty())
      return fmt::format("no NaN in {}{}\n", Plural(seen_ - unknown_, "record"), unknown);
    const FirstOfRank& first = ranks_.front();
    std::string text =
        fmt::format("first NaN   {}\n            {}\n", PlaceText(first), MeasureText(first.first));
    for (const Found& input : first.inputs)
      text +=
          fmt::format("            given {}: {}\n", RoleText(input.record.key), MeasureText(input));
    if (first.inputs.empty() && IsMadeByCall(first.first.record.key.role))
      text += fmt::format("            what it was given was not kept: capture role {} to see\n",
                          ToString(GivenRole(first.first.record.key)));
    const std::string address = fmt::format("{}:{}/{}/{}", request_.shown, first.step, first.rank,
                                            ToText(first.first.record.key));
    text += fmt::format("            look closer: tdump-view {}{}\n", ShellWord(Printable(address)),
                        first.first.record.payload ? " --values 8" : "");
    for (size_t i = 1; i < ranks_.size() && i <= kMostRanks; ++i)
      text += fmt::format("{:<12}{}{}\n", i == 1 ? "also" : "", PlaceText(ranks_[i]),
                          ranks_[i].born() ? ", its inputs are without" : "");
    if (ranks_.size() > kMostRanks + 1)
      text += fmt::format("            {} more: --json\n",
                          Plural(ranks_.size() - kMostRanks - 1, "rank"));
    return unknown.empty() ? text : text + "not looked at: " + unknown.substr(2) + "\n";
  }

  static Json FoundJson(const Found& found) {
    Json json = RecordJson(found.record);
    json["nan"] = found.measure.nan;
    json["inf"] = found.measure.infinite;
    json["absmax"] = found.measure.absmax_text;
    return json;
  }

  Json AllJson() const {
    Json ranks = Json::array();
    for (const FirstOfRank& rank : ranks_) {
      Json inputs = Json::array();
      for (const Found& input : rank.inputs) inputs.push_back(FoundJson(input));
      ranks.push_back({{"step", rank.step},
                       {"rank", rank.rank},
                       {"made_here", rank.born()},
                       {"record", FoundJson(rank.first)},
                       {"inputs", std::move(inputs)}});
    }
    return {{"run", request_.run.ref.path},
            {"first", std::move(ranks)},
            {"records", seen_},
            {"not_kept", unknown_}};
  }

  static constexpr size_t kMostRanks = 8;

  const ViewRequest& request_;
  std::vector<FirstOfRank> ranks_;
  uint64_t seen_ = 0, unknown_ = 0;
  bool trouble_ = false;
};

}  // namespace

int ViewNan(const ViewRequest& request) { return NanFinder(request).Run(); }

}  // namespace tdump::tools
