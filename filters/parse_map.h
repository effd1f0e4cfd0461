// Reading a map of keys by their specifications (filters/schema.h). Private to filters.
#pragma once

#include <string>
#include <vector>

#include "filters/schema.h"

namespace tdump::filters {

// Keys of one level: of "output.dir" below "output", "dir".
template <class T>
std::vector<std::string> KeysBelow(std::span<const KeySpec<T>> keys, std::string_view prefix) {
  std::vector<std::string> names;
  for (const KeySpec<T>& key : keys) {
    if (!key.path.starts_with(prefix)) continue;
    const std::string_view rest = key.path.substr(prefix.size());
    std::string name(rest.substr(0, rest.find('.')));
    if (names.empty() || names.back() != name) names.push_back(std::move(name));
  }
  return names;
}

template <class T>
void ReadKey(Reader& reader, const Setting& s, const KeySpec<T>& key, T* out) {
  if (s.node.kind == YamlNode::Kind::kNull && s.node.text.empty()) {
    reader.Bad(s, "no value", std::string(key.type) + ", or no such key");
  } else if (key.read != nullptr) {
    key.read(reader, s, out);
  } else if ((s.node.is_text() ? s.node.text : FlowText(s.node)) != key.value) {
    reader.Later(s, std::string(key.value) + ", which is the default");
  }
}

// The map {key: value}, at the place of the value.
YamlPtr WrapKey(std::string key, YamlPtr value);
// "one of a, b, c".
std::string KeyList(const std::vector<std::string>& known);

// The key that is called otherwise or stands elsewhere than at `path`; "" for none.
std::string KeyMeantBy(std::string_view path);
// ", a key of the rules in 'capture'" of what stands outside of them; else "".
std::string PlaceOf(std::string_view path);

// Reads the entries of `s.node`, a map, into `out`. `prefix` is the section
// the map stands for: "" or "output.".
template <class T>
void ReadMap(Reader& reader, const Setting& s, std::span<const KeySpec<T>> keys, T* out,
             std::string_view prefix = "") {
  const std::vector<std::string> known = KeysBelow(keys, prefix);
  for (const YamlEntry& entry : s.node.entries) {
    const std::string path = std::string(prefix) + entry.key;
    const std::string shown = s.key.empty() ? entry.key : s.key + "." + entry.key;
    const Setting setting{shown, *entry.value};
    const KeySpec<T>* exact = nullptr;
    bool is_section = false;
    for (const KeySpec<T>& key : keys) {
      if (key.path == path) exact = &key;
      is_section |= key.path.size() > path.size() && key.path.starts_with(path) &&
                    key.path[path.size()] == '.';
    }
    if (exact != nullptr) {
      ReadKey(reader, setting, *exact, out);
    } else if (is_section && entry.value->is_map()) {
      ReadMap(reader, setting, keys, out, path + ".");
    } else if (is_section && path == "steps") {
      ReadMap(reader, {shown, *WrapKey("select", entry.value)}, keys, out, "steps.");
    } else if (is_section) {
      reader.Bad(setting, Describe(*entry.value), "a map of keys");
    } else {
      std::string near = KeyMeantBy(shown);
      if (near.empty()) near = Nearest(entry.key, known);
      if (!near.empty() && near.find('.') == std::string::npos) near.insert(0, prefix);
      reader.mistakes().Add(entry.at, "unknown key '" + Printable(shown) + "'" + PlaceOf(shown),
                            KeyList(known), near);
    }
  }
}

}  // namespace tdump::filters
