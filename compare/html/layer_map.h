// LayerMap: the worst difference found in each layer, on each rank and in each step. Memory: a byte
// for each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tdump::compare::html {

// From none to the worst; the page's script knows them by these numbers (assets/data.js).
// kBits: bits differ, and by how much is not known.
enum class Level : uint8_t { kNone, kNotJudged, kEqual, kWithin, kBits, kOutside, kSpecial };

// Not thread-safe.
class LayerMap {
 public:
  static constexpr size_t kMostLayers = 512;  // further ones share the last, "others"
  static constexpr size_t kMostColumns = 4096;

  // Returns the index of the layer.
  size_t Add(std::string_view path, int32_t rank, uint64_t step, Level level);

  const std::vector<std::string>& layers() const { return layers_; }  // as they appeared

  // Columns of the map: ranks or steps in order, several neighbours in one where there are more
  // than kMostColumns.
  struct Axis {
    std::vector<std::string> columns;  // the first of each
    std::vector<std::string> cells;    // a line a layer, a digit (Level) a column
  };
  Axis ByRank() const;
  Axis ByStep() const;

 private:
  // Levels by layer and, in order of appearance, by column.
  template <class Number>
  struct Levels {
    std::map<Number, size_t> columns;
    std::vector<std::vector<Level>> lines;

    void Add(size_t layer, Number column, Level level);
    Axis Sorted(size_t layers) const;
  };

  std::vector<std::string> layers_;
  std::map<std::string, size_t, std::less<>> index_;
  Levels<int32_t> ranks_;
  Levels<uint64_t> steps_;
};

}  // namespace tdump::compare::html
