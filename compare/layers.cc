#include "compare/layers.h"

#include <algorithm>

#include "core/parse_number.h"

namespace tdump::compare {
namespace {

struct Place {
  size_t begin = 0, end = 0;
  uint32_t number = 0;
};

std::optional<Place> Find(std::string_view path) {
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    if (const auto number = ParseNumber<uint32_t>(path.substr(begin, end - begin)))
      return Place{begin, end, *number};
    begin = end + 1;
  }
  return std::nullopt;
}

}  // namespace

std::optional<uint32_t> LayerOf(std::string_view path) {
  const auto place = Find(path);
  if (!place) return std::nullopt;
  return place->number;
}

std::string WithLayer(std::string_view path, uint64_t layer) {
  const auto place = Find(path);
  if (!place) return std::string(path);
  return std::string(path.substr(0, place->begin)) + std::to_string(layer) +
         std::string(path.substr(place->end));
}

}  // namespace tdump::compare
