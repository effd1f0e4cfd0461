#include "compare/foreign/json_reader.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <limits>

#include "core/parse_number.h"

namespace tdump::compare::foreign {
namespace {

constexpr int kMaxDepth = 64;
constexpr size_t kMaxText = 1 << 20;
constexpr size_t kMaxWord = 64;

void AppendUtf8(uint32_t code, std::string* text) {
  const auto add = [text](uint32_t byte) { *text += static_cast<char>(byte); };
  if (code < 0x80) return add(code);
  if (code < 0x800) {
    add(0xC0 | code >> 6);
  } else {
    if (code < 0x10000) {
      add(0xE0 | code >> 12);
    } else {
      add(0xF0 | code >> 18);
      add(0x80 | (code >> 12 & 0x3F));
    }
    add(0x80 | (code >> 6 & 0x3F));
  }
  add(0x80 | (code & 0x3F));
}

bool IsWordByte(int byte) {
  return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
         (byte >= 'A' && byte <= 'Z') || byte == '-' || byte == '+' || byte == '.';
}

}  // namespace

Status JsonReader::SkipSpace() {
  while (true) {
    TDUMP_ASSIGN_OR_RETURN(const int byte, reader_.Peek());
    if (byte != ' ' && byte != '\n' && byte != '\r' && byte != '\t') return {};
    TDUMP_RETURN_IF_ERROR(reader_.ReadByte().status());
  }
}

Result<bool> JsonReader::Take(char wanted) {
  TDUMP_RETURN_IF_ERROR(SkipSpace());
  TDUMP_ASSIGN_OR_RETURN(const int byte, reader_.Peek());
  if (byte != wanted) return false;
  TDUMP_RETURN_IF_ERROR(reader_.ReadByte().status());
  return true;
}

Status JsonReader::Expect(char wanted) {
  TDUMP_ASSIGN_OR_RETURN(const bool taken, Take(wanted));
  return taken ? Status::Ok() : Error(fmt::format("expected '{}'", wanted));
}

Result<JsonReader::Kind> JsonReader::NextKind() {
  TDUMP_RETURN_IF_ERROR(SkipSpace());
  TDUMP_ASSIGN_OR_RETURN(const int byte, reader_.Peek());
  switch (byte) {
    case '{':
      return Kind::kObject;
    case '[':
      return Kind::kArray;
    case '"':
      return Kind::kText;
    case 't':
    case 'f':
      return Kind::kBool;
    case 'n':
      return Kind::kNull;
    default:
      if (IsWordByte(byte)) return Kind::kNumber;
      return Error("expected a JSON value");
  }
}

Status JsonReader::ReadList(char close, const std::function<Status()>& item) {
  if (++depth_ > kMaxDepth) return Error(fmt::format("nested deeper than {}", kMaxDepth));
  TDUMP_ASSIGN_OR_RETURN(bool done, Take(close));
  while (!done) {
    TDUMP_RETURN_IF_ERROR(item());
    TDUMP_ASSIGN_OR_RETURN(const bool more, Take(','));
    if (!more) {
      TDUMP_RETURN_IF_ERROR(Expect(close));
      done = true;
    }
  }
  --depth_;
  return {};
}

Status JsonReader::ReadObject(const std::function<Status(const std::string&)>& visit) {
  TDUMP_RETURN_IF_ERROR(Expect('{'));
  return ReadList('}', [&]() -> Status {
    TDUMP_ASSIGN_OR_RETURN(const std::string key, ReadText());
    TDUMP_RETURN_IF_ERROR(Expect(':'));
    return visit(key);
  });
}

Status JsonReader::ReadArray(const std::function<Status()>& visit) {
  TDUMP_RETURN_IF_ERROR(Expect('['));
  return ReadList(']', visit);
}

Result<uint32_t> JsonReader::ReadHex4() {
  TDUMP_ASSIGN_OR_RETURN(const std::string digits, reader_.ReadText(4, 4));
  uint32_t code = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + 4, code, 16);
  if (error != std::errc() || end != digits.data() + 4) return Error("expected four hex digits");
  return code;
}

Status JsonReader::ReadEscape(std::string* text) {
  static constexpr char kFrom[] = "\"\\/bfnrt", kTo[] = "\"\\/\b\f\n\r\t";
  TDUMP_ASSIGN_OR_RETURN(const uint8_t escape, reader_.ReadByte());
  if (escape != 'u') {
    const char* found = escape == 0 ? nullptr : std::strchr(kFrom, escape);
    if (found == nullptr) return Error("an unknown escape in a text");
    *text += kTo[found - kFrom];
    return {};
  }
  TDUMP_ASSIGN_OR_RETURN(uint32_t code, ReadHex4());
  if (code >= 0xD800 && code < 0xDC00) {
    TDUMP_ASSIGN_OR_RETURN(const std::string next, reader_.ReadText(2, 2));
    if (next != "\\u") return Error("half of a surrogate pair");
    TDUMP_ASSIGN_OR_RETURN(const uint32_t low, ReadHex4());
    if (low < 0xDC00 || low > 0xDFFF) return Error("half of a surrogate pair");
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  } else if (code >= 0xDC00 && code < 0xE000) {
    return Error("half of a surrogate pair");
  }
  AppendUtf8(code, text);
  return {};
}

Result<std::string> JsonReader::ReadText() {
  TDUMP_RETURN_IF_ERROR(Expect('"'));
  std::string text;
  while (true) {
    TDUMP_ASSIGN_OR_RETURN(const uint8_t byte, reader_.ReadByte());
    if (byte == '"') return text;
    if (byte < 0x20) return Error("a control character in a text");
    if (text.size() >= kMaxText)
      return Error(fmt::format("a text of more than {} bytes", kMaxText));
    if (byte == '\\') {
      TDUMP_RETURN_IF_ERROR(ReadEscape(&text));
    } else {
      text += static_cast<char>(byte);
    }
  }
}

Result<std::string> JsonReader::ReadWord() {
  TDUMP_RETURN_IF_ERROR(SkipSpace());
  std::string word;
  while (true) {
    TDUMP_ASSIGN_OR_RETURN(const int byte, reader_.Peek());
    if (!IsWordByte(byte)) return word;
    if (word.size() == kMaxWord) return Error("a number or word that is too long");
    TDUMP_RETURN_IF_ERROR(reader_.ReadByte().status());
    word += static_cast<char>(byte);
  }
}

Result<int64_t> JsonReader::ReadInteger() {
  TDUMP_ASSIGN_OR_RETURN(const std::string word, ReadWord());
  if (const auto value = ParseNumber<int64_t>(word)) return *value;
  return Error(fmt::format("'{}' is not a whole number", word));
}

Result<double> JsonReader::ReadNumber() {
  TDUMP_ASSIGN_OR_RETURN(const std::string word, ReadWord());
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (word == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (word == "Infinity") return kInfinity;
  if (word == "-Infinity") return -kInfinity;
  if (const auto value = ParseNumber<double>(word)) return *value;
  return Error(fmt::format("'{}' is no number", word));
}

Status JsonReader::Skip() {
  TDUMP_ASSIGN_OR_RETURN(const Kind kind, NextKind());
  switch (kind) {
    case Kind::kObject:
      return ReadObject([this](const std::string&) { return Skip(); });
    case Kind::kArray:
      return ReadArray([this] { return Skip(); });
    case Kind::kText:
      return ReadText().status();
    default:
      break;
  }
  TDUMP_ASSIGN_OR_RETURN(const std::string word, ReadWord());
  for (const char* known : {"true", "false", "null", "NaN", "Infinity", "-Infinity"}) {
    if (word == known) return {};
  }
  double number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  const bool is_number = end == word.data() + word.size() && error != std::errc::invalid_argument;
  return is_number && !word.empty() ? Status::Ok() : Error(fmt::format("'{}' is no value", word));
}

Status JsonReader::ExpectEnd() {
  TDUMP_RETURN_IF_ERROR(SkipSpace());
  return reader_.left() == 0 ? Status::Ok() : Error("more text after the end");
}

}  // namespace tdump::compare::foreign
