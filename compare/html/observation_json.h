// One observation as a row of the page's data: an array, in the order of these columns
// (assets/data.js makes objects of them).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compare/html/embedded_json.h"
#include "compare/html/page_data.h"

namespace tdump::compare::html {

Json ObservationColumns();
Json MetricsColumns();

// Bounds are few: rows refer to them by index.
class BoundTexts {
 public:
  size_t IndexOf(const std::string& text);
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::map<std::string, size_t> index_;
  std::vector<std::string> texts_;
};

Json ObservationJson(const Observation& observation, BoundTexts* bounds);

}  // namespace tdump::compare::html
