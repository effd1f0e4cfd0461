#include "compare/map_data.h"

#include <algorithm>
#include <utility>

#include "core/parse_number.h"

namespace tdump::compare {
namespace {

bool IsWordByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// The group that `name` calls, "2" or "layer"; an error names it.
Result<size_t> GroupOf(const std::string& name, const settings::Regex& pattern) {
  if (const auto number = ParseNumber<size_t>(name)) {
    if (*number >= 1 && *number <= pattern.groups()) return *number;
    return InvalidArgument("$" + name + " is no group of 'name', which has " +
                           std::to_string(pattern.groups()));
  }
  const size_t number = pattern.GroupNamed(name);
  if (number >= 1 && number <= pattern.groups()) return number;
  return InvalidArgument("'name' has no group (?<" + settings::Printable(name) + ">...)");
}

}  // namespace

Result<Replacement> Replacement::Parse(std::string_view text, const settings::Regex& pattern) {
  Replacement replacement;
  replacement.text_ = text;
  std::string literal;
  const auto flush = [&] {
    if (!literal.empty()) replacement.pieces_.push_back({std::exchange(literal, ""), 0});
  };
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '$') {
      literal += text[i];
      continue;
    }
    if (i + 1 < text.size() && text[i + 1] == '$') {
      literal += '$';
      ++i;
      continue;
    }
    const bool braced = i + 1 < text.size() && text[i + 1] == '{';
    const size_t begin = i + (braced ? 2 : 1);
    size_t end = begin;
    while (end < text.size() && (braced ? text[end] != '}' : text[end] >= '0' && text[end] <= '9'))
      ++end;
    const std::string name(text.substr(begin, end - begin));
    const bool is_name = !name.empty() && std::all_of(name.begin(), name.end(), IsWordByte);
    if (!is_name || (braced && end == text.size())) {
      return InvalidArgument("a '$' in '" + settings::Printable(text) +
                             "' without a group: $1, ${1} or ${name}; $$ is a dollar sign");
    }
    TDUMP_ASSIGN_OR_RETURN(const size_t group, GroupOf(name, pattern));
    flush();
    replacement.pieces_.push_back({"", group});
    i = braced ? end : end - 1;
  }
  flush();
  return replacement;
}

std::string Replacement::Expand(const std::vector<std::string_view>& groups) const {
  std::string text;
  for (const Piece& piece : pieces_) {
    if (piece.group == 0)
      text += piece.text;
    else if (piece.group < groups.size())
      text += groups[piece.group];
  }
  return text;
}

bool MapRule::IsFor(Role role) const {
  return roles.empty() || std::find(roles.begin(), roles.end(), role) != roles.end();
}

const std::vector<std::string>& MapRule::DimsOf(Role role) const {
  static const std::vector<std::string> kNone;
  auto found = dims.find(role);
  if (found == dims.end()) found = dims.find(ValueRole(role));
  return found == dims.end() ? kNone : found->second;
}

Result<settings::Regex> CompileComponents(std::string_view pattern) {
  // By itself first: messages are about what the user wrote, and a stray bracket is not closed by
  // ours.
  TDUMP_ASSIGN_OR_RETURN(const settings::Regex bare, settings::Regex::Compile(pattern));
  return settings::Regex::Compile("(?<![^.])(?:" + std::string(pattern) + ")(?![^.])");
}

Role ValueRole(Role role) {
  switch (role) {
    case Role::kGradInput:
      return Role::kInput;
    case Role::kGradOutput:
      return Role::kOutput;
    case Role::kParamGrad:
      return Role::kParam;
    default:
      return role;
  }
}

}  // namespace tdump::compare
