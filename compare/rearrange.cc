#include "compare/rearrange.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "compare/text.h"

namespace tdump::compare {
namespace {

struct Atom {
  std::string name;
  uint64_t size = 0;
};

using Names = std::vector<std::vector<std::string>>;  // of each dimension, those fused in it
using Known = std::map<std::string, uint64_t>;

// Unnamed dimensions are numbered: they pair in order.
Names NamesOf(const Dims& dims) {
  Names names;
  size_t unnamed = 0;
  for (const TensorDim& dim : dims.dims) {
    names.emplace_back();
    for (const NamedDim& part : dim.parts)
      names.back().push_back(part.name == "_" ? fmt::format("_{}", unnamed++) : part.name);
  }
  return names;
}

bool Has(const Names& names, std::string_view name) {
  return std::any_of(names.begin(), names.end(), [&](const auto& dim) {
    return std::find(dim.begin(), dim.end(), name) != dim.end();
  });
}

std::vector<std::string> Sorted(const Names& names) {
  std::vector<std::string> sorted;
  for (const auto& dim : names) sorted.insert(sorted.end(), dim.begin(), dim.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

// `t` of one side is (b s) where the other has both.
void SplitTokens(Names* names, const Names& other) {
  if (Has(other, "t") || !Has(other, "b") || !Has(other, "s") || Has(*names, "b") ||
      Has(*names, "s"))
    return;
  for (auto& dim : *names) {
    if (dim.size() == 1 && dim.front() == "t") dim = {"b", "s"};
  }
}

Status Learn(const std::string& name, uint64_t size, Known* known) {
  const auto [at, is_new] = known->emplace(name, size);
  if (!is_new && at->second != size)
    return InvalidArgument(
        fmt::format("dimension {} is {} on one side and {} on the other", name, at->second, size));
  return {};
}

void LearnGiven(const Dims& dims, const Names& names, Known* known) {
  for (size_t i = 0; i < dims.dims.size(); ++i) {
    const auto& parts = dims.dims[i].parts;
    for (size_t k = 0; k < parts.size() && parts.size() == names[i].size(); ++k) {
      if (parts[k].size) known->emplace(names[i][k], *parts[k].size);
    }
  }
}

// Sizes of single names, then of the one that is open in a fused dimension.
Status LearnShape(const Names& names, const Shape& shape, Known* known) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].size() == 1) TDUMP_RETURN_IF_ERROR(Learn(names[i].front(), shape[i], known));
  }
  for (size_t i = 0; i < names.size(); ++i) {
    uint64_t product = 1;
    const std::string* open = nullptr;
    size_t opened = 0;
    for (const std::string& name : names[i]) {
      const auto found = known->find(name);
      if (found == known->end()) {
        open = &name;
        ++opened;
      } else if (__builtin_mul_overflow(product, found->second, &product)) {
        return InvalidArgument("the sizes are too large");
      }
    }
    if (opened > 1) continue;
    const bool divides = product == 0 ? shape[i] == 0 : shape[i] % product == 0;
    if (!divides || (opened == 0 && shape[i] != product))
      return InvalidArgument(
          fmt::format("a dimension of {} does not have parts of {}", shape[i], product));
    if (open != nullptr) (*known)[*open] = product == 0 ? 0 : shape[i] / product;
  }
  return {};
}

Result<std::vector<Atom>> AtomsOf(const Names& names, const Known& known) {
  std::vector<Atom> atoms;
  for (const auto& dim : names) {
    for (const std::string& name : dim) {
      const auto found = known.find(name);
      if (found == known.end())
        return InvalidArgument(
            fmt::format("the size of dimension {0} is needed, as in {0}=2", name));
      atoms.push_back({name, found->second});
    }
  }
  return atoms;
}

Status OtherNames(const Dims& from, const Dims& to) {
  return InvalidArgument(
      fmt::format("'{}' and '{}' name other dimensions", from.ToText(), to.ToText()));
}

// Where the dimensions of the target, taken apart, lie in the source. Precondition: each is there.
Rearrangement Placed(const std::vector<Atom>& source, const std::vector<Atom>& target,
                     const Names& target_names) {
  std::map<std::string, uint64_t> strides;
  uint64_t stride = 1;
  for (size_t i = source.size(); i-- > 0; stride *= source[i].size)
    strides[source[i].name] = stride;
  Rearrangement plan;
  plan.identity = true;
  for (size_t i = 0; i < target.size(); ++i) {
    plan.identity = plan.identity && source[i].name == target[i].name;
    plan.split_shape.push_back(target[i].size);
    plan.box.stride.push_back(strides.at(target[i].name));
  }
  plan.box.begin.assign(target.size(), 0);
  plan.box.size = plan.split_shape;
  size_t atom = 0;
  for (const auto& dim : target_names) {
    plan.shape.push_back(1);
    for (size_t i = 0; i < dim.size(); ++i) plan.shape.back() *= plan.split_shape[atom++];
  }
  return plan;
}

}  // namespace

Result<Rearrangement> PlanRearrange(const Shape& shape, const Dims& from, const Dims& to,
                                    const Shape& to_shape, const SizeTable& sizes) {
  TDUMP_ASSIGN_OR_RETURN(const Dims source_dims, from.Expanded(shape.size()));
  Dims target_dims = to;
  if (to.ellipsis || !to_shape.empty()) {
    const size_t rank = to_shape.empty() ? shape.size() : to_shape.size();
    TDUMP_ASSIGN_OR_RETURN(target_dims, to.Expanded(rank));
  }
  Names source_names = NamesOf(source_dims), target_names = NamesOf(target_dims);
  Known known;
  LearnGiven(source_dims, source_names, &known);
  LearnGiven(target_dims, target_names, &known);
  SplitTokens(&source_names, target_names);
  SplitTokens(&target_names, source_names);
  for (const auto& [name, table] : sizes) {
    if (table.size() == 1 && name != "_") known.emplace(name, table.front());
  }
  if (Sorted(source_names) != Sorted(target_names)) return OtherNames(from, to);
  // Twice: what one side tells may solve the other.
  for (int round = 0; round < 2; ++round) {
    TDUMP_RETURN_IF_ERROR(LearnShape(source_names, shape, &known));
    if (!to_shape.empty()) TDUMP_RETURN_IF_ERROR(LearnShape(target_names, to_shape, &known));
  }
  TDUMP_ASSIGN_OR_RETURN(const auto source, AtomsOf(source_names, known));
  TDUMP_ASSIGN_OR_RETURN(const auto target, AtomsOf(target_names, known));
  return Placed(source, target, target_names);
}

Result<Source> Rearrange(Source source, const Rearrangement& plan) {
  if (plan.identity) return Reshaped(std::move(source), plan.shape);
  TDUMP_ASSIGN_OR_RETURN(Source assembled,
                         AssembledTensor::Make(plan.split_shape, {source}, {plan.box}));
  return Reshaped(std::move(assembled), plan.shape);
}

uint64_t UnitOfSource(const Rearrangement& plan, uint64_t unit) {
  uint64_t source = plan.box.offset;
  for (size_t i = plan.split_shape.size(); i-- > 0; unit /= plan.split_shape[i])
    source += unit % plan.split_shape[i] * plan.box.stride[i];
  return source;
}

Result<Source> Crop(Source source, const Shape& size) {
  const Shape& shape = source->shape();
  if (shape == size) return source;
  if (shape.size() != size.size())
    return InvalidArgument(fmt::format("{} is no part of {}", ShapeText(size), ShapeText(shape)));
  Box box{.begin = Shape(size.size(), 0), .size = size, .stride = Shape(size.size())};
  uint64_t stride = 1;
  for (size_t i = size.size(); i-- > 0; stride *= shape[i]) {
    box.stride[i] = stride;
    if (size[i] > shape[i])
      return InvalidArgument(fmt::format("{} is no part of {}", ShapeText(size), ShapeText(shape)));
  }
  return AssembledTensor::Make(size, {std::move(source)}, {box});
}

}  // namespace tdump::compare
