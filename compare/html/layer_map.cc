#include "compare/html/layer_map.h"

#include <algorithm>

#include "compare/report_lines.h"
#include "compare/text.h"

namespace tdump::compare::html {
namespace {

std::string ColumnName(int32_t rank) { return RankName(rank); }
std::string ColumnName(uint64_t step) { return std::to_string(step); }

}  // namespace

template <class Number>
void LayerMap::Levels<Number>::Add(size_t layer, Number number, Level level) {
  const size_t column = columns.try_emplace(number, columns.size()).first->second;
  if (layer >= lines.size()) lines.resize(layer + 1);
  std::vector<Level>& line = lines[layer];
  if (column >= line.size()) line.resize(columns.size(), Level::kNone);
  line[column] = std::max(line[column], level);
}

template <class Number>
LayerMap::Axis LayerMap::Levels<Number>::Sorted(size_t layers) const {
  const size_t join = (columns.size() + kMostColumns - 1) / kMostColumns;
  Axis axis;
  axis.cells.resize(layers);
  size_t at = 0;
  for (const auto& [number, column] : columns) {
    const bool first = at++ % join == 0;
    if (first) axis.columns.push_back(ColumnName(number));
    for (size_t layer = 0; layer < layers; ++layer) {
      const bool known = layer < lines.size() && column < lines[layer].size();
      const char digit =
          static_cast<char>('0' + static_cast<int>(known ? lines[layer][column] : Level::kNone));
      std::string& cells = axis.cells[layer];
      if (first)
        cells += digit;
      else
        cells.back() = std::max(cells.back(), digit);
    }
  }
  return axis;
}

size_t LayerMap::Add(std::string_view path, int32_t rank, uint64_t step, Level level) {
  std::string name = LayerName(path);
  auto found = index_.find(name);
  if (found == index_.end()) {
    if (layers_.size() >= kMostLayers) name = "others";
    found = index_.try_emplace(name, layers_.size()).first;
    if (found->second == layers_.size()) layers_.push_back(name);
  }
  ranks_.Add(found->second, rank, level);
  steps_.Add(found->second, step, level);
  return found->second;
}

LayerMap::Axis LayerMap::ByRank() const { return ranks_.Sorted(layers_.size()); }
LayerMap::Axis LayerMap::ByStep() const { return steps_.Sorted(layers_.size()); }

}  // namespace tdump::compare::html
