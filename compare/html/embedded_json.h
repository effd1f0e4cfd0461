// JSON as it stands in the HTML report: inside a <script> element, where "</script>" or "<!--" of a
// hostile name would end it.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace tdump::compare::html {

using Json = nlohmann::ordered_json;

// Compact. `<`, `>` and `&` (which occur in strings only), U+2028 and U+2029 become \u escapes;
// bytes that are no UTF-8 become U+FFFD.
std::string EmbeddedJson(const Json& json);
std::string EscapeForScript(std::string_view json);

// Six digits: what a page shows. Not finite: "nan", "inf", "-inf".
Json ShownNumber(double value);
Json ShownNumber(const std::optional<double>& value);  // none: null
// Text for people: what could steer or reorder it becomes \xNN.
Json ShownText(std::string_view text);

}  // namespace tdump::compare::html
