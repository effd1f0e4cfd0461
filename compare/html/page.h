// The HTML report: one file that shows itself with the script it carries and loads nothing.
//
//   page.html with page.css, the scripts and the data put in; the data is JSON
//   (compare/html/embedded_json.h), of which the scripts make text nodes only.
#pragma once

#include <functional>
#include <string_view>

#include "compare/html/grid_collector.h"
#include "compare/html/page_data.h"
#include "compare/report.h"

namespace tdump::compare::html {

struct PageInput {
  const PageData* data = nullptr;
  const DiffReport* report = nullptr;
  SideInfo a, b;
  bool required_bits = false;
  const GridCollector* grids = nullptr;  // may be null: no heat maps
};

// Writes the page in pieces of at most a few hundred KiB.
void WritePage(const PageInput& input, const std::function<void(std::string_view)>& write);

}  // namespace tdump::compare::html
