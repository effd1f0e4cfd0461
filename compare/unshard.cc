#include "compare/unshard.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "compare/element.h"
#include "compare/shard_groups.h"
#include "compare/split.h"
#include "compare/split_dims.h"
#include "compare/text.h"

namespace tdump::compare {
namespace {

constexpr size_t kNone = ~size_t{0};

// Axes of one kind in a plan that have more than one place: "tp", "cp (zig-zag)".
std::string AxesText(const std::vector<AxisUse>& uses, const std::vector<UsedAxis>& used) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < uses.size(); ++i) {
    if (used[i].size == 1) continue;
    const std::string kind = uses[i].split == Split::kZigzag    ? " (zig-zag)"
                             : uses[i].split == Split::kStriped ? " (striped)"
                                                                : "";
    texts.push_back(uses[i].axis + kind);
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

class Planner {
 public:
  Planner(const std::vector<Shard>& shards, const Dims& dims, const Topology& topology,
          const SizeTable& sizes)
      : shards_(shards), topology_(topology), sizes_(sizes) {
    plan_.dims = dims;
  }

  Result<UnshardPlan> Run() {
    TDUMP_RETURN_IF_ERROR(CheckShards());
    const size_t rank = shards_.front().shape.size();
    TDUMP_ASSIGN_OR_RETURN(plan_.dims, plan_.dims.Expanded(rank));
    TDUMP_ASSIGN_OR_RETURN(split_, SplitDimsOf(plan_.dims, rank, sizes_));
    TDUMP_RETURN_IF_ERROR(Group());
    TDUMP_RETURN_IF_ERROR(TakePartials());
    TDUMP_RETURN_IF_ERROR(TakeLocalSizes());
    pieces_.resize(split_.size());
    for (size_t i = 0; i < split_.size(); ++i) TDUMP_RETURN_IF_ERROR(SplitDimension(i));
    FuseShape();
    TDUMP_RETURN_IF_ERROR(MakeBoxes());
    Describe();
    return std::move(plan_);
  }

 private:
  Status CheckShards() {
    if (shards_.empty()) return InvalidArgument("no rank holds it");
    plan_.dtype = shards_.front().dtype;
    for (const Shard& shard : shards_) {
      const Shard& first = shards_.front();
      if (shard.dtype != first.dtype)
        return InvalidArgument(fmt::format("rank {} holds {}, rank {} {}", first.rank,
                                           first.dtype.view(), shard.rank, shard.dtype.view()));
      if (shard.shape.size() != first.shape.size())
        return InvalidArgument(fmt::format("rank {} holds {}, rank {} {}", first.rank,
                                           ShapeText(first.shape), shard.rank,
                                           ShapeText(shard.shape)));
    }
    return {};
  }

  // Places: on the axes of the first dimension, of the second, ..., on those of partial sums.
  Status Group() {
    std::vector<std::string> names;
    for (const SplitDim& dim : split_) {
      first_axis_.push_back(names.size());
      for (const AxisUse& use : dim.axes) names.push_back(use.axis);
    }
    first_axis_.push_back(names.size());
    names.insert(names.end(), plan_.dims.partial.begin(), plan_.dims.partial.end());
    TDUMP_ASSIGN_OR_RETURN(used_, FindAxes(names, topology_));
    std::vector<int32_t> ranks;
    for (const Shard& shard : shards_) ranks.push_back(shard.rank);
    TDUMP_ASSIGN_OR_RETURN(groups_, GroupShards(ranks, used_, plan_.dims, topology_));
    for (size_t i = 0; i <= split_.size(); ++i) {
      const size_t end = i < split_.size() ? first_axis_[i + 1] : used_.size();
      uint64_t places = 1;
      for (size_t k = first_axis_[i]; k < end; ++k) places *= used_[k].size;
      places_.push_back(places);
    }
    for (const std::vector<size_t>& group : groups_.groups) {
      if (group.size() > 1)
        plan_.replicas.push_back({group.front(), {group.begin() + 1, group.end()}});
      for (const size_t copy : group) {
        if (shards_[copy].shape != shards_[group.front()].shape)
          return InvalidArgument(
              fmt::format("rank {} holds {}, rank {} {}, where the dims say that they hold copies",
                          shards_[group.front()].rank, ShapeText(shards_[group.front()].shape),
                          shards_[copy].rank, ShapeText(shards_[copy].shape)));
      }
    }
    return {};
  }

  Status TakePartials() {
    for (size_t i = first_axis_.back(); i < used_.size(); ++i) {
      plan_.partial_places.push_back(used_[i].size);
      if (plan_.dims.IsMean(used_[i].name)) plan_.divisor *= used_[i].size;
    }
    if (plan_.divisor > 1 && FormatOf(plan_.dtype).kind == NumberKind::kInteger)
      return InvalidArgument(
          fmt::format("the ranks hold {}, of which no mean is taken", plan_.dtype.view()));
    return {};
  }

  // The place of a group on the axes of a dimension (or of partial sums, behind the last).
  uint64_t PlaceOn(size_t dim, size_t group) const {
    for (size_t i = places_.size() - 1; i > dim; --i) group /= places_[i];
    return group % places_[dim];
  }
  const Shard& ShardOfGroup(size_t group) const { return shards_[groups_.groups[group].front()]; }

  Status TakeLocalSizes() {
    const std::vector<uint64_t> places(places_.begin(), places_.end() - 1);
    for (size_t group = 0; group < groups_.groups.size(); ++group) {
      auto local = LocalSizes(split_, ShardOfGroup(group).shape, places);
      if (!local.ok()) return std::move(local).status();
      local_.push_back(std::move(*local));
    }
    return {};
  }

  // What ranks hold of a dimension depends on their place on its own axes only.
  Status SplitDimension(size_t dim) {
    std::vector<size_t> holder(places_[dim], kNone);
    std::vector<uint64_t> held(places_[dim]);
    for (size_t group = 0; group < groups_.groups.size(); ++group) {
      const uint64_t place = PlaceOn(dim, group);
      if (holder[place] == kNone) {
        holder[place] = group;
        held[place] = local_[group][dim];
      } else if (held[place] != local_[group][dim]) {
        return InvalidArgument(fmt::format(
            "rank {} holds {} units of dimension {}, rank {} {}, where the dims say as many",
            ShardOfGroup(holder[place]).rank, held[place], split_[dim].name,
            ShardOfGroup(group).rank, local_[group][dim]));
      }
    }
    std::vector<uint32_t> axis_sizes;
    for (size_t i = first_axis_[dim]; i < first_axis_[dim + 1]; ++i)
      axis_sizes.push_back(used_[i].size);
    auto pieces = SplitPieces(split_[dim].axes, axis_sizes, held, sizes_);
    if (!pieces.ok())
      return std::move(pieces).status().Annotate(fmt::format("dimension {}", split_[dim].name));
    pieces_[dim] = std::move(*pieces);
    return Fit(dim);
  }

  // To the size that the dims give: padding is dropped.
  Status Fit(size_t dim) {
    uint64_t whole = 0;
    for (const Piece& piece : pieces_[dim]) whole += piece.size;
    const uint64_t size = split_[dim].size.value_or(whole);
    const bool is_part = std::count_if(split_.begin(), split_.end(), [&](const SplitDim& other) {
                           return other.dim == split_[dim].dim;
                         }) > 1;
    if (whole < size || (is_part && whole != size))
      return InvalidArgument(fmt::format("dimension {} should have {} units, the shards hold {}",
                                         split_[dim].name, size, whole));
    plan_.split_shape.push_back(size);
    if (whole == size) return {};
    dropped_.push_back(
        fmt::format("{} units of padding dropped from {}", whole - size, split_[dim].name));
    std::vector<Piece> kept;
    uint64_t rest = size;
    for (Piece piece : pieces_[dim]) {
      piece.size = std::min(piece.size, rest);
      rest -= piece.size;
      if (piece.size > 0) kept.push_back(piece);
    }
    pieces_[dim] = std::move(kept);
    return {};
  }

  void FuseShape() {
    plan_.shape.assign(shards_.front().shape.size(), 1);
    for (size_t i = 0; i < split_.size(); ++i) plan_.shape[split_[i].dim] *= plan_.split_shape[i];
  }

  Status MakeBoxes() {
    size_t boxes = 1;
    for (const std::vector<Piece>& pieces : pieces_) {
      if (pieces.size() > kMaxBoxes / std::max<size_t>(1, boxes))
        return Status(StatusCode::kUnsupported, "the ranks share it in too many pieces");
      boxes *= pieces.size();
    }
    const uint64_t summands = places_.back();
    source_of_group_.assign(groups_.groups.size(), kNone);
    for (uint64_t summand = 0; summand < summands; ++summand) {
      std::vector<Box>& all = plan_.summands.emplace_back();
      for (size_t i = 0; i < boxes; ++i) all.push_back(MakeBox(i, summand));
    }
    if (plan_.shards.empty()) plan_.shards.push_back(groups_.groups.front().front());
    if (summands == 1 && boxes == 1 && dropped_.empty()) {
      const Box& box = plan_.summands.front().front();
      plan_.is_one_shard = box.size == plan_.split_shape && box.offset == 0 &&
                           shards_[plan_.shards.front()].shape == plan_.shape;
    } else if (boxes == 0) {
      plan_.is_one_shard = shards_[plan_.shards.front()].shape == plan_.shape && summands == 1;
    }
    return {};
  }

  // The `index`-th combination of pieces.
  Box MakeBox(size_t index, uint64_t summand) {
    const size_t rank = split_.size();
    Box box{.begin = Shape(rank), .size = Shape(rank), .stride = Shape(rank)};
    std::vector<const Piece*> pieces(rank);
    for (size_t i = rank; i-- > 0; index /= pieces_[i].size()) {
      pieces[i] = &pieces_[i][index % pieces_[i].size()];
      box.begin[i] = static_cast<uint64_t>(StartsOf(i)[index % pieces_[i].size()]);
    }
    size_t group = 0;
    for (size_t i = 0; i < rank; ++i) group = group * places_[i] + pieces[i]->leaf;
    group = group * places_.back() + summand;
    uint64_t stride = 1;
    for (size_t i = rank; i-- > 0;) {
      box.size[i] = pieces[i]->size;
      box.stride[i] = stride;
      box.offset += pieces[i]->offset * stride;
      stride *= local_[group][i];
    }
    box.source = SourceOfGroup(group);
    return box;
  }

  size_t SourceOfGroup(size_t group) {
    if (source_of_group_[group] == kNone) {
      source_of_group_[group] = plan_.shards.size();
      plan_.shards.push_back(groups_.groups[group].front());
    }
    return source_of_group_[group];
  }

  // Where the pieces of a dimension begin in the whole.
  const std::vector<uint64_t>& StartsOf(size_t dim) {
    starts_.resize(split_.size());
    std::vector<uint64_t>& starts = starts_[dim];
    if (starts.size() != pieces_[dim].size()) {
      uint64_t at = 0;
      for (const Piece& piece : pieces_[dim]) {
        starts.push_back(at);
        at += piece.size;
      }
    }
    return starts;
  }

  // "sum of 4 partials on tp"; "" where these axes have one place.
  std::string PartialsText(bool mean) const {
    std::vector<std::string> axes;
    for (const std::string& axis : plan_.dims.partial) {
      if (plan_.dims.IsMean(axis) == mean) axes.push_back(axis);
    }
    const uint64_t places = mean ? plan_.divisor : places_.back() / plan_.divisor;
    if (places == 1) return "";
    return fmt::format("{} of {} partials on {}", mean ? "mean" : "sum", places,
                       fmt::join(axes, ", "));
  }

  void Describe() {
    std::vector<std::string> concatenated, texts;
    for (size_t i = 0; i < split_.size(); ++i) {
      const std::vector<UsedAxis> used(used_.begin() + static_cast<ptrdiff_t>(first_axis_[i]),
                                       used_.begin() + static_cast<ptrdiff_t>(first_axis_[i + 1]));
      const std::string text = AxesText(split_[i].axes, used);
      if (!text.empty()) concatenated.push_back(text);
    }
    if (!concatenated.empty())
      texts.push_back(fmt::format("concatenated on {}", fmt::join(concatenated, ", ")));
    for (const bool mean : {true, false}) {
      if (std::string text = PartialsText(mean); !text.empty()) texts.push_back(std::move(text));
    }
    if (groups_.copies > 1) texts.push_back(fmt::format("replicated on {} ranks", groups_.copies));
    texts.insert(texts.end(), dropped_.begin(), dropped_.end());
    if (texts.empty()) texts.push_back(fmt::format("on rank {}", shards_.front().rank));
    plan_.how = fmt::format("{}", fmt::join(texts, ", "));
  }

  const std::vector<Shard>& shards_;
  const Topology& topology_;
  const SizeTable& sizes_;
  UnshardPlan plan_;
  std::vector<SplitDim> split_;
  std::vector<UsedAxis> used_;
  // Of each split dimension, then of partial sums: the first of its axes in used_, their places.
  std::vector<size_t> first_axis_;
  std::vector<uint64_t> places_;
  ShardGroups groups_;
  std::vector<Shape> local_;  // of each group: sizes of the split dimensions
  std::vector<std::vector<Piece>> pieces_;
  std::vector<std::vector<uint64_t>> starts_;
  std::vector<size_t> source_of_group_;
  std::vector<std::string> dropped_;
};

Topology Named(const Topology& topology, const Dims& dims) {
  std::set<std::string> axes(dims.partial.begin(), dims.partial.end());
  axes.insert(dims.replicated.begin(), dims.replicated.end());
  for (const std::string& axis : dims.SplitAxes()) axes.insert(axis);
  return axes.size() == 1 ? topology.WithName(*axes.begin()) : topology;
}

}  // namespace

Shard ShardOf(int32_t rank, const io::Record& record) {
  return {rank, record.dtype, Shape(record.sizes.begin(), record.sizes.end())};
}

Result<UnshardPlan> PlanUnshard(const std::vector<Shard>& shards, const Dims& dims,
                                const Topology& topology, const SizeTable& sizes) {
  if (topology.is_unknown()) return Planner(shards, dims, Named(topology, dims), sizes).Run();
  return Planner(shards, dims, topology, sizes).Run();
}

Result<Source> OpenPlan(const UnshardPlan& plan, const OpenShard& open) {
  std::vector<Source> sources;
  for (const size_t shard : plan.shards) {
    TDUMP_ASSIGN_OR_RETURN(Source source, open(shard));
    sources.push_back(std::move(source));
  }
  if (plan.is_one_shard) return sources.front();
  std::vector<Source> summands;
  for (const std::vector<Box>& boxes : plan.summands) {
    TDUMP_ASSIGN_OR_RETURN(Source summand, AssembledTensor::Make(plan.split_shape, sources, boxes));
    summands.push_back(Reshaped(std::move(summand), plan.shape));
  }
  if (summands.size() == 1) return summands.front();
  return SummedTensor::Make(std::move(summands), plan.divisor);
}

std::vector<size_t> ShardsAt(const UnshardPlan& plan, uint64_t unit) {
  if (plan.is_one_shard) return {plan.shards.front()};
  Shape index(plan.split_shape.size());
  IndexOf(unit, plan.split_shape, &index);
  std::vector<size_t> shards;
  for (const std::vector<Box>& boxes : plan.summands) {
    const auto holds = [&](const Box& box) {
      for (size_t i = 0; i < index.size(); ++i) {
        if (index[i] < box.begin[i] || index[i] - box.begin[i] >= box.size[i]) return false;
      }
      return true;
    };
    const auto box = std::find_if(boxes.begin(), boxes.end(), holds);
    if (box != boxes.end()) shards.push_back(plan.shards[box->source]);
  }
  return shards;
}

}  // namespace tdump::compare
