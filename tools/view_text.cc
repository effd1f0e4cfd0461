#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/text.h"
#include "tools/coverage_json.h"
#include "tools/text_export.h"
#include "tools/view.h"

namespace tdump::tools {

int ViewText(const ViewRequest& request, const std::string& path) {
  TextExport out(path);
  if (const Status status = out.Open(); !status.ok()) return Fail(kViewTool, status.message());
  std::vector<std::string> damage;
  Status failed;
  ForEachRecord(
      request.run, request.filter,
      [&](const OpenPass& pass, const io::Record& record) {
        failed = out.Add(pass, record);
        return failed.ok();
      },
      [&](const std::string& text) {
        Fail(kViewTool, text);
        damage.push_back(text);
      });
  if (failed.ok() && out.records() != 0) failed = out.Close();
  if (!failed.ok()) return Fail(kViewTool, failed.message());
  if (out.records() == 0) return FailWithoutRecords(request);
  const int status = damage.empty() ? kExitOk : kExitTrouble;
  if (path == "-") return status;
  std::string text = fmt::format("{} in {}", Plural(out.records(), "record"), Printable(path));
  if (out.without_values() != 0)
    text += fmt::format(", {} without values", CountText(out.without_values()));
  if (request.common.json) {
    // As tdump-export says it of the other formats.
    Print(JsonText({{"format", "txt"},
                    {"output", path},
                    {"written", text},
                    {"left_out", ""},
                    {"damage", damage},
                    {"status", status}}));
  } else if (!request.common.quiet) {
    Print(text + "\n");
  }
  return status;
}

}  // namespace tdump::tools
