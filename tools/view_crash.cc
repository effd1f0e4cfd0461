// tdump-view --crash: what each process was in when it ended, from its breadcrumbs.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/text.h"
#include "io/breadcrumbs.h"
#include "tools/coverage_json.h"
#include "tools/table.h"
#include "tools/view.h"

namespace tdump::tools {
namespace {

using Json = nlohmann::ordered_json;

// One process of a rank.
struct Trail {
  int32_t rank = 0;
  const io::ProcessEntry* process = nullptr;
  std::string state;  // what became of it
  bool closed_well = false;
  std::optional<io::Breadcrumbs> crumbs;
  std::string trouble;  // why there are none that can be read; "": it left none
};

bool Wants(const ViewRequest& request, int32_t rank) {
  if (request.run.ref.rank && rank != *request.run.ref.rank) return false;
  return !request.filter.ranks ||
         request.filter.ranks->Contains(static_cast<uint64_t>(rank),
                                        static_cast<uint64_t>(request.run.index.world));
}

std::string PathOf(const ViewRequest& request, const io::ProcessEntry& process) {
  return JoinPath(JoinPath(request.run.store->run(), "clock"), process.directory + ".crumbs");
}

// A link to a file that is not there: it is on another node, or gone.
std::string Elsewhere(const std::string& path) {
  std::error_code none;
  const auto target = std::filesystem::read_symlink(path, none);
  return none ? "" : target.string();
}

void ReadTrail(const std::string& path, Trail* trail) {
  const io::IdentitySection& identity = trail->process->identity;
  const auto bytes = ReadFile(Env::Posix(), path, io::kCrumbFileBytes);
  if (!bytes.ok()) {
    if (const std::string target = Elsewhere(path); !target.empty())
      trail->trouble = fmt::format("they are in {} on {}, which is not to be seen from here",
                                   Printable(target), Printable(identity.host));
    else if (bytes.status().code() != StatusCode::kNotFound)
      trail->trouble = bytes.status().message();
    return;
  }
  auto crumbs = io::ReadBreadcrumbs(std::as_bytes(std::span(*bytes)));
  if (!crumbs.ok())
    trail->trouble = fmt::format("{}: {}", Printable(path), crumbs.status().message());
  else if (crumbs->header.rank != identity.rank || crumbs->header.pid != identity.pid)
    trail->trouble = fmt::format("{}: those of rank {}, pid {}", Printable(path),
                                 crumbs->header.rank, crumbs->header.pid);
  else
    trail->crumbs = std::move(*crumbs);
}

std::vector<Trail> Trails(const ViewRequest& request) {
  std::vector<Trail> trails;
  for (const io::RankState& rank : request.run.index.ranks) {
    if (!Wants(request, rank.rank)) continue;
    for (const size_t place : rank.processes) {
      Trail trail{.rank = rank.rank, .process = &request.run.store->processes()[place]};
      const auto& close = trail.process->close;
      trail.state = Printable(close ? close->how : rank.how);
      trail.closed_well = close && close->how == "exit";
      ReadTrail(PathOf(request, *trail.process), &trail);
      trails.push_back(std::move(trail));
    }
  }
  return trails;
}

std::string NameOf(const io::Crumb* crumb) {
  return crumb != nullptr ? Printable(crumb->name) : "-";
}

std::string StepOf(const io::Crumb* crumb) {
  return crumb != nullptr && crumb->step ? fmt::format("{}", *crumb->step) : "-";
}

// What it was in; else what it began last.
const io::Crumb* Begun(const io::Breadcrumbs& crumbs) {
  const auto open = crumbs.Open();
  return !open.empty() ? open.front() : crumbs.LastBegun();
}

std::string TableText(const std::vector<Trail>& trails) {
  Table table({true, false, true, true, false, false, false, false});
  table.Add({"rank", "node", "pid", "step", "last begun", "last returned", "state", ""});
  for (const Trail& trail : trails) {
    if (!trail.crumbs) continue;
    const auto open = trail.crumbs->Open();
    const io::Crumb* begun = Begun(*trail.crumbs);
    std::string where = open.empty() ? "between kernels" : "<- in this kernel";
    if (open.size() > 1) where += fmt::format(", {} further threads in others", open.size() - 1);
    if (trail.crumbs->cut) where += "  (the file is cut)";
    table.Add({fmt::format("{}", trail.rank), Printable(trail.process->identity.host),
               fmt::format("{}", trail.process->identity.pid), StepOf(begun), NameOf(begun),
               NameOf(trail.crumbs->LastEnded()), trail.state, begun != nullptr ? where : ""});
  }
  std::string text = table.rows() > 1 ? table.Take() : "";
  for (const Trail& trail : trails) {
    if (!trail.trouble.empty())
      text += fmt::format("rank {}: no breadcrumbs can be read: {}\n", trail.rank, trail.trouble);
  }
  return text;
}

Json CrumbJson(const io::Crumb* crumb) {
  if (crumb == nullptr) return nullptr;
  return {{"name", crumb->name},
          {"step", crumb->step ? Json(*crumb->step) : Json(nullptr)},
          {"thread", crumb->thread},
          {"time_ns", crumb->time_ns}};
}

Json TrailJson(const Trail& trail) {
  Json json = {{"rank", trail.rank},
               {"node", trail.process->identity.host},
               {"pid", trail.process->identity.pid},
               {"state", trail.state}};
  if (!trail.crumbs) {
    json["trouble"] = trail.trouble;
    return json;
  }
  Json inside = Json::array();
  for (const io::Crumb* crumb : trail.crumbs->Open()) inside.push_back(CrumbJson(crumb));
  json["in"] = std::move(inside);
  json["last_begun"] = CrumbJson(trail.crumbs->LastBegun());
  json["last_returned"] = CrumbJson(trail.crumbs->LastEnded());
  json["cut"] = trail.crumbs->cut;
  return json;
}

}  // namespace

int ViewCrash(const ViewRequest& request) {
  const std::vector<Trail> trails = Trails(request);
  const auto told = [](const Trail& trail) { return trail.crumbs || !trail.trouble.empty(); };
  if (std::none_of(trails.begin(), trails.end(), told)) {
    const bool well = !trails.empty() && std::all_of(trails.begin(), trails.end(),
                                                     [](const Trail& t) { return t.closed_well; });
    return Fail(kViewTool,
                well ? "no breadcrumbs: every process ended well, and took its own away"
                     : "no breadcrumbs: the job left none; tdump-run --set collect.kernels=names "
                       "has each rank leave the kernels it begins");
  }
  if (request.common.quiet) return kExitOk;
  if (!request.common.json) {
    Print(TableText(trails));
    return kExitOk;
  }
  Json ranks = Json::array();
  for (const Trail& trail : trails) ranks.push_back(TrailJson(trail));
  Print(JsonText({{"run", request.run.store->run()}, {"processes", std::move(ranks)}}));
  return kExitOk;
}

}  // namespace tdump::tools
