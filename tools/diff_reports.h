// DiffReports: the files that tdump-diff writes beside what it prints: every pair as a JSON line,
// the HTML page.
#pragma once

#include <memory>
#include <string>

#include "compare/diff.h"
#include "compare/html/grid_collector.h"
#include "compare/html/page_data.h"
#include "compare/report.h"
#include "compare/worst_elements.h"
#include "tools/report_file.h"

namespace tdump::tools {

// Not thread-safe. Files appear under their names when Finish() succeeds; otherwise not at all.
class DiffReports {
 public:
  // `values`: how many elements are listed of where the runs part; up to 1 needs no reading.
  DiffReports(std::string jsonl, std::string html, unsigned values)
      : jsonl_(std::move(jsonl)), html_(std::move(html)), worst_(values > 1 ? values : 0) {}

  // Creates the files asked for ("": none), so that a wrong name is told before hours of work, and
  // listens to what the diff finds.
  Status Begin(compare::DiffOptions* options);
  // What was taken beside the diff, into its report.
  void Complete(compare::DiffReport* report) const { worst_.FillIn(report); }
  Status Finish(const compare::DiffReport& report, const compare::SideInfo& a,
                const compare::SideInfo& b, bool required_bits);

 private:
  std::string jsonl_, html_;
  std::unique_ptr<ReportFile> lines_, page_;
  compare::html::PageData data_;
  compare::html::GridCollector grids_;
  compare::WorstCollector worst_;
};

}  // namespace tdump::tools
