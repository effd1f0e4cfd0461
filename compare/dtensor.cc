#include "compare/dtensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/parse_number.h"

namespace tdump::compare {
namespace {

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// "a, f(b, c), d" -> "a", "f(b, c)", "d".
std::vector<std::string_view> Items(std::string_view text) {
  std::vector<std::string_view> items;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && (text[i] == '(' || text[i] == '[')) ++depth;
    if (i < text.size() && (text[i] == ')' || text[i] == ']')) --depth;
    if (i < text.size() && (text[i] != ',' || depth > 0)) continue;
    const std::string_view item = Trim(text.substr(begin, i - begin));
    if (!item.empty()) items.push_back(item);
    begin = i + 1;
  }
  return items;
}

// Without the brackets around it.
std::string_view Inside(std::string_view text) {
  text = Trim(text);
  const bool wrapped = text.size() >= 2 && ((text.front() == '(' && text.back() == ')') ||
                                            (text.front() == '[' && text.back() == ']'));
  return wrapped ? text.substr(1, text.size() - 2) : text;
}

std::optional<uint32_t> NumberOf(std::string_view text) {
  if (const size_t equals = text.find('='); equals != std::string_view::npos)
    text = text.substr(equals + 1);
  return ParseNumber<uint32_t>(Trim(text));
}

struct Placement {
  enum class Kind { kReplicate, kShard, kPartial } kind = Kind::kReplicate;
  bool mean = false;  // of kPartial
  uint32_t dim = 0;
  uint32_t strided = 1;  // places on later axes that split the dimension first
};

Result<Placement> ParsePlacement(std::string_view text) {
  const size_t open = std::min(text.find('('), text.size());
  const std::string_view kind = text.substr(0, open);
  const std::vector<std::string_view> arguments = Items(Inside(text.substr(open)));
  Placement placement;
  if (kind == "Replicate" || kind == "R") return placement;
  if (kind == "Partial" || kind == "P") {
    placement.kind = Placement::Kind::kPartial;
    std::string_view reduction = arguments.empty() ? "sum" : arguments.front();
    reduction = reduction.substr(reduction.find('=') + 1);
    placement.mean = reduction == "avg" || reduction == "'avg'";
    if (placement.mean || reduction == "sum" || reduction == "'sum'") return placement;
    return Status(StatusCode::kUnsupported,
                  fmt::format("placement {}: only sums and means are put together", text));
  }
  const bool is_strided = kind == "_StridedShard" || kind == "_S";
  if (is_strided || kind == "Shard" || kind == "S") {
    placement.kind = Placement::Kind::kShard;
    const auto dim = arguments.empty() ? std::nullopt : NumberOf(arguments[0]);
    const auto strided = is_strided && arguments.size() > 1 ? NumberOf(arguments[1]) : 1;
    if (dim && strided && arguments.size() == (is_strided ? 2u : 1u)) {
      placement.dim = *dim;
      placement.strided = *strided;
      return placement;
    }
  }
  return InvalidArgument(fmt::format("placement '{}' is not understood", text));
}

// `order`: axes that split a dimension, outermost first, all of them later ones of the mesh.
Status InsertAxis(const Axis& axis, uint32_t strided, const std::vector<Axis>& mesh,
                  std::vector<AxisUse>* order) {
  uint64_t places = 1;
  size_t at = 0;
  for (; at < order->size() && places < strided; ++at) {
    const auto other = std::find_if(mesh.begin(), mesh.end(), [&](const Axis& candidate) {
      return candidate.name == (*order)[at].axis;
    });
    places *= other->size;
  }
  if (places != strided)
    return InvalidArgument(
        fmt::format("a strided shard over {} places on axis {}", strided, axis.name));
  order->insert(order->begin() + static_cast<ptrdiff_t>(at), AxisUse{.axis = axis.name});
  return {};
}

Result<std::vector<Axis>> ParseAxes(std::string_view text) {
  std::vector<Axis> axes;
  for (const std::string_view item : Items(text)) {
    const size_t equals = item.find('=');
    const auto size = NumberOf(item);
    if (!size || *size == 0)
      return InvalidArgument(fmt::format("mesh '{}': expected sizes of axes", text));
    axes.push_back({equals == std::string_view::npos ? fmt::format("mesh{}", axes.size())
                                                     : std::string(Trim(item.substr(0, equals))),
                    *size});
  }
  if (axes.empty()) return InvalidArgument(fmt::format("mesh '{}' has no axis", text));
  return axes;
}

// Every rank's place, from how far apart neighbours on each axis are. On an axis of one place there
// are none, and torch prints its stride as ().
Result<Topology> FromStrides(const std::vector<Axis>& axes, std::string_view text, int32_t world) {
  std::vector<uint32_t> strides;
  for (const std::string_view item : Items(text)) {
    const bool one = strides.size() < axes.size() && axes[strides.size()].size == 1;
    strides.push_back(one ? 1 : NumberOf(item).value_or(0));
  }
  if (strides.size() != axes.size() ||
      std::find(strides.begin(), strides.end(), 0u) != strides.end())
    return InvalidArgument(fmt::format("mesh: strides ({}) of {} axes", text, axes.size()));
  std::vector<std::string> places;
  for (uint32_t rank = 0; rank < static_cast<uint32_t>(std::max(0, world)); ++rank) {
    std::string& place = places.emplace_back();
    for (size_t i = 0; i < axes.size(); ++i)
      place += fmt::format("{}={} ", axes[i].name, rank / strides[i] % axes[i].size);
  }
  return Topology::OfRanks(places);
}

}  // namespace

Result<Mesh> ParseMesh(std::string_view text, int32_t world) {
  text = Trim(text);
  std::string_view shape = text;
  std::string spaced;
  std::string_view strides;
  if (text.starts_with("DeviceMesh(") && text.ends_with(")")) {
    const std::vector<std::string_view> arguments = Items(text.substr(11, text.size() - 12));
    shape = arguments.empty() ? "" : Inside(arguments.front());
    for (const std::string_view argument : arguments) {
      if (argument.starts_with("stride=")) strides = Inside(argument.substr(7));
    }
  } else {
    spaced = text;
    std::replace(spaced.begin(), spaced.end(), ' ', ',');
    shape = spaced;
  }
  Mesh mesh;
  TDUMP_ASSIGN_OR_RETURN(mesh.axes, ParseAxes(shape));
  if (!strides.empty()) {
    TDUMP_ASSIGN_OR_RETURN(mesh.topology, FromStrides(mesh.axes, strides, world));
    return mesh;
  }
  std::vector<Axis> fastest_first(mesh.axes.rbegin(), mesh.axes.rend());
  TDUMP_ASSIGN_OR_RETURN(mesh.topology, Topology::Regular(std::move(fastest_first), world));
  return mesh;
}

Result<Dims> DimsOfPlacements(std::string_view placements, const std::vector<Axis>& mesh,
                              const std::vector<int64_t>& global_shape) {
  const std::vector<std::string_view> items = Items(Inside(placements));
  if (items.size() != mesh.size())
    return InvalidArgument(fmt::format("{} placements for {} axes of the mesh: '{}'", items.size(),
                                       mesh.size(), placements));
  Dims dims;
  for (const int64_t size : global_shape) {
    if (size < 0) return InvalidArgument("a negative size");
    NamedDim unnamed{.name = "_", .size = static_cast<uint64_t>(size)};
    dims.dims.push_back({.parts = {std::move(unnamed)}});
  }
  // From the last axis to the first: each splits outside those behind it, unless it is strided.
  for (size_t i = items.size(); i-- > 0;) {
    TDUMP_ASSIGN_OR_RETURN(const Placement placement, ParsePlacement(items[i]));
    if (placement.kind == Placement::Kind::kPartial)
      dims.partial.insert(dims.partial.begin(), mesh[i].name);
    if (placement.mean) dims.mean.insert(dims.mean.begin(), mesh[i].name);
    if (placement.kind == Placement::Kind::kReplicate)
      dims.replicated.insert(dims.replicated.begin(), mesh[i].name);
    if (placement.kind != Placement::Kind::kShard) continue;
    if (placement.dim >= dims.dims.size())
      return InvalidArgument(
          fmt::format("placement '{}' of a tensor of {} dimensions", items[i], dims.dims.size()));
    TDUMP_RETURN_IF_ERROR(
        InsertAxis(mesh[i], placement.strided, mesh, &dims.dims[placement.dim].parts.front().axes));
  }
  return dims;
}

}  // namespace tdump::compare
