#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/text.h"
#include "tools/coverage_json.h"
#include "tools/names.h"
#include "tools/table.h"
#include "tools/view.h"

namespace tdump::tools {
namespace {

std::string RanksText(const io::OperatorCoverage& op) {
  return fmt::format("{} of {}", CountText(op.ranks_called), CountText(op.ranks_expected));
}

}  // namespace

int ViewNames(const ViewRequest& request) {
  std::vector<std::string> patterns;
  if (!request.name_pattern.empty()) patterns.push_back(request.name_pattern);
  const auto matches = MatchAny(patterns);
  if (!matches.ok()) return Fail(kViewTool, matches.status().message());
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  Table table({false, false, false, true, true, true, true});
  table.Add({"name", "kind", "class", "ranks called", "calls", "records", "not kept"});
  uint64_t shown = 0;
  for (const io::OperatorCoverage& op : request.run.index.operators) {
    if (*matches && !(*matches)(op.name)) continue;
    if (request.filter.select && !request.filter.select(op.name)) continue;
    ++shown;
    if (request.common.json) {
      rows.push_back({{"name", op.name},
                      {"kind", ToString(op.kind)},
                      {"class", op.cls},
                      {"ranks_expected", op.ranks_expected},
                      {"ranks_called", op.ranks_called},
                      {"calls", op.calls},
                      {"records", op.records},
                      {"not_kept", op.not_kept}});
    } else {
      table.Add({Printable(op.name), std::string(ToString(op.kind)),
                 Printable(op.cls.substr(op.cls.rfind('.') + 1)), RanksText(op),
                 CountText(op.calls), CountText(op.records), CountText(op.not_kept)});
    }
  }
  if (shown == 0 && !request.run.index.operators.empty() && !request.common.json)
    return Fail(kViewTool,
                fmt::format("no operator matches '{}'; the run has {}", request.name_pattern,
                            Plural(request.run.index.operators.size(), "operator")));
  if (request.common.quiet) return kExitOk;
  Print(request.common.json ? JsonText({{"run", request.run.ref.path}, {"operators", rows}})
                            : table.Take());
  return kExitOk;
}

}  // namespace tdump::tools
