// Names of modules with their numbers left open: "decoder.layers.#.mlp", one entry for all layers.
// Private to compare's maps.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "compare/name_map.h"

namespace tdump::compare {

struct ModuleTemplate {
  std::string text;                     // components that are numbers as '#'
  std::string cls;                      // of the first module seen
  std::map<std::string, Shape> params;  // by name, of the first module seen
  Shape output, input;                  // the first ones; empty where none was captured
  std::set<uint64_t> numbers;           // that stand for the first '#'
  size_t order = 0;                     // of first being seen
  size_t holes() const;
};

// In order of their being seen; modules only.
std::vector<ModuleTemplate> TemplatesOf(std::span<const NamedTensor> tensors);

// A regex of the whole template, a group for each number: "decoder\.layers\.(\d+)\.mlp".
std::string PatternOf(const std::string& text);
// The name it becomes: "model.layers.$1.mlp". Precondition: no more numbers than the pattern.
std::string ReplacementOf(const std::string& text);

// `x` is `y`, or what each of some ranks has of it: of shapes, along one dimension.
bool IsShare(uint64_t x, uint64_t y);
bool AreShares(const Shape& x, const Shape& y);

// "linear", "norm", "embedding", ...: what a class does, whatever framework it is of.
std::string KindOfClass(std::string_view cls);

}  // namespace tdump::compare
