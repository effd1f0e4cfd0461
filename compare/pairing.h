// Pairing: which pass of B belongs to which pass of A, and within them which record to which
// record. Exact only: equal agreed step, equal rank (or the two ranks the user named), equal key.
// What has no partner is listed, never dropped.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/spec.h"
#include "core/status.h"
#include "io/pass_store.h"
#include "io/run_index.h"

namespace tdump::compare {

// One side of a comparison. `store` and `index` outlive every use.
struct RunSide {
  const io::PassStore* store = nullptr;
  const io::RunIndex* index = nullptr;
  std::optional<int32_t> rank;  // only this rank of the run
  std::string label;            // as the user wrote it
};

struct PairOptions {
  Spec ranks = Spec::All();
  Spec steps = Spec::All();  // of A, and of B unless shifted
  int64_t step_shift = 0;    // step of B = step of A + shift
};

// Whether a rank takes part on this side.
bool IsSelected(const RunSide& side, const PairOptions& options, int32_t rank);

// A pass under its numbers. Two processes of one rank, or two passes of
// one step, are told apart by `nth`.
struct PassRef {
  int32_t rank = 0;
  uint32_t process = 0;
  uint64_t step = 0;
  bool agreed = false;
  bool extra = false;
  uint32_t nth = 0;
  const io::ProcessEntry* owner = nullptr;
  const io::PassEntry* entry = nullptr;
};

struct PassPair {
  PassRef a, b;
};

struct PassPairing {
  std::vector<PassPair> pairs;          // by (step, rank, process, nth)
  std::vector<PassRef> only_a, only_b;  // selected, but without a partner
};

// Error (kInvalidArgument): the layouts differ (another number of ranks) and no single ranks were
// named; a rank that a side does not have.
Result<PassPairing> PairPasses(const RunSide& a, const RunSide& b, const PairOptions& options);

// Of a pairing without a pair: what each side has, and what to try.
std::string WhyNoPass(const RunSide& a, const RunSide& b, const PassPairing& pairing);

struct RecordIds {
  uint64_t a = 0, b = 0;
};

struct RecordPairing {
  std::vector<RecordIds> pairs;      // in A's file order
  std::vector<uint64_t> key_hashes;  // of the pairs
  std::vector<uint64_t> only_a, only_b;
  std::vector<Status> errors;  // records that could not be read; the others are paired all the same
};

// `wanted` decides by record (its name); called for both sides.
using WantRecord = std::function<bool(const io::Record&)>;
RecordPairing PairRecords(const io::PassReader& a, const io::PassReader& b,
                          const WantRecord& wanted);

}  // namespace tdump::compare
