#include "filters/config.h"

#include <tuple>

namespace tdump::filters {
namespace {

auto Meaning(const Rule& r) {
  return std::tie(r.use, r.has_leaf, r.leaf, r.name, r.arg, r.cls, r.op, r.kernel, r.role, r.phase,
                  r.dtype, r.numel, r.call, r.max, r.where, r.steps, r.ranks, r.level, r.sample,
                  r.slice, r.compress, r.dims);
}

auto Meaning(const Config& c) {
  return std::tie(c.dir, c.error_if_exists, c.limit_bytes, c.ring, c.layout, c.durability, c.direct,
                  c.compress, c.mode, c.steps, c.boundary, c.first_step, c.skip_steps, c.micro,
                  c.ranks, c.topology_order, c.topology_size, c.modules, c.taps, c.aten,
                  c.collectives, c.kernels, c.compiled, c.private_cache, c.roots, c.capture,
                  c.filters, c.host_bytes, c.device_bytes, c.full_arena, c.max_block_percent,
                  c.thread, c.signature, c.crumb_ranks, c.crumb_dir, c.drop_recomputed, c.strict,
                  c.log, c.drain_seconds);
}

}  // namespace

bool operator==(const Rule& a, const Rule& b) { return Meaning(a) == Meaning(b); }

bool operator==(const FilterSet& a, const FilterSet& b) {
  return a.name == b.name && a.rules == b.rules;
}

bool operator==(const Config& a, const Config& b) { return Meaning(a) == Meaning(b); }

Rule DefaultRule() {
  Rule rule;
  rule.text = "{leaf: true}";
  rule.has_leaf = rule.leaf = true;
  return rule;
}

Config DefaultConfig() {
  Config config;
  config.steps = Spec::Parse("0-9").value();
  config.capture = {FilterSet{"", {DefaultRule()}}};
  return config;
}

}  // namespace tdump::filters
