#include "filters/topology.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace tdump::filters {
namespace {

constexpr uint64_t kMaxRanks = 1 << 30;

bool IsAxisName(std::string_view text) {
  const auto is_letter = [](char ch) {
    return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || ch == '_';
  };
  return !text.empty() && is_letter(text.front()) &&
         std::all_of(text.begin(), text.end(),
                     [&](char ch) { return is_letter(ch) || (ch >= '0' && ch <= '9'); });
}

bool Has(const std::vector<std::string>& axes, const std::string& axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

uint64_t Ranks(const Config& config) {
  uint64_t ranks = 1;
  for (const auto& [axis, size] : config.topology_size) ranks = std::min(ranks * size, kMaxRanks);
  return ranks;
}

// The axes fastest first; one alone needs no order.
std::vector<std::string> Order(const Config& config) {
  if (config.topology_order.empty() && config.topology_size.size() == 1)
    return {config.topology_size.begin()->first};
  return config.topology_order;
}

}  // namespace

void ReadTopologyOrder(Reader& r, const Setting& s, Config* c) {
  std::vector<std::string> axes;
  if (s.node.text != "auto") {
    if (!s.node.is_sequence() || s.node.items.empty()) {
      r.Bad(s, Describe(s.node), "auto, or the axes, fastest first, such as [tp, pp, dp]");
      return;
    }
    r.Texts(s, &axes);
    for (size_t i = 0; i < axes.size(); ++i) {
      if (!IsAxisName(axes[i]))
        r.Bad(s, "'" + Printable(axes[i]) + "' names no axis", "letters, digits and _");
      else if (std::find(axes.begin(), axes.begin() + static_cast<ptrdiff_t>(i), axes[i]) !=
               axes.begin() + static_cast<ptrdiff_t>(i))
        r.Bad(s, "'" + axes[i] + "' a second time");
    }
  }
  c->topology_order = std::move(axes);
  c->topology_line = s.node.at.line;
  c->topology_column = s.node.at.column;
}

std::string PrintTopologyOrder(const Config& c) {
  if (c.topology_order.empty()) return "auto";
  std::string text;
  for (const std::string& axis : c.topology_order) text += (text.empty() ? "" : ", ") + axis;
  return "[" + text + "]";
}

void ReadTopologySize(Reader& r, const Setting& s, Config* c) {
  std::map<std::string, uint64_t> sizes;
  if (s.node.text != "auto") {
    if (!s.node.is_map() || s.node.entries.empty()) {
      r.Bad(s, Describe(s.node), "auto, or sizes of the axes such as {tp: 8, dp: 2}");
      return;
    }
    for (const YamlEntry& entry : s.node.entries) {
      const Setting size{s.key + "." + entry.key, *entry.value};
      uint64_t& number = sizes[entry.key];
      if (!IsAxisName(entry.key))
        r.Bad(size, "'" + Printable(entry.key) + "' names no axis", "letters, digits and _");
      else if (r.Count(size, &number) && (number == 0 || number > kMaxRanks))
        r.Bad(size, Describe(*entry.value), "a number from 1 on");
    }
  }
  c->topology_size = std::move(sizes);
  c->topology_line = s.node.at.line;
  c->topology_column = s.node.at.column;
}

std::string PrintTopologySize(const Config& c) {
  if (c.topology_size.empty()) return "auto";
  std::string text;
  for (const auto& [axis, size] : c.topology_size)
    text += (text.empty() ? "" : ", ") + axis + ": " + std::to_string(size);
  return "{" + text + "}";
}

std::string TopologyMisfit(const Config& config, int world) {
  if (config.topology_size.empty() || world <= 0 || Ranks(config) == static_cast<uint64_t>(world))
    return "";
  return "topology: the sizes make " + std::to_string(Ranks(config)) + " rank" +
         (Ranks(config) == 1 ? "" : "s") + ", the job has " + std::to_string(world);
}

void CheckTopology(const Config& config, int world, Mistakes* mistakes) {
  const Position at{config.topology_line, config.topology_column};
  if (config.topology_order.empty() && config.topology_size.empty()) return;
  const std::vector<std::string> order = Order(config);
  for (const auto& [axis, size] : config.topology_size) {
    if (!Has(order, axis))
      mistakes->Add(at, "topology: the order does not name the axis " + axis,
                    "every axis of 'size' in 'order', fastest first");
  }
  for (const std::string& axis : order) {
    if (!config.topology_size.contains(axis))
      mistakes->Add(at, "topology: the axis " + axis + " has no size",
                    "every axis of 'order' in 'size'");
  }
  if (const std::string misfit = TopologyMisfit(config, world); !misfit.empty())
    mistakes->Add(at, misfit, "sizes whose product is the number of ranks");
}

std::string CoordinatesOf(const Config& config, int rank, int world) {
  if (config.topology_size.empty() || Ranks(config) != static_cast<uint64_t>(world)) return "";
  std::string text;
  uint64_t rest = static_cast<uint64_t>(std::max(0, rank));
  for (const std::string& axis : Order(config)) {
    const auto size = config.topology_size.find(axis);
    if (size == config.topology_size.end() || size->second == 0) return "";
    text += (text.empty() ? "" : " ") + axis + "=" + std::to_string(rest % size->second);
    rest /= size->second;
  }
  return text;
}

}  // namespace tdump::filters
