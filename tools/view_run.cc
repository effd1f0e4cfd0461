#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "coordinator/coverage.h"
#include "coordinator/coverage_text.h"
#include "coordinator/coverage_ways.h"
#include "core/text.h"
#include "tools/coverage_json.h"
#include "tools/record_text.h"
#include "tools/signature.h"
#include "tools/table.h"
#include "tools/view.h"

namespace tdump::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostListed = 1000;  // names or lines of a kind

bool Wants(const ViewRequest& request, int32_t rank) {
  if (request.run.ref.rank && rank != *request.run.ref.rank) return false;
  return !request.filter.ranks ||
         request.filter.ranks->Contains(static_cast<uint64_t>(rank),
                                        static_cast<uint64_t>(request.run.index.world));
}

Json SignatureJson(const SignatureFacts& facts) {
  if (facts.rank < 0) return nullptr;
  Json inputs = Json::array();
  for (const auto& input : facts.inputs) {
    inputs.push_back({{"arg", input.arg},
                      {"root", input.root},
                      {"dtype", input.dtype},
                      {"shape", input.shape},
                      {"hash", input.hash}});
  }
  return {{"rank", facts.rank},          {"step", facts.step},
          {"inputs", std::move(inputs)}, {"parameters", facts.parameters},
          {"buffers", facts.states},     {"whole", facts.whole},
          {"lost", facts.lost},          {"lost_of", facts.lost_of}};
}

std::string StepsOf(const std::set<uint64_t>& steps) {
  return RangesText({steps.begin(), steps.end()});
}

std::string RankTable(const ViewRequest& request) {
  const io::RunIndex& index = request.run.index;
  const auto covered =
      coordinator::CoverRanks(*request.run.store, index, coordinator::OfCutPasses::kWhatCanBeRead);
  std::vector<uint64_t> absent;
  Table table({true, false, true, false, false, false, true, true, true, true, true});
  table.Add({"rank", "node", "pid", "state", "steps", "unfinished", "records", "calls", "bytes",
             "not kept", "blocked"});
  for (size_t i = 0; i < covered.size(); ++i) {
    const io::RankState& state = index.ranks[i];
    if (!Wants(request, state.rank)) continue;
    if (state.processes.empty()) {
      absent.push_back(i);
      continue;
    }
    const coordinator::RankCoverage& rank = covered[i];
    std::string node, pid;
    for (const size_t process : state.processes) {
      const io::IdentitySection& identity = request.run.store->processes()[process].identity;
      node = Printable(identity.host);
      pid += fmt::format("{}{}", pid.empty() ? "" : ",", identity.pid);
    }
    std::string steps = rank.whole.empty() ? "-" : StepsOf(rank.whole);
    if (!rank.extra.empty()) steps += " extra " + StepsOf(rank.extra);
    std::string lacking = rank.torn.empty() ? "" : StepsOf(rank.torn);
    if (!rank.left_out.empty())
      lacking += (lacking.empty() ? "nothing of " : ", nothing of ") + StepsOf(rank.left_out);
    const std::string how = Printable(state.how) + (state.selected ? "" : ", not selected");
    table.Add({fmt::format("{}", i), node, pid, how, steps, lacking.empty() ? "-" : lacking,
               CountText(rank.records), CountText(rank.calls), BytesText(rank.bytes),
               CountText(rank.not_kept),
               fmt::format("{:.1f} ms", static_cast<double>(rank.blocked_ns) / 1e6)});
  }
  const bool any = table.rows() > 1;
  std::string text = table.Take("  ");
  if (any)
    text +=
        "  blocked: waited for room in the arena; copies, and the time that the writer takes from "
        "the job, are not in it\n";
  if (!absent.empty()) {
    text += fmt::format("  rank{} {} {}\n", absent.size() == 1 ? "" : "s", RangesText(absent),
                        index.ranks[absent.front()].how);
  }
  return text;
}

// One rank: its processes, and its passes one by one.
std::string RankAtLength(const ViewRequest& request, const io::RankState& state) {
  const io::RunIndex& index = request.run.index;
  std::string text;
  for (const size_t i : state.processes) {
    const io::ProcessEntry& process = request.run.store->processes()[i];
    const io::IdentitySection& identity = process.identity;
    text += fmt::format("\nrank {}", state.rank);
    const auto add = [&text](std::string_view before, const std::string& value) {
      if (!value.empty()) text += std::string(before) + Printable(value);
    };
    add("  ", process.directory);
    text += fmt::format("  started as pid {}", identity.pid);
    add(" by ", identity.source);  // a pass file alone does not know this, nor what follows
    add(", step = ", identity.boundary);
    add("\n  program    ", identity.program);
    add("\n  versions   ", identity.versions);
    text += "\n";
    for (const io::NoteSection& note : process.notes)
      text += fmt::format("  note       {}\n", Printable(note.text));
    Table table({true, true, true, false, true, true, true, false});
    table.Add({"step", "local", "job", "mode", "records", "calls", "bytes", "file"});
    for (const io::IndexedPass& place : index.passes) {
      if (place.process != i) continue;
      const io::PassEntry& pass = process.passes[place.pass];
      std::string file = Printable(pass.file);
      if (place.extra) file += "  extra";
      if (!place.agreed) file += "  not agreed";
      if (pass.part) file += "  unfinished";
      if (!pass.error.empty()) file += "  " + Printable(pass.error);
      const coordinator::CutPass counts = coordinator::CountCut(*request.run.store, process, pass);
      table.Add({fmt::format("{}", place.global_step), fmt::format("{}", place.local_step),
                 pass.info.job_step < 0 ? "-" : fmt::format("{}", pass.info.job_step),
                 std::string(ToString(pass.info.mode)), CountText(counts.records),
                 CountText(counts.calls), BytesText(pass.file_bytes), file});
    }
    text += table.Take("  ");
  }
  return text;
}

std::string Rules(const io::RunIndex& index) {
  std::string text;
  for (const io::RuleCoverage& rule : index.rules) {
    if (rule.rule.matched == 0) continue;
    text += fmt::format("  rule {:<4}  matched {}: {}\n", rule.rule.rule,
                        Plural(rule.rule.matched, "operator"), Printable(rule.rule.text));
  }
  return text;
}

std::string Ways(const ViewRequest& request) {
  const std::string text = coordinator::WaysText(
      coordinator::FindWays(*request.run.store, request.run.index), kMostListed);
  return text.empty() ? "" : "\n" + text;
}

// Operators that some rank never called, or of which something is missing.
std::string Gaps(const io::RunIndex& index) {
  const bool ring = coordinator::HasOverwritten(index);
  Table table({false, true, true, true, true});
  std::vector<std::string> head{"operator", "ranks called", "of", "not kept"};
  if (ring) head.push_back("overwritten");
  table.Add(std::move(head));
  for (const io::OperatorCoverage& op : index.operators) {
    if (op.ranks_called == op.ranks_expected && op.not_kept == 0 && op.overwritten == 0) continue;
    if (coordinator::IsIdleContainer(op)) continue;
    std::vector<std::string> row{Printable(op.name), CountText(op.ranks_called),
                                 CountText(op.ranks_expected), CountText(op.not_kept)};
    if (ring) row.push_back(CountText(op.overwritten));
    table.Add(std::move(row));
  }
  return table.rows() > 1 ? "\n" + table.Take("  ") : "";
}

}  // namespace

int ViewRun(const ViewRequest& request) {
  if (request.common.quiet) return kExitOk;
  const SignatureFacts signature = ReadSignature(request.run);
  if (request.common.json) {
    Json json = CoverageJson(*request.run.store, request.run.index);
    json["signature"] = SignatureJson(signature);
    Print(JsonText(json));
    return kExitOk;
  }
  std::string text =
      coordinator::CoverageText(*request.run.store, request.run.index,
                                {.shown = request.shown, .colour = WantsColour(request.common)});
  const std::string line = SignatureText(signature);
  if (!line.empty()) {
    const size_t next = text.rfind("  next ");
    text.insert(next == std::string::npos ? text.size() : next, "  signature  " + line + "\n");
  }
  Print(text);
  return kExitOk;
}

int ViewCoverage(const ViewRequest& request) {
  if (request.common.quiet) return kExitOk;
  const io::RunIndex& index = request.run.index;
  const bool narrowed = request.filter.ranks || request.run.ref.rank;
  if (request.common.json) {
    Json json = CoverageJson(*request.run.store, index);
    Json ranks = Json::array();
    for (Json& rank : json["ranks"]) {
      if (Wants(request, rank["rank"].get<int32_t>())) ranks.push_back(std::move(rank));
    }
    json["ranks"] = std::move(ranks);
    if (!narrowed) json["ways"] = WaysJson(*request.run.store, index);
    Print(JsonText(json));
    return kExitOk;
  }
  Print(coordinator::CoverageText(
      *request.run.store, index,
      {.shown = request.shown, .colour = WantsColour(request.common), .most = kMostListed}));
  Print(Rules(index) + "\n" + RankTable(request));
  if (!narrowed) Print(Ways(request) + Gaps(index));
  bool any = false;
  for (const io::RankState& state : index.ranks) {
    if (!Wants(request, state.rank)) continue;
    any = true;
    if (narrowed) Print(RankAtLength(request, state));
  }
  if (!any) {
    return Fail(kViewTool, "no such rank; the job has " + RanksText(index));
  }
  return kExitOk;
}

}  // namespace tdump::tools
