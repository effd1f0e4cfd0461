// Writing YAML: the other half of settings/yaml_tree.h.
#include <cctype>
#include <cstdio>

#include "core/utf8.h"
#include "settings/yaml_tree.h"

namespace tdump::settings {
namespace {

// Words that some YAML reader takes for something else than text.
bool IsSpecialWord(std::string_view text) {
  std::string lower;
  for (unsigned char c : text) lower += static_cast<char>(std::tolower(c));
  for (std::string_view word : {"null", "y", "n", "yes", "no", "on", "off", "true", "false"}) {
    if (lower == word) return true;
  }
  return false;
}

bool IsPlain(std::string_view text) {
  if (text.empty() || text.size() > 512) return false;
  for (unsigned char c : text) {
    if (!std::isalnum(c) &&
        std::string_view("_./+-").find(static_cast<char>(c)) == std::string_view::npos)
      return false;
  }
  return std::isalpha(static_cast<unsigned char>(text[0])) || text[0] == '_';
}

// Code point of a well-formed character of two or three bytes; 0 for the others.
unsigned CodePoint(std::string_view character) {
  const auto bits = [&](size_t i) {
    return static_cast<unsigned>(static_cast<unsigned char>(character[i]) & 0x3F);
  };
  if (character.size() == 2)
    return (static_cast<unsigned char>(character[0]) & 0x1Fu) << 6 | bits(1);
  if (character.size() == 3)
    return (static_cast<unsigned char>(character[0]) & 0x0Fu) << 12 | bits(1) << 6 | bits(2);
  return 0;
}

// Line breaks, marks and controls beyond ASCII, which readers of YAML fold, drop or refuse.
bool MustEscape(unsigned code_point) {
  return (code_point >= 0x80 && code_point < 0xA0) || code_point == 0x2028 ||
         code_point == 0x2029 || code_point == 0xFEFF || code_point == 0xFFFE ||
         code_point == 0xFFFF;
}

std::string HexEscape(unsigned code_point) {
  char escaped[8];
  std::snprintf(escaped, sizeof escaped, code_point < 0x100 ? "\\x%02X" : "\\u%04X",
                code_point & 0xFFFF);
  return escaped;
}

std::string Escape(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    const unsigned char c = text[0];
    if (length == 0) {
      out += "\\uFFFD";
    } else if (length > 1) {
      const unsigned code_point = CodePoint(text.substr(0, length));
      out += MustEscape(code_point) ? HexEscape(code_point) : std::string(text.substr(0, length));
    } else if (c == '"' || c == '\\') {
      out += {'\\', static_cast<char>(c)};
    } else if (c < 0x20 || c == 0x7F) {
      out += HexEscape(c);
    } else {
      out += static_cast<char>(c);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out + "\"";
}

// Single quotes hold any printable text.
bool FitsSingleQuotes(std::string_view text) {
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    const unsigned char c = text[0];
    if (length == 0 || c < 0x20 || c == 0x7F || MustEscape(CodePoint(text.substr(0, length))))
      return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace

std::string YamlScalar(std::string_view text) {
  if (IsPlain(text) && !IsSpecialWord(text)) return std::string(text);
  if (!FitsSingleQuotes(text)) return Escape(text);
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("''") : std::string(1, c);
  return out + "'";
}

std::string FlowText(const YamlNode& node) {
  std::string out;
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return node.text.empty() ? "~" : node.text;
    case YamlNode::Kind::kScalar: {
      const bool number =
          !node.text.empty() && node.text.find_first_not_of("0123456789-:") == std::string::npos &&
          node.text.back() != ':' && node.text.size() < 64 && std::isdigit(node.text[0]);
      return number || IsPlain(node.text) ? node.text : YamlScalar(node.text);
    }
    case YamlNode::Kind::kSequence:
      for (const YamlPtr& item : node.items) out += (out.empty() ? "" : ", ") + FlowText(*item);
      return "[" + out + "]";
    case YamlNode::Kind::kMap:
      for (const YamlEntry& entry : node.entries) {
        out += (out.empty() ? "" : ", ") + YamlScalar(entry.key) + ": " + FlowText(*entry.value);
      }
      return "{" + out + "}";
  }
  return out;
}

}  // namespace tdump::settings
