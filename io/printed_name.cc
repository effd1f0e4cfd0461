#include "io/printed_name.h"

#include <fmt/format.h>

#include "core/text.h"
#include "io/address.h"

namespace tdump::io {
namespace {

bool IsWeight(Role role) { return role == Role::kParam || role == Role::kState; }

// Whether `shown` is the text, or what is left of it in a narrow column: "model.lay….mlp, output".
bool IsCutFrom(std::string_view shown, std::string_view text) {
  constexpr std::string_view kCut = "…";
  const size_t cut = shown.find(kCut);
  if (cut == std::string_view::npos) return shown == text;
  const std::string_view head = shown.substr(0, cut), tail = shown.substr(cut + kCut.size());
  return text.size() >= head.size() + tail.size() && text.starts_with(head) && text.ends_with(tail);
}

}  // namespace

std::string PrintedName(const Record& record) {
  const Key& key = record.key;
  if (!IsWeight(key.role)) return PlainName(key.root, key.path, key.op);
  if (key.path == "." && key.root.empty()) return key.arg;
  return PlainName(key.root, key.path, key.op) + "." + key.arg;
}

std::string ObservationText(const Key& key) {
  return fmt::format("{}{}{}{}", ToString(key.role), key.arg.empty() ? "" : " ", key.arg,
                     key.call == 0 ? "" : fmt::format(" of call {}", key.call));
}

std::string ShownName(const std::string& name) {
  return name == "." ? "the whole model" : Printable(name);
}

bool NameMatchesPrinted(std::string_view name, const Record& record) {
  const Key& key = record.key;
  if (NameMatches(name, key)) return true;
  if (IsWeight(key.role) && name == PrintedName(record)) return true;
  if (name.find(", ") == std::string_view::npos) return false;  // most of a walk
  // Tables have the first, the line of an origin the second.
  const std::string what = ", " + ObservationText(key);
  return IsCutFrom(name, ShownName(PrintedName(record)) + what) ||
         IsCutFrom(name, ShownName(PlainName(key.root, key.path, key.op)) + what);
}

}  // namespace tdump::io
