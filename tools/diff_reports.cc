#include "tools/diff_reports.h"

#include <nlohmann/json.hpp>

#include "compare/html/page.h"
#include "compare/recomputed.h"

namespace tdump::tools {

Status DiffReports::Begin(compare::DiffOptions* options) {
  options->on_pass = [this](const compare::PassDiff& pass, const compare::PassPair& pair) {
    worst_.AddPass(pass, pair);
    if (page_ != nullptr) grids_.AddPass(pass, pair);
  };
  if (jsonl_.empty() && html_.empty()) return {};
  if (!jsonl_.empty()) {
    TDUMP_ASSIGN_OR_RETURN(lines_, ReportFile::Create(jsonl_));
  }
  if (!html_.empty()) {
    TDUMP_ASSIGN_OR_RETURN(page_, ReportFile::Create(html_));
  }
  if (lines_ != nullptr && page_ != nullptr && lines_->IsSameFileAs(*page_))
    return InvalidArgument("--jsonl and --html name the same file '" + html_ + "'");
  options->on_row = [this](const compare::Row& row) {
    if (lines_ != nullptr) lines_->Write(compare::RowToJson(row) + "\n");
    if (page_ != nullptr) data_.Add(row);
  };
  options->on_unpaired = [this](const compare::Unpaired& unpaired) {
    if (lines_ != nullptr) lines_->Write(compare::UnpairedToJson(unpaired) + "\n");
    if (page_ != nullptr) data_.Add(unpaired);
  };
  return {};
}

Status DiffReports::Finish(const compare::DiffReport& report, const compare::SideInfo& a,
                           const compare::SideInfo& b, bool required_bits) {
  if (lines_ != nullptr) {
    for (const std::string& note : report.notes) {
      if (compare::IsRecomputedNote(note))
        lines_->Write(nlohmann::ordered_json{{"type", "note"}, {"text", note}}.dump(
                          -1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
                      "\n");
    }
    TDUMP_RETURN_IF_ERROR(lines_->Commit());
  }
  if (page_ == nullptr) return {};
  compare::html::WritePage({.data = &data_,
                            .report = &report,
                            .a = a,
                            .b = b,
                            .required_bits = required_bits,
                            .grids = &grids_},
                           [this](std::string_view piece) { page_->Write(piece); });
  return page_->Commit();
}

}  // namespace tdump::tools
