// DamageList: what could not be read of two runs, each place once. A file that is cut short or
// missing is one place: that reading it stops there is no other.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compare/diff.h"
#include "compare/pairing.h"
#include "compare/run_side.h"
#include "core/status.h"
#include "io/records.h"

namespace tdump::compare {

// Not thread-safe. Both outlive it.
class DamageList {
 public:
  DamageList(const PairOptions* options, DiffReport* report) : options_(options), report_(report) {}

  void Add(io::Damage damage);
  // Nothing where it is none.
  void Add(const Status& status);
  // Of manifests, and of passes that they list. Before the passes are read.
  void AddOf(const RunSide& side);

 private:
  void AddListed(const std::vector<io::Damage>& all);

  const PairOptions* options_;
  DiffReport* report_;
  std::set<std::pair<std::string, std::string>> seen_;  // file, what
  std::set<std::string> files_;                         // of which a manifest tells
};

}  // namespace tdump::compare
