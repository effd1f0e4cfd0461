#include "compare/error_grid.h"

#include <algorithm>
#include <cmath>

#include "compare/pair_side.h"

namespace tdump::compare {
namespace {

constexpr uint64_t kTileElements = 4096;

ErrorGrid EmptyGrid(const io::Record& record, const std::vector<bool>& once) {
  std::vector<uint64_t> shape = ElementShape(record);
  for (size_t i = 0; i < once.size(); ++i) {
    if (once[i]) shape[i] = 1;
  }
  ErrorGrid grid;
  grid.dimensions = shape.size();
  grid.width = shape.empty() ? 1 : shape.back();
  grid.height = shape.size() < 2 ? 1 : shape[shape.size() - 2];
  grid.rows = std::min(kGridRows, grid.height);
  grid.columns = std::min(kGridColumns, grid.width);
  grid.max_abs.assign(grid.rows * grid.columns, 0.0);
  return grid;
}

// The block that index `i` of `size` lies in.
uint64_t BlockOf(uint64_t i, uint64_t size, uint64_t blocks) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(i + 1) * blocks - 1) / size);
}
uint64_t EndOfBlock(uint64_t block, uint64_t size, uint64_t blocks) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(block + 1) * size / blocks);
}

class GridFiller {
 public:
  explicit GridFiller(ErrorGrid* grid) : grid_(*grid) {
    if (grid_.width > kMostTabled) return;
    for (uint64_t column = 0; column < grid_.width; ++column)
      blocks_.push_back(BlockOf(column, grid_.width, grid_.columns));
  }

  // Errors of elements from `first` on, in row-major order.
  void Add(std::span<const double> errors, uint64_t first) {
    while (!errors.empty()) {
      const uint64_t column = first % grid_.width;
      const uint64_t row = first / grid_.width % grid_.height;
      const size_t count = std::min<uint64_t>(grid_.width - column, errors.size());
      AddPieceOfRow(errors.first(count), column,
                    &grid_.max_abs[BlockOf(row, grid_.height, grid_.rows) * grid_.columns]);
      errors = errors.subspan(count);
      first += count;
    }
  }

 private:
  static constexpr uint64_t kMostTabled = 4096;

  void AddPieceOfRow(std::span<const double> errors, uint64_t column, double* blocks) const {
    if (!blocks_.empty()) {
      for (size_t i = 0; i < errors.size(); ++i) {
        double& most = blocks[blocks_[column + i]];
        most = std::max(most, errors[i]);
      }
      return;
    }
    for (size_t i = 0; i < errors.size();) {
      const uint64_t block = BlockOf(column + i, grid_.width, grid_.columns);
      const size_t end =
          std::min<uint64_t>(errors.size(), EndOfBlock(block, grid_.width, grid_.columns) - column);
      for (; i < end; ++i) blocks[block] = std::max(blocks[block], errors[i]);
    }
  }

  ErrorGrid& grid_;
  std::vector<uint64_t> blocks_;  // of each column, where there are few
};

void ErrorsOf(std::span<const double> a, bool a_complex, std::span<const double> b, bool b_complex,
              std::span<double> errors) {
  if (!a_complex && !b_complex) {
    for (size_t i = 0; i < errors.size(); ++i) errors[i] = ErrorOf(a[i], b[i]);
    return;
  }
  const auto part = [](std::span<const double> numbers, bool complex, size_t i, size_t which) {
    if (complex) return numbers[2 * i + which];
    return which == 0 ? numbers[i] : 0.0;
  };
  for (size_t i = 0; i < errors.size(); ++i) {
    errors[i] = std::hypot(ErrorOf(part(a, a_complex, i, 0), part(b, b_complex, i, 0)),
                           ErrorOf(part(a, a_complex, i, 1), part(b, b_complex, i, 1)));
  }
}

}  // namespace

Result<ErrorGrid> MeasureErrorGrid(const Operand& a, const Operand& b) {
  const std::vector<bool> once = StoredOnceByBoth(*a.record, *b.record);
  ErrorGrid grid = EmptyGrid(*a.record, once);
  GridFiller filler(&grid);
  PairSide left(*a.record, a.read, once), right(*b.record, b.read, once);
  const NumberKind kind_a = left.format().kind, kind_b = right.format().kind;
  if (kind_a == NumberKind::kOpaque || kind_b == NumberKind::kOpaque)
    return Unsupported("values of this dtype are bits, not numbers");
  const uint64_t packed = std::max(left.elements_per_unit(), right.elements_per_unit());
  const uint64_t step = std::max<uint64_t>(1, kTileElements / packed) * packed;
  std::vector<double> errors;
  for (uint64_t first = 0; first < left.elements(); first += step) {
    const uint64_t count = std::min(step, left.elements() - first);
    TDUMP_RETURN_IF_ERROR(left.Load(first, count));
    TDUMP_RETURN_IF_ERROR(right.Load(first, count));
    errors.resize(count);
    ErrorsOf(left.Floats(0, count), kind_a == NumberKind::kComplex, right.Floats(0, count),
             kind_b == NumberKind::kComplex, errors);
    filler.Add(errors, first);
  }
  return grid;
}

}  // namespace tdump::compare
