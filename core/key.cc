#include "core/key.h"

#include <algorithm>
#include <cctype>
#include <cstdio>

#include "core/parse_number.h"
#include "core/utf8.h"

namespace tdump {
namespace {

bool MustEscape(unsigned char c) {
  return c < 0x20 || c == 0x7F || c == '%' || c == '/' || c == ':' || c == '@' || c == '#' ||
         c == '~';
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

template <class T>
bool ReadNumber(std::string_view text, T* number) {
  const auto read = ParseNumber<T>(text);
  if (read) *number = *read;
  return read.has_value();
}

// FNV-1a: only has to tell apart file names that became equal.
uint64_t NameHash(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char c : name) hash = (hash ^ c) * 0x100000001b3;
  return hash;
}

void ReplaceInvalidUtf8(std::string* text) {
  for (size_t i = 0; i < text->size();) {
    const size_t length = Utf8Length(std::string_view(*text).substr(i));
    if (length == 0) (*text)[i] = '_';
    i += std::max<size_t>(length, 1);
  }
}

bool IsReservedOnWindows(std::string_view name) {
  std::string stem(name.substr(0, name.find('.')));
  std::transform(stem.begin(), stem.end(), stem.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  static constexpr std::string_view kDevices[] = {"aux", "con", "nul", "prn"};
  if (std::find(std::begin(kDevices), std::end(kDevices), stem) != std::end(kDevices)) return true;
  return stem.size() == 4 && (stem.starts_with("com") || stem.starts_with("lpt")) &&
         stem[3] >= '0' && stem[3] <= '9';
}

}  // namespace

std::string EscapeField(std::string_view field) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string text;
  text.reserve(field.size());
  for (unsigned char c : field) {
    if (!MustEscape(c)) {
      text += static_cast<char>(c);
      continue;
    }
    text += '%';
    text += kHex[c >> 4];
    text += kHex[c & 15];
  }
  return text;
}

Result<std::string> UnescapeField(std::string_view text) {
  std::string field;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      field += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? HexDigit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? HexDigit(text[i + 2]) : -1;
    if (high < 0 || low < 0) {
      return InvalidArgument("'" + std::string(text) +
                             "': expected two hex digits after % at position " + std::to_string(i));
    }
    field += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return field;
}

std::string ToText(const Key& key) {
  std::string text;
  if (!key.root.empty()) text += EscapeField(key.root) + ":";
  text += EscapeField(key.path);
  if (!key.op.empty()) text += "/" + EscapeField(key.op);
  if (key.call != 0) text += "::call" + std::to_string(key.call);
  text += '@';
  text += ToString(key.role);
  text += '#' + EscapeField(key.arg);
  return text + KeyMarks(key);
}

std::string KeyMarks(const Key& key) {
  std::string marks;
  const auto add = [&](const std::string& field) { marks += (marks.empty() ? "~" : ".") + field; };
  if (key.micro != 0) add("m" + std::to_string(key.micro));
  if (key.chunk != 0) add("c" + std::to_string(key.chunk));
  if (key.lane != 0) add("l" + std::to_string(key.lane));
  if (key.phase == Phase::kBackward) add("b");
  if (key.recompute) add("r");
  return marks;
}

Result<Key> ParseKey(std::string_view whole) {
  const auto bad = [&](std::string_view expected) {
    return InvalidArgument("'" + std::string(whole) + "' is not a key: expected " +
                           std::string(expected));
  };
  Key key;
  std::string_view text = whole;
  if (const size_t tilde = text.rfind('~'); tilde != std::string_view::npos) {
    std::string_view extra = text.substr(tilde + 1);
    text = text.substr(0, tilde);
    while (!extra.empty()) {
      const size_t dot = extra.find('.');
      const std::string_view field = extra.substr(0, dot);
      extra = dot == std::string_view::npos ? std::string_view{} : extra.substr(dot + 1);
      if (field == "b")
        key.phase = Phase::kBackward;
      else if (field == "r")
        key.recompute = true;
      else if (field.starts_with('m') && ReadNumber(field.substr(1), &key.micro))
        continue;
      else if (field.starts_with('c') && ReadNumber(field.substr(1), &key.chunk))
        continue;
      else if (field.starts_with('l') && ReadNumber(field.substr(1), &key.lane))
        continue;
      else
        return bad("fields mN, cN, lN, b, r after ~");
    }
  }
  const size_t at = text.find('@');
  const size_t hash = text.find('#');
  if (at == std::string_view::npos || hash == std::string_view::npos || hash < at)
    return bad("path@role#arg");
  if (!ParseRole(text.substr(at + 1, hash - at - 1), &key.role))
    return bad("a role between @ and #");
  // Gradients have no other phase; "~b" may be left out.
  if (key.role == Role::kGradInput || key.role == Role::kGradOutput || key.role == Role::kParamGrad)
    key.phase = Phase::kBackward;
  TDUMP_ASSIGN_OR_RETURN(key.arg, UnescapeField(text.substr(hash + 1)));
  std::string_view name = text.substr(0, at);
  if (const size_t call = name.rfind("::call"); call != std::string_view::npos) {
    if (!ReadNumber(name.substr(call + 6), &key.call)) return bad("a number after ::call");
    name = name.substr(0, call);
  }
  // The operator first: people write "aten::mm" without escapes, and a path has no '/'.
  if (const size_t slash = name.find('/'); slash != std::string_view::npos) {
    TDUMP_ASSIGN_OR_RETURN(key.op, UnescapeField(name.substr(slash + 1)));
    name = name.substr(0, slash);
  }
  if (const size_t colon = name.find(':'); colon != std::string_view::npos) {
    TDUMP_ASSIGN_OR_RETURN(key.root, UnescapeField(name.substr(0, colon)));
    name = name.substr(colon + 1);
  }
  TDUMP_ASSIGN_OR_RETURN(key.path, UnescapeField(name));
  return key;
}

std::string PlainName(std::string_view root, std::string_view path, std::string_view op) {
  std::string name;
  if (!root.empty()) name = std::string(root) + ".";
  if (!(path == "." && !root.empty()))
    name += path;
  else
    name.pop_back();
  if (!op.empty()) name += (name.empty() ? "" : "/") + std::string(op);
  return name;
}

std::string PortableFileName(std::string_view name, std::string_view suffix) {
  constexpr size_t kMaxBytes = 200;
  std::string file;
  bool changed = false;
  for (unsigned char c : name) {
    const bool legal = c >= 0x80 || std::isalnum(c) || c == '.' || c == '_' || c == '-' ||
                       c == '+' || c == '=' || c == ',';
    file += legal ? static_cast<char>(c) : '_';
    changed |= !legal;
  }
  ReplaceInvalidUtf8(&file);
  const bool odd_end =
      file.empty() || file.back() == '.' || file.front() == '.' || file.front() == '-';
  changed |= odd_end || IsReservedOnWindows(file) || file.size() + suffix.size() > kMaxBytes;
  // File systems that ignore case or normalise Unicode must not merge two names, nor an unchanged
  // name meet a changed one.
  changed |= std::any_of(name.begin(), name.end(),
                         [](unsigned char c) { return std::isupper(c) || c >= 0x80; });
  changed |= file.starts_with("t_");
  if (changed) {
    char hash[24];
    std::snprintf(hash, sizeof hash, "-%016llx", static_cast<unsigned long long>(NameHash(name)));
    size_t keep = std::min(file.size(), kMaxBytes - suffix.size() - 24);
    while (keep > 0 && keep < file.size() && (static_cast<unsigned char>(file[keep]) >> 6) == 2)
      --keep;
    file = "t_" + file.substr(0, keep) + hash;
  }
  return file + std::string(suffix);
}

}  // namespace tdump
