// What is made of ranks that lack a tensor for the data that they were given, and told of them and
// of tensors that a map leaves to one side.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compare/job_step.h"
#include "compare/load_shards.h"
#include "compare/pairing.h"
#include "compare/skipped_ranks.h"

namespace tdump::compare {

// That hold some of it, ascending.
std::vector<int32_t> RanksOf(const JobStep& step, const Group& group);

bool HaveOtherData(const std::vector<SkippedRank>& ranks);  // all of them
bool RanIt(const std::vector<SkippedRank>& ranks);          // all of them

// Adds what ranks of one side lack of a pair. `ids`: its own tensor, and the partner. `are_copies`:
// what the others hold is the whole.
void AddLost(const JobStep& step, const Group& group, const std::vector<SkippedRank>& lacking,
             RecordIds ids, bool are_copies, RankLists* lists, std::vector<LostCopy>* lost);

// Ranks whose data had nothing for a tensor have no part in its layout.
void LeaveOut(const std::vector<SkippedRank>& lacking, LoadedShards* shards);

// Of ranks of which places alone say whether they were given what those were that ran it. "" where
// there are none.
std::string UnknownDataText(const JobStep& step, char side, const Group& group,
                            const std::vector<SkippedRank>& lacking, bool has_other_data);
// Of ranks that were given other data, as far as that is known of all.
std::string OtherDataText(const JobStep& step, char side, const Group& group);

// Tensors of a step that the map says the other side has nothing like.
void NoteSkipped(const JobStep& step, char side, std::vector<std::string>* notes);

}  // namespace tdump::compare
