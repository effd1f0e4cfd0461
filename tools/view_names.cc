#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "compare/shorten.h"
#include "coordinator/coverage.h"
#include "coordinator/coverage_ways.h"
#include "core/text.h"
#include "tools/coverage_json.h"
#include "tools/names.h"
#include "tools/near_names.h"
#include "tools/table.h"
#include "tools/view.h"

namespace tdump::tools {
namespace {

// Nothing is expected of what no rule asks for: roots, and modules of the signature alone.
std::string RanksText(const io::OperatorCoverage& op) {
  if (op.ranks_expected == 0) return "-";
  return fmt::format("{} of {}", CountText(op.ranks_called), CountText(op.ranks_expected));
}

std::string AskedText(const ViewRequest& request) {
  std::string text = request.name_pattern.empty() ? "" : "'" + request.name_pattern + "'";
  for (const std::string& pattern : request.select)
    text += fmt::format("{}--select '{}'", text.empty() ? "" : " and ", pattern);
  return text;
}

std::string NearestTo(const ViewRequest& request) {
  return request.name_pattern.empty() && !request.select.empty() ? request.select.front()
                                                                 : request.name_pattern;
}

constexpr size_t kLongestName = 120;  // characters; a longer one would widen every line

// The table; names that are too long for one are cut so that they still differ.
std::string NamesText(const std::vector<compare::NamedCell>& names, std::vector<std::string> head,
                      std::vector<std::vector<std::string>> rows) {
  Table table({false, false, false, true, true, true, true, true});
  table.Add(std::move(head));
  const std::vector<std::string> shown = compare::ShortenApart(names, kLongestName);
  size_t cut = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    cut += shown[i] != names[i].name;
    rows[i].front() = shown[i];
    table.Add(std::move(rows[i]));
  }
  return table.Take() + (cut == 0
                             ? ""
                             : fmt::format("{} cut to {} characters (…): --json has names whole\n",
                                           Plural(cut, "name"), kLongestName));
}

}  // namespace

int ViewNames(const ViewRequest& request) {
  std::vector<std::string> patterns;
  if (!request.name_pattern.empty()) patterns.push_back(request.name_pattern);
  const auto matches = MatchAny(patterns);
  if (!matches.ok()) return Fail(kViewTool, matches.status().message());
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  std::vector<compare::NamedCell> names;
  std::vector<std::vector<std::string>> lines;
  uint64_t shown = 0;
  const std::map<std::string, std::string> classes =
      coordinator::RootClasses(*request.run.store, request.run.index);
  const bool ring = coordinator::HasOverwritten(request.run.index);
  std::vector<std::string> head{"name",  "kind",    "class",   "ranks called",
                                "calls", "records", "not kept"};
  if (ring) head.push_back("overwritten");
  for (const io::OperatorCoverage& op : request.run.index.operators) {
    if (*matches && !(*matches)(op.name)) continue;
    if (request.filter.select && !request.filter.select(op.name)) continue;
    ++shown;
    const auto root = classes.find(op.name);
    const std::string& cls = op.cls.empty() && root != classes.end() ? root->second : op.cls;
    if (request.common.json) {
      rows.push_back({{"name", op.name},
                      {"kind", ToString(op.kind)},
                      {"class", cls},
                      {"ranks_expected", op.ranks_expected},
                      {"ranks_called", op.ranks_called},
                      {"calls", op.calls},
                      {"records", op.records},
                      {"not_kept", op.not_kept},
                      {"overwritten", op.overwritten}});
    } else {
      names.push_back({Printable(op.name), ""});
      lines.push_back({"", std::string(ToString(op.kind)),
                       cls.empty() ? "-" : Printable(cls.substr(cls.rfind('.') + 1)), RanksText(op),
                       CountText(op.calls), CountText(op.records), CountText(op.not_kept)});
      if (ring) lines.back().push_back(CountText(op.overwritten));
    }
  }
  if (shown == 0 && !request.run.index.operators.empty() && !request.common.json)
    return Fail(kViewTool,
                fmt::format("no operator matches {}; the run has {}{}", AskedText(request),
                            Plural(request.run.index.operators.size(), "operator"),
                            NearText(request.run, NearestTo(request))));
  if (request.common.quiet) return kExitOk;
  Print(request.common.json ? JsonText({{"run", request.run.ref.path}, {"operators", rows}})
                            : NamesText(names, std::move(head), std::move(lines)));
  return kExitOk;
}

}  // namespace tdump::tools
