// What the tests of a killed writer write, and what must be there of it afterwards.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/env.h"
#include "tests/io/sink_fixture.h"

namespace tdump::io::test {

// Weights that never change in record 1, then short values. `large`: record 2 of every eighth pass
// is longer than what goes to the file by way of the writer's buffer.
std::vector<std::byte> KilledValues(uint64_t pass, uint64_t record, bool large);

// Record `record`, counted from 1, of the open pass of `rig`, and its call; committed unless told
// not to.
Slot KeepKilledValues(SinkRig* rig, uint64_t record, bool large, bool commit = true);

// What the writer knew to be in its manifest when it was killed.
struct Acknowledged {
  uint64_t manifest_bytes = 0;  // of whole entries
  uint64_t passes = 0;          // entries of finished passes
};

struct Left {
  std::set<std::pair<uint64_t, uint64_t>> records;  // pass and record that can be read
  size_t passes = 0;                                // listed, whole and right
};

// Reads all below `run`. Fails the test where a listed pass is not whole and right, where an
// acknowledged one is not listed, where a record has other values than were committed, and for any
// damage but the entry of the manifest that was being written.
Left CheckWhatIsLeft(Env* env, const std::string& run, const Acknowledged& acknowledged,
                     bool large);

}  // namespace tdump::io::test
