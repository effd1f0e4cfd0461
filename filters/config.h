// Config: the YAML of tdump as a value. Parsed by filters/parse_config.h, which reports every
// mistake with file, line and column. Keys are documented once, in filters/schema.cc, from which
// docs/config.md is generated.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/kernels.h"
#include "core/plan.h"
#include "core/spec.h"
#include "core/types.h"

namespace tdump::filters {

enum class Tri : uint8_t { kAuto, kOn, kOff };

// Roles that exist in the backward phase only, whatever `phase` a rule has.
constexpr bool IsGradient(Role role) {
  return role == Role::kGradInput || role == Role::kGradOutput || role == Role::kParamGrad;
}

// Where the passes of a process go: each into a file of its own, behind one another into one, or
// packed once the run would have too many files.
enum class OutputLayout : uint8_t { kAuto, kPass, kPacked, kNode };
// When files are forced to the disk; see docs/config.md.
enum class SyncLevel : uint8_t { kNone, kPass, kStep, kFinalize };

// One rule of a filter set. A field left out (empty, all) does not
// restrict, except role, phase and level.
struct Rule {
  std::string use;   // name of another rule list; then nothing else is set
  std::string text;  // the rule as written, one line; for coverage and --explain
  int line = 0, column = 0;
  bool has_leaf = false, leaf = false;
  std::vector<std::string> name, arg, cls, op, kernel;  // regexes, search semantics
  std::vector<Role> role = {Role::kOutput};
  std::vector<Phase> phase = {Phase::kForward};
  std::vector<std::string> dtype;  // exact names
  Spec numel = Spec::All();
  Spec call = Spec::All();
  uint64_t max = 0;          // 0 = all
  std::string where;         // predicate, "" = none
  Spec steps = Spec::All();  // relative to the first selected step
  Spec ranks = Spec::All();
  Parts level = kLevelFull;
  uint64_t sample = 0;                  // elements, with kPartSample
  std::vector<SliceRange> slice;        // with kPartSlice
  std::optional<Compression> compress;  // else output.compress
  std::string dims;
};

struct FilterSet {
  std::string name;  // "" for the only one
  std::vector<Rule> rules;
};

// What happens to a tensor that finds no room in the arena.
enum class FullArena : uint8_t { kBlock = 0, kDrop = 1, kStats = 2 };

struct Config {
  std::string source = "defaults";  // file name, or where it came from
  // output
  std::string dir = "outputs/tdump_{job}";
  bool error_if_exists = false;
  uint64_t limit_bytes = 0;  // 0 = auto: 10 % of free space, at most 100 GiB
  bool ring = false;         // at the limit the oldest passes go
  OutputLayout layout = OutputLayout::kAuto;
  SyncLevel durability = SyncLevel::kNone;
  bool direct = true;  // large payloads go past the page cache where that is as fast
  Compression compress = Compression::kNone;
  int mode = 0700;
  // steps
  Spec steps;  // default 0-9, set by DefaultConfig()
  std::string boundary = "auto";
  int64_t first_step = -1;  // -1 = auto
  uint64_t skip_steps = 0;
  Spec micro = Spec::All();
  Spec ranks = Spec::All();
  int ranks_line = 0, ranks_column = 0;
  // topology
  std::vector<std::string> topology_order;        // axes, fastest first
  std::map<std::string, uint64_t> topology_size;  // empty: not given
  int topology_line = 0, topology_column = 0;
  // collect
  Tri modules = Tri::kAuto, taps = Tri::kAuto;
  bool aten = false, collectives = false;
  KernelMode kernels = KernelMode::kOff;
  Tri compiled = Tri::kAuto;                 // compile.taps
  bool private_cache = true;                 // compile.cache
  std::map<std::string, std::string> roots;  // class -> prefix
  std::vector<FilterSet> capture;
  std::map<std::string, std::vector<Rule>> filters;
  // memory
  uint64_t host_bytes = 0;  // 0 = auto
  uint64_t device_bytes = 256ull << 20;
  FullArena full_arena = FullArena::kBlock;
  uint64_t max_block_percent = 20;  // of a step's time; 100: no limit
  bool thread = true;
  bool signature = true;
  // breadcrumbs
  Spec crumb_ranks;       // default none
  std::string crumb_dir;  // "": auto
  bool drop_recomputed = false;
  bool strict = false;
  std::string log = "info";
  double drain_seconds = 30;
};

Rule DefaultRule();      // leaf modules, output, forward, full
Config DefaultConfig();  // steps 0-9, one filter set of the default rule

// Equal meaning: where a rule or a configuration was read from (text,
// line, column, source) is left out.
bool operator==(const Rule& a, const Rule& b);
bool operator==(const FilterSet& a, const FilterSet& b);
bool operator==(const Config& a, const Config& b);

}  // namespace tdump::filters
