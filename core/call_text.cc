#include "core/call_text.h"

#include <charconv>
#include <cmath>

#include "core/utf8.h"

namespace tdump {
namespace {

template <class Number>
Number NumberAt(std::string_view value, size_t index) {
  Number number;
  std::memcpy(&number, value.data() + index * sizeof number, sizeof number);
  return number;
}

template <class Number>
void AppendNumber(Number number, std::string* text) {
  char digits[64];
  text->append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
}

void AppendBool(int64_t value, std::string* text) { *text += value != 0 ? "true" : "false"; }

template <class Number, class Append>
void AppendList(std::string_view value, size_t most, Append append, std::string* text) {
  const size_t before = text->size();
  *text += "[";
  for (size_t i = 0; i < value.size() / sizeof(Number); ++i) {
    if (i != 0) *text += ",";
    append(NumberAt<Number>(value, i), text);
    if (text->size() - before > most) {
      *text += ",...";
      break;
    }
  }
  *text += "]";
}

// The shortest digits that give the number again, as repr() places them: with an exponent from 1e16
// on and below 1e-4, else with at least one digit behind the point.
void AppendPythonFloat(double number, std::string* text) {
  if (std::isnan(number)) {
    *text += "nan";
    return;
  }
  const double size = std::fabs(number);
  const bool fixed = size == 0 || (size >= 1e-4 && size < 1e16);
  char digits[64];
  const auto format = fixed ? std::chars_format::fixed : std::chars_format::scientific;
  const char* end = std::to_chars(digits, digits + sizeof digits, number, format).ptr;
  const std::string_view made(digits, static_cast<size_t>(end - digits));
  *text += made;
  if (fixed && made.find('.') == std::string_view::npos) *text += ".0";
}

void AppendPythonString(std::string_view ascii, char quote, std::string* text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  *text += quote;
  for (const char c : ascii) {
    const auto code = static_cast<unsigned char>(c);
    if (c == quote || c == '\\') {
      *text += {'\\', c};
    } else if (c == '\n' || c == '\r' || c == '\t') {
      *text += {'\\', c == '\n' ? 'n' : c == '\r' ? 'r' : 't'};
    } else if (code < 0x20 || code >= 0x7F) {
      *text += {'\\', 'x', kHex[code >> 4], kHex[code & 15]};
    } else {
      *text += c;
    }
  }
  *text += quote;
}

}  // namespace

void CallText::AddPythonString(std::string_view name, std::string_view ascii) noexcept {
  const auto holds = [&](char c) { return ascii.find(c) != std::string_view::npos; };
  const bool in_double = holds('\'') && !holds('"');
  AddBytes(in_double ? Form::kPythonDoubleQuoted : Form::kPythonSingleQuoted, name, ascii,
           ascii.size() + 2);
}

void CallText::AppendValue(Form form, std::string_view value, std::string* text) {
  switch (form) {
    case Form::kText:
      text->append(value);
      return;
    case Form::kBool:
      return AppendBool(NumberAt<int64_t>(value, 0), text);
    case Form::kInteger:
      return AppendNumber(NumberAt<int64_t>(value, 0), text);
    case Form::kDouble:
      return AppendNumber(NumberAt<double>(value, 0), text);
    case Form::kComplex:
      AppendNumber(NumberAt<double>(value, 0), text);
      *text += "+";
      AppendNumber(NumberAt<double>(value, 1), text);
      *text += "j";
      return;
    case Form::kBools:
      return AppendList<int64_t>(value, kListText, AppendBool, text);
    case Form::kIntegers:
      return AppendList<int64_t>(value, kListText, AppendNumber<int64_t>, text);
    case Form::kDoubles:
      return AppendList<double>(value, kListText, AppendNumber<double>, text);
    case Form::kPythonFloat:
      return AppendPythonFloat(NumberAt<double>(value, 0), text);
    case Form::kPythonSingleQuoted:
      return AppendPythonString(value, '\'', text);
    case Form::kPythonDoubleQuoted:
      return AppendPythonString(value, '"', text);
    case Form::kPythonObject:
      text->append("<").append(value).append(">");
      return;
  }
}

std::string CallText::ToString(std::span<const std::byte> bytes) {
  std::string text;
  std::string_view left(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  while (left.size() >= sizeof(Head) && text.size() <= kMaxBytes) {
    Head head;
    std::memcpy(&head, left.data(), sizeof head);
    left.remove_prefix(sizeof head);
    if (!text.empty()) text += "; ";
    text.append(left.substr(0, head.name)).append(head.name == 0 ? "" : "=");
    AppendValue(head.form, left.substr(head.name, head.value), &text);
    left.remove_prefix(head.name + head.value);
  }
  if (text.size() <= kMaxBytes) return text;
  text.resize(CutUtf8(text, kMaxBytes - 3).size());
  return text += "...";
}

}  // namespace tdump
