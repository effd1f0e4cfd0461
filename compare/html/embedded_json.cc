#include "compare/html/embedded_json.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "core/text.h"

namespace tdump::compare::html {

std::string EscapeForScript(std::string_view json) {
  std::string text;
  text.reserve(json.size());
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    const std::string_view rest = json.substr(i, 3);
    if (c == '<' || c == '>' || c == '&') {
      text += fmt::format("\\u{:04x}", c);
    } else if (rest == "\xE2\x80\xA8" || rest == "\xE2\x80\xA9") {
      text += rest[2] == '\xA8' ? "\\u2028" : "\\u2029";
      i += 2;
    } else {
      text += c;
    }
  }
  return text;
}

std::string EmbeddedJson(const Json& json) {
  return EscapeForScript(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

Json ShownNumber(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr);
}

Json ShownNumber(const std::optional<double>& value) {
  return value ? ShownNumber(*value) : Json(nullptr);
}

Json ShownText(std::string_view text) { return Printable(text); }

}  // namespace tdump::compare::html
