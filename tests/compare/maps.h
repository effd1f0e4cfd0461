// Maps read and bound, for tests. Whoever takes ShippedMap has TDUMP_SOURCE_DIR.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "compare/name_map.h"

namespace tdump::compare {

inline NameMap Parsed(const std::string& yaml, const std::string& name = "m.yaml") {
  auto map = NameMap::Parse(yaml, name);
  if (!map.ok()) throw std::runtime_error(map.status().message());
  return std::move(*map);
}

inline std::string ShippedText(const std::string& name) {
  std::ifstream file(TDUMP_SOURCE_DIR "/configs/maps/" + name + ".yaml");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}
inline NameMap Shipped(const std::string& name) { return Parsed(ShippedText(name), name); }

inline BoundMap Bound(const NameMap& map, const std::vector<NamedTensor>& a,
                      const std::vector<NamedTensor>& b) {
  auto bound = BoundMap::Bind(map, a, b);
  if (!bound.ok()) throw std::runtime_error(bound.status().message());
  return std::move(*bound);
}

// A bare output and the first of a tuple are one name.
inline std::string NameOf(Key key) {
  if (key.role == Role::kOutput && key.arg == "0") key.arg = "";
  return ToText(key);
}

// Every mapped part by name, without what is skipped.
inline std::map<std::string, MappedPart> MapAll(const MapSide& side,
                                                const std::vector<NamedTensor>& all) {
  std::map<std::string, MappedPart> parts;
  for (const NamedTensor& tensor : all) {
    const auto mapped = side.Map(tensor);
    if (!mapped.ok()) {
      ADD_FAILURE() << ToText(tensor.key) << ": " << mapped.status().message();
      continue;
    }
    for (const MappedPart& part : *mapped) {
      if (part.skip) continue;
      const bool added = parts.emplace(NameOf(part.key), part).second;
      EXPECT_TRUE(added) << "two tensors under " << NameOf(part.key);
    }
  }
  return parts;
}

}  // namespace tdump::compare
