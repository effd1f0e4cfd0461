// PassStore: the passes of a run, by (process, ordinal). Nothing
// outside it knows that a pass is a file.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/pass_digest.h"
#include "io/pass_reader.h"
#include "io/records.h"
#include "io/sections.h"
#include "io/shared_list.h"

namespace tdump::io {

// One pass as the manifest (or, failing that, the directory) knows it.
struct PassEntry {
  PassInfo info;
  std::string file;     // relative to the run directory
  uint64_t offset = 0;  // in a packed file; 0: the file is this pass's own
  bool listed = false;  // the manifest has it as done
  bool part = false;    // unfinished: killed, or the job still runs
  uint64_t file_bytes = 0;
  uint64_t records = 0;
  uint64_t calls = 0;
  uint64_t payload_bytes = 0;
  uint64_t blocked_ns = 0;
  std::vector<ReasonCount> not_kept;
  std::string error;
};

// One process's manifest, read. `passes` are by ordinal.
struct ProcessEntry {
  std::string directory;  // relative to the run: "rank0_pid3069569"
  std::string node_file;  // that its files are in; "": they are files of their own
  IdentitySection identity;
  std::vector<PassEntry> passes;
  std::vector<PassEntry> overwritten;  // by the ring (output.at_limit); their files are gone
  std::vector<StepMapSection> steps;   // by local step, last word only
  SharedList<ExpectSection> expected;
  SharedList<OperatorCountSection> counts;
  // Of the records in `counts`, those of `overwritten`: by place. Empty: none.
  std::vector<uint64_t> overwritten_records;
  std::vector<RuleSection> rules;
  std::vector<NoteSection> notes;
  std::vector<AgreementSection> agreements;  // last one counts
  std::vector<RemovedSection> removed;       // files, as the manifest says
  std::optional<CloseSection> close;         // none: killed or still running
  std::vector<Damage> damage;
};

// kCorrupt where `found`, which the file at `path` says of itself, is another pass than the
// manifest has there: a file that was copied to the place of another is sound inside and has wrong
// values.
Status CheckWhose(const PassInfo& found, const PassInfo& listed, const std::string& path);

class PassStore {
 public:
  // `run`: the directory, a pass file, a packed file, or `FILE#ORDINAL` of one. Reads all manifests
  // below it (many processes: in parallel); lists `.part` files that no manifest has. A damaged
  // manifest is a Damage of its process, not an error. `threads`: how many at a time; 0: one a
  // core, at most 8.
  static Result<std::unique_ptr<PassStore>> Open(Env* env, const std::string& run,
                                                 unsigned threads = 0);
  virtual ~PassStore() = default;

  virtual const std::string& run() const = 0;
  virtual const std::vector<ProcessEntry>& processes() const = 0;  // by (generation, rank, start)
  virtual Result<std::unique_ptr<PassReader>> OpenPass(const ProcessEntry& process,
                                                       const PassEntry& pass) const = 0;
  // See io/pass_digest.h.
  virtual Result<PassDigest> Digest(const ProcessEntry& /*process*/,
                                    const PassEntry& /*pass*/) const {
    return Unsupported("no digest");
  }
};

}  // namespace tdump::io
