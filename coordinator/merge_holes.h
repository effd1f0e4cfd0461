// Holes: what a merged run lacks, as sentences for people (RunIndex::holes).
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "coordinator/merge.h"
#include "core/types.h"
#include "io/pass_store.h"
#include "io/run_index.h"

namespace tdump::coordinator {

// Records that were not kept, of one rank for one reason.
struct NotKept {
  uint64_t records = 0;
  std::set<uint64_t> steps;
};

// What the merge has gathered when it asks for the holes.
struct Merged {
  const io::PassStore& store;
  const MergeOptions& options;
  io::RunIndex index;           // all but `holes`
  std::vector<size_t> members;  // processes of this generation, by rank
  std::map<SkipReason, std::map<int32_t, NotKept>> not_kept;  // by rank
  struct Note {
    uint8_t level = 0;  // NoteSection::level
    std::set<int32_t> ranks;
    std::string text;  // as RunIndex::notes has it
  };
  std::vector<Note> notes;  // of the processes

  const io::ProcessEntry& Process(size_t i) const { return store.processes()[i]; }
  // A rank directory or a pass file opened alone.
  bool OneRankOnly() const {
    return store.processes().size() == 1 && store.processes()[0].directory.empty();
  }
  // What became of a process without a closing record: a word of coordinator/closing.h.
  std::string_view FateOf(const io::ProcessEntry& process) const;
};

// Of all ranks, or of those that MergeOptions::holes_of names. Empty: the run is complete.
std::vector<std::string> FindHoles(const Merged& merged);

// "rank 3", "ranks 0-2,5".
std::string RankList(const std::set<int32_t>& ranks);

}  // namespace tdump::coordinator
