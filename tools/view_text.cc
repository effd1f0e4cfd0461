#include <fmt/format.h>

#include "core/text.h"
#include "tools/text_export.h"
#include "tools/view.h"

namespace tdump::tools {

int ViewText(const ViewRequest& request, const std::string& path) {
  TextExport out(path);
  if (const Status status = out.Open(); !status.ok()) return Fail(kViewTool, status.message());
  bool trouble = false;
  Status failed;
  ForEachRecord(
      request.run, request.filter,
      [&](const OpenPass& pass, const io::Record& record) {
        failed = out.Add(pass, record);
        return failed.ok();
      },
      [&](const std::string& text) {
        trouble = true;
        Fail(kViewTool, text);
      });
  if (failed.ok() && out.records() != 0) failed = out.Close();
  if (!failed.ok()) return Fail(kViewTool, failed.message());
  if (out.records() == 0) return FailWithoutRecords(request);
  if (path != "-" && !request.common.quiet) {
    std::string text = fmt::format("{} in {}", Plural(out.records(), "record"), Printable(path));
    if (out.without_values() != 0)
      text += fmt::format(", {} without values", CountText(out.without_values()));
    Print(text + "\n");
  }
  return trouble ? kExitTrouble : kExitOk;
}

}  // namespace tdump::tools
