// ForeignSide: a dump of another tool as a side of a comparison.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "compare/foreign/asked_side.h"
#include "compare/foreign/dump_catalog.h"
#include "compare/foreign/dump_reader.h"
#include "compare/foreign/name_prefix.h"
#include "compare/foreign/next_file_records.h"
#include "compare/run_side.h"

namespace tdump::compare::foreign {

// One step of one rank. Everything but the values is in memory. Calls: one for each operator and
// call number, from the first to the last of its tensors in the order of the dump. So a module
// whose inputs were dumped before its parts ran encloses them.
class ForeignStep : public StepView {
 public:
  explicit ForeignStep(DumpContents contents);

  Status ForEachTensor(const VisitTensor& visit) const override;
  Result<io::Record> Get(uint64_t id) const override;
  Result<ReadBytes> Open(const io::Record& record) const override;
  std::optional<Summary> SummaryOf(const io::Record& record) const override;
  Status ForEachCall(const VisitCall& visit) const override;
  const std::vector<io::Damage>& damage() const override { return contents_.damage; }

 private:
  io::Record RecordOf(size_t index) const;
  void MakeCalls();

  DumpContents contents_;
  std::vector<io::CallRecord> calls_;
  std::vector<size_t> call_of_;  // of each tensor
};

// The keys by the names that a dump without roles uses: NameOf(record) (compare/pass_diff.h).
using KeysByName = std::multimap<std::string, Key>;

// `env` outlives it.
class ForeignSide : public RunSide {
 public:
  // Error: no dump of another tool is at `path` (kNotFound), or several are.
  static Result<std::unique_ptr<ForeignSide>> Open(Env* env, const std::string& path);

  // From now on tensors of which the dump does not say what they are to their operator take the key
  // of the only tensor of `other` that has their name (an output before others). `other` outlives
  // this.
  void TakeKeysOf(const RunSide* other) { other_ = other; }
  // The same of another dump, as far as it says so itself.
  void TakeKeysOf(const ForeignSide* other) { other_dump_ = other; }
  // Where this has one tensor and the other side one key, they belong together whatever their names
  // are. Not on both sides.
  void TakeOnlyKey() { takes_only_key_ = true; }

  // What of a run is compared with this dump: the roles that the dump has, and single tensors of
  // which it says the role where it does not say it of others. Of the first step.
  Result<Asked> Asks() const;

  // Only tensors that an address with this name means (io/address.h). Error (kNotFound): there are
  // none in the first step.
  Status KeepOnly(const std::string& name);

  SideInfo Describe() const override;
  const std::string& label() const override { return path_; }
  int32_t world() const override { return world_; }
  std::optional<int32_t> rank() const override { return catalog_.rank; }
  const std::vector<PassRef>& passes() const override { return passes_; }
  Result<std::unique_ptr<StepView>> Open(const PassRef& pass) const override;
  std::vector<io::Damage> DamageOf(int32_t /*rank*/) const override { return {}; }
  // One of which the dump has no file, though it has some of several others.
  bool IsLost(int32_t rank) const override;
  std::optional<KilledState> KilledStateOf(int32_t rank) const override;
  std::string CoordinatesOf(int32_t rank) const override;
  std::string WhyMissing(int32_t rank) const override;

  // "'name': os.system (offset 12), never run", of the steps that were opened.
  std::vector<std::string> skipped() const;
  // What SGLang wrote with the next pass, of the steps that were opened.
  std::vector<std::string> late() const { return late_.names(); }
  // What stood before names of one side only, once a step was opened.
  NamePrefix prefix() const;

 private:
  ForeignSide(Env* env, std::string path, DumpCatalog catalog);
  DumpContents Read(const PassRef& pass) const;
  Result<DumpContents> ReadWithKeys(const PassRef& pass) const;
  Status LoadKeys() const;
  void LoadPrefix() const;
  void TakePath(Key* key) const;
  void TakeKey(bool only, NamedKey* named) const;

  std::shared_ptr<OpenFiles> files_;
  const std::string path_;
  const DumpCatalog catalog_;
  const NextFileRecords late_;
  int32_t world_ = 1;
  std::vector<int32_t> lost_;    // ranks without a file, ascending; the first ones
  std::vector<PassRef> passes_;  // PassRef::index: into catalog_.units
  std::string only_;             // a name; empty: everything
  const RunSide* other_ = nullptr;
  const ForeignSide* other_dump_ = nullptr;
  bool takes_only_key_ = false;
  mutable std::mutex mutex_;
  mutable std::optional<KeysByName> keys_;
  mutable std::optional<NamePrefix> prefix_;
  mutable std::vector<std::string> skipped_;
};

}  // namespace tdump::compare::foreign
