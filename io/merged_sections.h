// The sections of a merged manifest (kMerged frames). Same rules as io/sections.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/sections.h"

namespace tdump::io {

// First frame of a merged manifest.
struct MergedHeadSection {
  static constexpr uint32_t kId = 0x4001;
  uint64_t created_ns = 0;
  uint64_t sources = 0;
  std::string writer;  // "tdump 0.1.0"
  template <class Archive>
  void serialize(Archive& archive) {
    archive(created_ns, sources, writer);
  }
};

// One process directory as the merge saw it. The frames of its manifest follow, copied as they are.
struct MergedSourceSection {
  static constexpr uint32_t kId = 0x4002;
  std::string directory;        // relative to the run
  uint64_t manifest_bytes = 0;  // 0: it has none
  int64_t manifest_mtime_ns = 0;
  int64_t directory_mtime_ns = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(directory, manifest_bytes, manifest_mtime_ns, directory_mtime_ns);
  }
};

// Head of one generation; the sections below stand in the same frame.
struct MergedRunSection {
  static constexpr uint32_t kId = 0x4010;
  uint32_t generation = 0;
  std::string job_key;
  std::string job_label;
  int32_t world = 1;
  std::string boundary;
  std::string transport;
  std::string rank_source;
  uint32_t max_lag = 0;
  uint64_t steps_seen = 0;
  uint64_t bytes = 0;
  uint64_t files = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(generation, job_key, job_label, world, boundary, transport, rank_source, max_lag,
            steps_seen, bytes, files);
  }
};

struct MergedRank {
  int32_t rank = 0;
  std::vector<uint64_t> processes;
  uint8_t flags = 0;  // 1 selected, 2 closed, 4 lost
  uint64_t last_step = 0;
  std::string how;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(rank, processes, flags, last_step, how);
  }
};

struct MergedRanksSection {
  static constexpr uint32_t kId = 0x4011;
  std::vector<MergedRank> ranks;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(ranks);
  }
};

struct MergedPass {
  uint64_t process = 0;
  uint64_t pass = 0;
  uint64_t local_step = 0;
  uint64_t global_step = 0;
  uint8_t flags = 0;  // 1 agreed, 2 extra
  template <class Archive>
  void serialize(Archive& archive) {
    archive(process, pass, local_step, global_step, flags);
  }
};

struct MergedPassesSection {
  static constexpr uint32_t kId = 0x4012;
  std::vector<MergedPass> passes;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(passes);
  }
};

struct MergedOperator {
  std::string name;
  std::string cls;
  uint8_t kind = 0;
  uint64_t ranks_expected = 0;
  uint64_t ranks_called = 0;
  uint64_t calls = 0;
  uint64_t records = 0;
  uint64_t not_kept = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(name, cls, kind, ranks_expected, ranks_called, calls, records, not_kept);
  }
};

struct MergedOperatorsSection {
  static constexpr uint32_t kId = 0x4013;
  std::vector<MergedOperator> operators;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(operators);
  }
};

struct MergedRule {
  RuleSection rule;
  std::vector<std::string> near_names;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(rule, near_names);
  }
};

struct MergedRulesSection {
  static constexpr uint32_t kId = 0x4014;
  std::vector<MergedRule> rules;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(rules);
  }
};

struct MergedNotKept {
  std::string why;
  uint64_t records = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(why, records);
  }
};

struct MergedDamage {
  std::string file;
  uint64_t offset = 0;
  std::string what;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(file, offset, what);
  }
};

struct MergedFindingsSection {
  static constexpr uint32_t kId = 0x4015;
  std::vector<MergedNotKept> not_kept;
  std::vector<std::string> notes;
  std::vector<MergedDamage> damage;
  std::vector<std::string> holes;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(not_kept, notes, damage, holes);
  }
};

// Of operators whose records the ring overwrote in part. Left out where there is none.
struct MergedOverwritten {
  uint64_t place = 0;  // in MergedOperatorsSection, which stands before
  uint64_t records = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(place, records);
  }
};

struct MergedOverwrittenSection {
  static constexpr uint32_t kId = 0x4016;
  std::vector<MergedOverwritten> operators;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(operators);
  }
};

}  // namespace tdump::io
