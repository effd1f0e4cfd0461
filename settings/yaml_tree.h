// A YAML document as a tree that keeps what yaml-cpp's own nodes lose: where each key stands, text
// as it was written (`no`, `1e3`, `~` stay text) and keys that occur twice. Input is hostile: size,
// depth and the work that aliases can cause are bounded, and no exception leaves.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "settings/mistakes.h"

namespace tdump::settings {

struct YamlNode;
using YamlPtr = std::shared_ptr<const YamlNode>;

struct YamlEntry {
  std::string key;
  Position at;
  YamlPtr value;
};

// Immutable once built. An alias is the very node of its anchor.
struct YamlNode {
  enum class Kind : unsigned char { kNull, kScalar, kSequence, kMap };
  Kind kind = Kind::kNull;
  std::string text;  // of a scalar; for null what was written: "~", "null" or ""
  Position at;
  std::vector<YamlPtr> items;
  std::vector<YamlEntry> entries;
  size_t weight = 1;  // nodes below and including this one, aliases expanded; long texts count more

  bool is_map() const { return kind == Kind::kMap; }
  bool is_sequence() const { return kind == Kind::kSequence; }
  bool is_text() const { return kind == Kind::kScalar || (kind == Kind::kNull && !text.empty()); }
};

inline constexpr size_t kMaxYamlBytes = 1 << 20;
inline constexpr int kMaxYamlDepth = 64;
inline constexpr size_t kMaxYamlWeight = 200'000;

// The only document of `text`; an empty text is an empty map. nullptr when there was a mistake.
YamlPtr ParseYaml(std::string_view text, Mistakes* mistakes);

// The node in one line of flow style, canonical: "{leaf: true, role: [input, output]}".
std::string FlowText(const YamlNode& node);

// `text` as a YAML scalar that reads back as the same text: plain where that is safe, else quoted.
// Invalid UTF-8 bytes become U+FFFD.
std::string YamlScalar(std::string_view text);

}  // namespace tdump::settings
