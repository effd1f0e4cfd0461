#include "settings/dims.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tdump {
namespace {

std::string TextOf(const NumberList& list) {
  if (list.record.empty()) return fmt::format("{}", fmt::join(list.numbers, "+"));
  // A ':' may end the name where it stands alone.
  const bool plain = list.record.find_first_of(" \t,]:") == std::string::npos;
  return plain ? "@" + list.record : fmt::format("@\"{}\"", list.record);
}

std::string TextOf(const AxisUse& use) {
  std::string text = use.axis;
  if (use.split == Split::kZigzag) text += ":zigzag";
  if (use.split == Split::kStriped)
    text += use.block == 1 ? ":striped" : fmt::format(":striped={}", use.block);
  if (!use.sizes.empty()) text += ":sizes=" + TextOf(use.sizes);
  if (!use.packed.empty()) text += ":packed=" + TextOf(use.packed);
  return text;
}

std::string TextOf(const std::vector<AxisUse>& uses) {
  if (uses.empty()) return "";
  std::vector<std::string> texts;
  for (const AxisUse& use : uses) texts.push_back(TextOf(use));
  return fmt::format("[{}]", fmt::join(texts, ","));
}

std::string TextOf(const TensorDim& dim) {
  std::vector<std::string> parts;
  for (const NamedDim& part : dim.parts) {
    const std::string size = part.size ? fmt::format("={}", *part.size) : "";
    parts.push_back(part.name + size + TextOf(part.axes));
  }
  if (!dim.is_fused()) return parts.front();
  return fmt::format("({}){}", fmt::join(parts, " "), TextOf(dim.axes));
}

void AddRecords(const std::vector<AxisUse>& uses, std::set<std::string>* records) {
  for (const AxisUse& use : uses) {
    for (const NumberList* list : {&use.sizes, &use.packed}) {
      if (!list->record.empty()) records->insert(list->record);
    }
  }
}

void AddAxes(const std::vector<AxisUse>& uses, std::vector<std::string>* axes) {
  for (const AxisUse& use : uses) axes->push_back(use.axis);
}

bool Has(const std::vector<std::string>& axes, std::string_view axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

}  // namespace

std::string Dims::ToText() const {
  std::vector<std::string> items;
  for (size_t i = 0; i <= dims.size(); ++i) {
    if (ellipsis == i) items.push_back("...");
    if (i < dims.size()) items.push_back(TextOf(dims[i]));
  }
  std::vector<std::string> summed;
  for (const std::string& axis : partial) summed.push_back(axis + (IsMean(axis) ? ":mean" : ""));
  if (!summed.empty()) items.push_back(fmt::format("partial[{}]", fmt::join(summed, ",")));
  if (!replicated.empty())
    items.push_back(fmt::format("replicated[{}]", fmt::join(replicated, ",")));
  return fmt::format("{}", fmt::join(items, " "));
}

Result<Dims> Dims::Expanded(size_t rank) const {
  const bool fits = ellipsis ? dims.size() <= rank : dims.size() == rank;
  if (!fits)
    return InvalidArgument(fmt::format("dims '{}' name {}{} dimensions, the tensor has {}",
                                       ToText(), ellipsis ? "at least " : "", dims.size(), rank));
  Dims expanded = *this;
  if (!ellipsis) return expanded;
  const TensorDim unnamed{.parts = {NamedDim{.name = "_"}}};
  expanded.dims.insert(expanded.dims.begin() + static_cast<ptrdiff_t>(*ellipsis),
                       rank - dims.size(), unnamed);
  expanded.ellipsis.reset();
  return expanded;
}

std::vector<std::string> Dims::SplitAxes() const {
  std::vector<std::string> axes;
  for (const TensorDim& dim : dims) {
    AddAxes(dim.axes, &axes);
    for (const NamedDim& part : dim.parts) AddAxes(part.axes, &axes);
  }
  return axes;
}

bool Dims::Mentions(std::string_view axis) const {
  return Has(SplitAxes(), axis) || Has(partial, axis) || Has(replicated, axis);
}

std::set<std::string> Dims::Records() const {
  std::set<std::string> records;
  for (const TensorDim& dim : dims) {
    AddRecords(dim.axes, &records);
    for (const NamedDim& part : dim.parts) AddRecords(part.axes, &records);
  }
  return records;
}

bool Dims::IsMean(std::string_view axis) const { return Has(mean, axis); }

}  // namespace tdump
