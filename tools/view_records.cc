// The table of records. Nothing is held but the rows shown: without --sort they are printed as they
// are read; with --sort the places of the best are kept, and read again for printing.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "coordinator/coverage.h"
#include "core/text.h"
#include "tools/coverage_json.h"
#include "tools/near_names.h"
#include "tools/record_text.h"
#include "tools/table.h"
#include "tools/value_stream.h"
#include "tools/view.h"

namespace tdump::tools {
namespace {

constexpr size_t kRowsAtOnce = 256;
constexpr size_t kBytesAtOnce = 64 * 1024;

uint64_t BytesOf(const io::Record& record) {
  return record.payload ? record.payload->logical_bytes : 0;
}

// Prints rows, or entries of a JSON array, a few at a time.
class RowPrinter {
 public:
  RowPrinter(const ViewRequest& request, bool measured)
      : request_(request),
        sorted_(measured),
        measured_(measured),
        table_({true, true, false, false, false, false, false, true, true, true, true, false}) {}

  void Begin() {
    if (request_.common.json) {
      Show(fmt::format("{{\n  \"run\": {},\n  \"records\": [",
                       nlohmann::json(request_.run.ref.path)
                           .dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)));
    } else {
      rows_at_hand_.push_back({"step", "rank", "name", "role", "shape", "dtype", "kept", "bytes",
                               "nan", "absmax", "rms", "remarks"});
    }
  }

  void Row(const OpenPass& pass, const io::Record& record, const Measure& measure) {
    ++rows_;
    if (request_.common.json) return JsonRow(pass, record, measure);
    measured_ |= record.statistics.has_value();
    rows_at_hand_.push_back(
        {fmt::format("{}", pass.place->global_step), fmt::format("{}", pass.process->identity.rank),
         NameText(record.key), RoleText(record.key), ShapeText(record),
         Printable(record.dtype.view()), KeptText(record),
         record.payload ? BytesText(BytesOf(record)) : "-",
         sorted_ || record.statistics ? CountText(measure.nan) : "", measure.absmax_text,
         measure.rms < 0 ? "" : fmt::format("{:.6g}", measure.rms),
         RemarksText(*pass.reader, record)});
    if (rows_at_hand_.size() >= kRowsAtOnce) ShowRows();
  }

  void End(uint64_t left_out) {
    if (request_.common.json) {
      Show(fmt::format("{}],\n  \"left_out\": {}\n}}\n", rows_ == 0 ? "" : "\n  ", left_out));
    } else {
      ShowRows();
      if (left_out != 0) Show(fmt::format("{} more: --all, or --top N\n", CountText(left_out)));
    }
    if (!waiting_.empty()) Flush();
  }

  uint64_t rows() const { return rows_; }

 private:
  // Columns that nothing shown so far has a value for are left empty.
  void ShowRows() {
    for (std::vector<std::string>& row : rows_at_hand_) {
      for (size_t column = kFirstMeasured; column <= kLastMeasured; ++column) {
        if (!measured_) row[column].clear();
      }
      table_.Add(std::move(row));
    }
    rows_at_hand_.clear();
    Show(table_.Take());
  }
  void Show(const std::string& text) {
    if (request_.common.quiet) return;
    waiting_ += text;
    if (waiting_.size() >= kBytesAtOnce) Flush();
  }
  void Flush() { Print(std::exchange(waiting_, {})); }

  void JsonRow(const OpenPass& pass, const io::Record& record, const Measure& measure) {
    nlohmann::ordered_json json = {{"step", pass.place->global_step},
                                   {"rank", pass.process->identity.rank},
                                   {"process", pass.process->identity.process},
                                   {"extra", pass.place->extra}};
    json.update(RecordJson(record));
    if (sorted_) {
      json["nan"] = measure.nan;
      json["inf"] = measure.infinite;
      json["absmax"] = measure.absmax_text;
      json["rms"] =
          measure.rms < 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(measure.rms);
    }
    Show(fmt::format("{}\n    {}", rows_ == 1 ? "" : ",",
                     json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)));
  }

  const ViewRequest& request_;
  static constexpr size_t kFirstMeasured = 8, kLastMeasured = 10;
  const bool sorted_;  // by something measured
  bool measured_;      // some row shown is
  std::vector<std::vector<std::string>> rows_at_hand_;
  Table table_;
  std::string waiting_;
  uint64_t rows_ = 0;
};

// Where a record is, and what it is sorted by.
struct Ranked {
  double first = 0, second = 0;
  uint64_t nth = 0;  // in the order of the walk: decides ties
  const io::IndexedPass* place = nullptr;
  uint64_t record = 0;
  Measure measure;
};

bool Before(const Ranked& a, const Ranked& b) {
  return std::make_pair(-a.first, -a.second) < std::make_pair(-b.first, -b.second) ||
         (a.first == b.first && a.second == b.second && a.nth < b.nth);
}

class Troubles {
 public:
  void operator()(const std::string& text) {
    ++count;
    Fail(kViewTool, text);
  }
  uint64_t count = 0;
};

int Sorted(const ViewRequest& request) {
  const bool measured = request.sort != "bytes";
  Troubles troubles;
  std::vector<Ranked> best;
  uint64_t seen = 0;
  const auto trouble = [&](const std::string& text) { troubles(text); };
  ForEachRecord(
      request.run, request.filter,
      [&](const OpenPass& pass, const io::Record& record) {
        Ranked ranked;
        ranked.nth = seen++;
        ranked.place = pass.place;
        ranked.record = record.id;
        if (measured) {
          const auto measure = MeasureRecord(*pass.reader, record);
          if (!measure.ok())
            trouble(measure.status().message());
          else
            ranked.measure = *measure;
          const auto nan = static_cast<double>(ranked.measure.nan);
          ranked.first = request.sort == "nan"   ? nan
                         : request.sort == "rms" ? ranked.measure.rms
                                                 : ranked.measure.absmax;
          ranked.second = request.sort == "nan" ? ranked.measure.absmax : nan;
        } else {
          ranked.first = static_cast<double>(BytesOf(record));
        }
        best.push_back(std::move(ranked));
        std::push_heap(best.begin(), best.end(), Before);
        if (best.size() > request.top) {
          std::pop_heap(best.begin(), best.end(), Before);
          best.pop_back();
        }
        return true;
      },
      trouble);
  std::sort_heap(best.begin(), best.end(), Before);
  RowPrinter printer(request, measured);
  printer.Begin();
  OpenPass open;
  for (const Ranked& ranked : best) {
    if (open.place != ranked.place) {
      auto opened = Open(request.run, *ranked.place);
      if (!opened.ok()) continue;  // told above
      open = std::move(*opened);
    }
    const auto record = open.reader->Get(ranked.record);
    if (record.ok()) printer.Row(open, *record, ranked.measure);
  }
  if (seen == 0 && !request.common.json && troubles.count == 0) return FailWithoutRecords(request);
  printer.End(seen - best.size());
  return troubles.count != 0 || seen == 0 ? kExitTrouble : kExitOk;
}

int InOrder(const ViewRequest& request) {
  Troubles troubles;
  RowPrinter printer(request, false);
  printer.Begin();
  uint64_t seen = 0;
  ForEachRecord(
      request.run, request.filter,
      [&](const OpenPass& pass, const io::Record& record) {
        if (seen++ < request.top)
          printer.Row(pass, record, record.statistics ? MeasureOf(*record.statistics) : Measure());
        return true;
      },
      [&](const std::string& text) { troubles(text); });
  if (seen == 0 && !request.common.json && troubles.count == 0) return FailWithoutRecords(request);
  printer.End(seen - printer.rows());
  return troubles.count != 0 || seen == 0 ? kExitTrouble : kExitOk;
}

// "; step 15 was overwritten (output.at_limit: ring)" of what was asked for, or nothing.
std::string OverwrittenText(const ViewRequest& request) {
  std::set<uint64_t> steps;
  for (const auto& rank : coordinator::CoverRanks(*request.run.store, request.run.index)) {
    for (const uint64_t step : rank.overwritten) {
      if (!request.filter.steps || request.filter.steps->Contains(step)) steps.insert(step);
    }
  }
  if (steps.empty()) return "";
  return fmt::format("; step{} {} {} overwritten (output.at_limit: ring)",
                     steps.size() == 1 ? "" : "s", fmt::join(steps, ", "),
                     steps.size() == 1 ? "was" : "were");
}

// "; rank 1 was not selected (ranks)" of ranks that were asked for and recorded nothing; "" where
// one of them recorded something.
std::string WhyNoRank(const ViewRequest& request) {
  const io::RunIndex& index = request.run.index;
  if (!request.filter.ranks) return "";
  RecordFilter of_ranks;
  of_ranks.ranks = request.filter.ranks;
  if (!SelectPasses(request.run, of_ranks).empty()) return "";
  std::vector<uint64_t> not_selected, others;
  for (const io::RankState& state : index.ranks) {
    const auto rank = static_cast<uint64_t>(state.rank);
    if (!request.filter.ranks->Contains(rank, static_cast<uint64_t>(index.world))) continue;
    (state.selected || state.processes.empty() ? others : not_selected).push_back(rank);
  }
  if (not_selected.empty() && others.empty())
    return fmt::format("; the job has {}", RanksText(index));
  std::string text;
  const auto add = [&](const std::vector<uint64_t>& ranks, std::string_view one,
                       std::string_view several) {
    if (ranks.empty()) return;
    text += fmt::format("; rank{} {} {}", ranks.size() == 1 ? "" : "s", RangesText(ranks),
                        ranks.size() == 1 ? one : several);
  };
  add(not_selected, "was not selected (ranks)", "were not selected (ranks)");
  add(others, "wrote none", "wrote none");
  return text;
}

}  // namespace

std::string PassesText(const LoadedRun& run) {
  std::vector<uint64_t> steps, ranks;
  for (const io::IndexedPass* place : SelectPasses(run, {})) {
    steps.push_back(place->global_step);
    ranks.push_back(static_cast<uint64_t>(run.store->processes()[place->process].identity.rank));
  }
  if (steps.empty()) return "there are none";
  const auto numbers = [](std::string_view what, std::vector<uint64_t> all) {
    std::string text = RangesText(std::move(all));
    const bool one = text.find_first_of("-,") == std::string::npos;
    return fmt::format("{}{} {}", what, one ? "" : "s", text);
  };
  const std::string of_steps = numbers("step", std::move(steps));
  return fmt::format("there {} {} on {}", of_steps.starts_with("steps") ? "are" : "is", of_steps,
                     numbers("rank", std::move(ranks)));
}

std::string RanksText(const io::RunIndex& index) {
  return index.world == 1 ? "rank 0 alone" : fmt::format("ranks 0-{}", index.world - 1);
}

int FailWithoutPass(const ViewRequest& request) {
  return Fail(kViewTool,
              fmt::format("no pass of these steps and ranks{}{}; {}; see tdump-view {} --coverage",
                          WhyNoRank(request), OverwrittenText(request), PassesText(request.run),
                          ShellWord(Printable(request.shown))));
}

int FailWithoutRecords(const ViewRequest& request) {
  std::string asked, near;
  const RecordFilter& filter = request.filter;
  if (!filter.name.empty()) {
    asked = " '" + filter.name + "'";
    near = NearText(request.run, filter.name);
  }
  for (const std::string& pattern : request.select) {
    asked += fmt::format(" --select '{}'", pattern);
    if (near.empty()) near = NearText(request.run, pattern);
  }
  if (!filter.roles.empty()) asked += " --role";
  if (filter.arg) asked += " --arg";
  return Fail(kViewTool, fmt::format("no record matches{}{}; see tdump-view {} --names", asked,
                                     near, ShellWord(Printable(request.shown))));
}

int ViewRecords(const ViewRequest& request) {
  if (SelectPasses(request.run, request.filter).empty()) return FailWithoutPass(request);
  const int status = request.sort == "none" ? InOrder(request) : Sorted(request);
  return status;
}

}  // namespace tdump::tools
