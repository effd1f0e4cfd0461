// UnpairedList: what has no partner on the other side, counted and listed with what is known of
// why.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "compare/diff.h"
#include "compare/name_map.h"
#include "compare/pass_diff.h"
#include "compare/run_side.h"
#include "core/status.h"

namespace tdump::compare {

inline uint32_t RoleBit(Role role) { return 1u << static_cast<uint32_t>(role); }

// Not thread-safe. Both outlive it.
class UnpairedList {
 public:
  UnpairedList(const DiffOptions* options, DiffReport* report)
      : options_(options), report_(report) {}

  // A pass of `here` without a partner. Counts the selected records; a pass that has none is not
  // missed. Error: it cannot be read.
  Status AddPass(char side, const PassRef& pass, const RunSide& here, const RunSide& other);
  // `why`: it has none. `paired`: texts of the keys that have one even so.
  Status AddPass(char side, const PassRef& pass, const RunSide& here, std::string why,
                 const std::set<std::string>& paired = {});
  // A pass that a rank of `lacking` does not have, in a step that others have
  // (JobSide::PassesAbsent). `side`: the other one. Before AddRecords of the step.
  Status AddAbsent(char side, const PassRef& absent, const RunSide& lacking);
  // The records of a pair of passes that have none, and copies that ranks lost.
  void AddRecords(const PassDiff& pass, const PassPair& pair);

  // Of runs that were captured with other rules, where that may be all that leaves records alone:
  // the option that allows it. `paired_roles`: bits of those that records with a partner have. ""
  // where both sides have records of one kind alone: those may be renamed.
  std::string RulesHint(uint32_t paired_roles) const;

  // Puts what is allowed behind what counts, where the report has room. Once, in the end.
  void ListAllowed();

  // "A has names like x, B like y; B looks like megatron names: try --map hf-megatron"; "" when
  // only one side has something.
  std::string NamesText() const;
  // "B looks like megatron names: try --map hf-megatron"; "".
  std::string Advice() const;

 private:
  void AddLost(char side, const PassDiff& pass, const PassPair& pair);
  void AddRecordsOf(char side, const PassDiff& pass, const PassRef& here, const PassRef& other);
  void Add(Unpaired unpaired);
  void CountAlone(const Key& key);
  bool IsAllowed(const io::Record& record) const;
  bool IsListed(bool allowed) const;

  const DiffOptions* options_;
  DiffReport* report_;
  std::vector<Unpaired> allowed_;               // the first ones
  std::set<int32_t> absent_a_, absent_b_;       // ranks of the step for which AddAbsent was called
  std::vector<NamedTensor> names_a_, names_b_;  // the first ones
  std::string sample_a_, sample_b_;
  uint32_t roles_a_ = 0, roles_b_ = 0;  // of records that are alone and not allowed; bits
  bool has_pass_ = false;               // a whole pass is
};

}  // namespace tdump::compare
