#include "filters/reader.h"

#include "core/parse_number.h"
#include "filters/units.h"

namespace tdump::filters {
namespace {

bool IsAnyOf(std::string_view word, std::initializer_list<std::string_view> words) {
  for (std::string_view candidate : words) {
    if (candidate == word) return true;
  }
  return false;
}

std::string Join(std::initializer_list<std::string_view> words) {
  std::string text;
  for (std::string_view word : words) text += (text.empty() ? "" : " | ") + std::string(word);
  return text;
}

}  // namespace

std::string Describe(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kMap:
      return node.entries.empty() ? "an empty map" : "a map";
    case YamlNode::Kind::kSequence:
      return node.items.empty() ? "an empty list" : "a list";
    case YamlNode::Kind::kNull:
      return node.text.empty() ? "no value" : "'" + node.text + "'";
    case YamlNode::Kind::kScalar:
      return "'" + Printable(node.text) + "'";
  }
  return "";
}

void Reader::Bad(const Setting& s, std::string_view what, std::string_view expected,
                 std::string_view near) {
  mistakes_->Add(s.node.at, s.key + ": " + std::string(what), expected, near);
}

void Reader::Later(const Setting& s, std::string_view expected) {
  Bad(s, Describe(s.node) + " is not in this version", expected);
}

bool Reader::Text(const Setting& s, std::string* out) {
  if (!s.node.is_text()) {
    Bad(s, Describe(s.node), "text");
    return false;
  }
  *out = s.node.text;
  return true;
}

int Reader::Word(const Setting& s, std::initializer_list<std::string_view> now,
                 std::initializer_list<std::string_view> later) {
  if (s.node.is_text()) {
    int index = 0;
    for (std::string_view word : now) {
      if (word == s.node.text) return index;
      ++index;
    }
    if (IsAnyOf(s.node.text, later)) {
      Later(s, Join(now));
      return -1;
    }
  }
  const std::string near = Nearest(s.node.text, {now.begin(), now.end()});
  Bad(s, Describe(s.node), Join(now), near);
  return -1;
}

void Reader::Bool(const Setting& s, bool* out) {
  const int word = Word(s, {"true", "false"});
  if (word >= 0) *out = word == 0;
}

void Reader::OnOff(const Setting& s, bool* out) {
  if (s.node.is_text() && IsAnyOf(s.node.text, {"true", "false"})) {
    *out = s.node.text == "true";
    return;
  }
  const int word = Word(s, {"on", "off"});
  if (word >= 0) *out = word == 0;
}

void Reader::AutoOnOff(const Setting& s, Tri* out) {
  if (s.node.is_text() && IsAnyOf(s.node.text, {"true", "false"})) {
    *out = s.node.text == "true" ? Tri::kOn : Tri::kOff;
    return;
  }
  const int word = Word(s, {"auto", "on", "off"});
  if (word >= 0) *out = static_cast<Tri>(word);
}

bool Reader::Count(const Setting& s, uint64_t* out) {
  const std::string& text = s.node.text;
  const auto number = ParseNumber<uint64_t>(text);
  const bool whole = s.node.is_text() && number && *number < (1ull << 62);
  if (whole)
    *out = *number;
  else
    Bad(s, Describe(s.node), "a whole number, 0 or more");
  return whole;
}

bool Reader::Bytes(const Setting& s, uint64_t* out) {
  const Result<uint64_t> bytes = ParseBytes(s.node.is_text() ? s.node.text : "?");
  if (bytes.ok())
    *out = *bytes;
  else
    Bad(s, Describe(s.node), "bytes such as 512MiB, 10GB or 4096");
  return bytes.ok();
}

bool Reader::Seconds(const Setting& s, double* out) {
  const Result<double> seconds = ParseSeconds(s.node.is_text() ? s.node.text : "?");
  if (seconds.ok())
    *out = *seconds;
  else
    Bad(s, Describe(s.node), "a time such as 30s, 500ms or 2m");
  return seconds.ok();
}

void Reader::Specification(const Setting& s, bool from_end, Spec* out) {
  std::string text = s.node.text;
  bool simple = s.node.is_text();
  if (s.node.is_sequence()) {
    simple = true;
    text = s.node.items.empty() ? "none" : "";
    for (const YamlPtr& item : s.node.items) {
      simple &= item->is_text();
      text += (text.empty() ? "" : ",") + item->text;
    }
  }
  if (!simple) {
    Bad(s, Describe(s.node), "numbers such as 0-9, [3, 7], 0-511:8, all or none");
    return;
  }
  const Result<Spec> spec = Spec::Parse(text);
  if (!spec.ok() && text.size() > 60) {
    Bad(s, "'" + Printable(text) + "'", "numbers such as 0-9, [3, 7], 0-511:8, all or none");
  } else if (!spec.ok()) {
    Bad(s, Printable(spec.status().message(), 400));
  } else if (!from_end && spec->has_negative()) {
    Bad(s, "'" + Printable(text) + "'", "no negative numbers");
  } else {
    *out = *spec;
  }
}

void Reader::Texts(const Setting& s, std::vector<std::string>* out) {
  std::vector<std::string> texts;
  if (s.node.is_text()) {
    texts.push_back(s.node.text);
  } else if (s.node.is_sequence()) {
    for (const YamlPtr& item : s.node.items) {
      std::string text;
      if (!Text({s.key, *item}, &text)) return;
      texts.push_back(std::move(text));
    }
  } else {
    Bad(s, Describe(s.node), "text or a list of texts");
    return;
  }
  *out = std::move(texts);
}

void Reader::Regexes(const Setting& s, std::vector<std::string>* out) {
  std::vector<std::string> patterns;
  Texts(s, &patterns);
  bool good = true;
  for (size_t i = 0; i < patterns.size(); ++i) {
    const Result<Regex> regex = Regex::Compile(patterns[i]);
    if (regex.ok()) continue;
    good = false;
    const YamlNode& at = s.node.is_sequence() ? *s.node.items[i] : s.node;
    Bad({s.key, at}, regex.status().message());
  }
  if (good) *out = std::move(patterns);
}

}  // namespace tdump::filters
