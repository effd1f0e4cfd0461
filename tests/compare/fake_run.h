// Runs made by hand in memory, as PassStore and RunIndex show them: for the tests of pairing and of
// the whole diff.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compare/pairing.h"
#include "compare/run_side.h"
#include "compare/step_view.h"
#include "io/pass_store.h"
#include "io/run_index.h"
#include "tests/compare/builders.h"

namespace tdump::compare {

struct PassContent {
  std::vector<io::Record> records;  // ids 1, 2, ...
  std::vector<std::vector<std::byte>> payloads;
  std::vector<io::CallRecord> calls;
  std::set<uint64_t> unreadable;  // records whose payload fails its checksum
};

class FakePassReader : public io::PassReader {
 public:
  explicit FakePassReader(const PassContent* content) : content_(content) {}

  const std::string& path() const override { return path_; }
  const io::PassInfo& info() const override { return info_; }
  bool complete() const override { return true; }
  uint64_t record_count() const override { return content_->records.size(); }
  const std::vector<io::Damage>& damage() const override { return damage_; }

  Status ForEachRecord(const std::function<bool(const io::Record&)>& visit) const override {
    for (const io::Record& record : content_->records) {
      if (!visit(record)) break;
    }
    return {};
  }
  Status ForEachCall(const std::function<bool(const io::CallRecord&)>& visit) const override {
    for (const io::CallRecord& call : content_->calls) {
      if (!visit(call)) break;
    }
    return {};
  }
  Result<io::Record> Find(const Key& key) const override {
    for (const io::Record& record : content_->records) {
      if (record.key == key) return record;
    }
    return NotFound(ToText(key));
  }
  Result<io::Record> Get(uint64_t record) const override {
    return content_->records.at(record - 1);
  }
  Status ReadPayload(const io::Record& record, uint64_t offset, std::span<std::byte> out,
                     bool) const override {
    if (content_->unreadable.contains(record.id)) return Corrupt("pass.tdp: offset 4096: digest");
    return FromMemory(content_->payloads.at(record.id - 1))(offset, out);
  }
  Result<std::span<const std::byte>> MapPayload(const io::Record& record) const override {
    return std::span<const std::byte>(content_->payloads.at(record.id - 1));
  }
  Status Verify(std::vector<io::Damage>*) const override { return {}; }

 private:
  const PassContent* content_;
  std::string path_ = "pass.tdp";
  io::PassInfo info_;
  std::vector<io::Damage> damage_;
};

// One pass being written: calls are closed in order, so that a call made
// between Begin and End is inside.
class PassBuilder {
 public:
  explicit PassBuilder(PassContent* content) : content_(content) {}

  struct Argument {
    std::string arg;
    Tensor tensor;
  };

  PassBuilder& Param(const std::string& path, const std::string& name, const Tensor& tensor) {
    io::Record* record = Add(path, "", Role::kParam, name, tensor);
    record->call_begin = record->seen = ++sequence_;
    record->payload.reset();  // known by its hash
    return *this;
  }
  uint64_t Begin(const std::string& path, const std::string& op, const std::vector<Argument>& in) {
    const uint64_t begin = ++sequence_;
    open_.push_back(begin);
    for (const Argument& argument : in) {
      io::Record* record = Add(path, op, Role::kInput, argument.arg, argument.tensor);
      record->call_begin = record->seen = begin;
    }
    return begin;
  }
  PassBuilder& End(uint64_t begin, const std::string& path, const std::string& op,
                   const std::vector<Argument>& out) {
    io::CallRecord call;
    call.path = path;
    call.op = op;
    call.kind = KindOf(op);
    call.call.begin = begin;
    open_.pop_back();
    call.call.parent = open_.empty() ? 0 : open_.back();
    call.call.end = ++sequence_;
    content_->calls.push_back(call);
    for (const Argument& argument : out) {
      io::Record* record = Add(path, op, Role::kOutput, argument.arg, argument.tensor);
      record->call_begin = begin;
      record->seen = call.call.end;
    }
    return *this;
  }
  PassBuilder& Module(const std::string& path, const Tensor& in, const Tensor& out) {
    return End(Begin(path, "", {{"0", in}}), path, "", {{"", out}});
  }
  PassBuilder& Tap(const std::string& path, const std::string& name, const Tensor& value) {
    return End(Begin(path, name, {}), path, name, {{"", value}});
  }
  io::Record* last() { return &content_->records.back(); }
  std::vector<io::Record>* records() { return &content_->records; }
  io::CallRecord* last_call() { return &content_->calls.back(); }
  std::vector<io::CallRecord>* calls() { return &content_->calls; }
  void Damage(uint64_t record) { content_->unreadable.insert(record); }

 private:
  static OperatorKind KindOf(const std::string& op) {
    return op.empty() ? OperatorKind::kModule : OperatorKind::kTap;
  }
  io::Record* Add(const std::string& path, const std::string& op, Role role, const std::string& arg,
                  const Tensor& tensor) {
    io::Record record = tensor.record;
    record.id = content_->records.size() + 1;
    record.key = {.path = path, .op = op, .role = role, .arg = arg};
    record.key.call = calls_[ToText(record.key)]++;
    record.kind = KindOf(op);
    content_->records.push_back(std::move(record));
    content_->payloads.push_back(tensor.payload);
    return &content_->records.back();
  }

  PassContent* content_;
  std::map<std::string, uint64_t> calls_;
  std::vector<uint64_t> open_;  // begins
  uint64_t sequence_ = 0;
};

class FakeRun : public io::PassStore {
 public:
  explicit FakeRun(int32_t world) {
    index_.world = world;
    index_.ranks.resize(static_cast<size_t>(world));
    for (int32_t rank = 0; rank < world; ++rank) {
      io::ProcessEntry process;
      process.identity.rank = rank;
      process.identity.world = world;
      processes_.push_back(process);
      io::RankState& state = index_.ranks[static_cast<size_t>(rank)];
      state.rank = rank;
      state.closed = true;
      state.how = "exit";
      state.processes = {static_cast<size_t>(rank)};
    }
  }

  PassBuilder Pass(int32_t rank, uint64_t step, bool extra = false) {
    io::ProcessEntry& process = processes_.at(static_cast<size_t>(rank));
    io::PassEntry entry;
    entry.file = std::to_string(contents_.size());
    entry.listed = true;
    process.passes.push_back(entry);
    contents_.push_back(std::make_unique<PassContent>());
    index_.passes.push_back({.process = static_cast<size_t>(rank),
                             .pass = process.passes.size() - 1,
                             .local_step = step,
                             .global_step = step,
                             .agreed = true,
                             .extra = extra});
    return PassBuilder(contents_.back().get());
  }

  // What the rank wrote last, in its manifest.
  io::PassEntry* entry(int32_t rank) {
    return &processes_.at(static_cast<size_t>(rank)).passes.back();
  }
  // The last pass of a rank is unfinished.
  void MakePart(int32_t rank) { entry(rank)->part = true; }

  CapturedRun side(std::optional<int32_t> rank = std::nullopt) const {
    return CapturedRun(this, &index_, rank, "run");
  }
  // A rank's place in the parallel layout: "pp=1 tp=0".
  void Place(int32_t rank, const std::string& coordinates) {
    processes_.at(static_cast<size_t>(rank)).identity.coordinates = coordinates;
  }
  io::IdentitySection* identity(int32_t rank) {
    return &processes_.at(static_cast<size_t>(rank)).identity;
  }
  io::RunIndex* index() { return &index_; }
  // What the rank's manifest says of a module, over all steps.
  void Count(int32_t rank, const std::string& path, uint64_t calls, uint64_t not_kept = 0,
             bool is_selected = true) {
    io::ProcessEntry& process = processes_.at(static_cast<size_t>(rank));
    if (is_selected) process.expected.Edit().push_back({.path = path});
    process.counts.Edit().push_back({.path = path, .calls = calls, .not_kept = not_kept});
  }
  std::vector<io::Damage>* damage(int32_t rank) {
    return &processes_.at(static_cast<size_t>(rank)).damage;
  }

  const std::string& run() const override { return run_; }
  const std::vector<io::ProcessEntry>& processes() const override { return processes_; }
  Result<std::unique_ptr<io::PassReader>> OpenPass(const io::ProcessEntry&,
                                                   const io::PassEntry& pass) const override {
    return std::unique_ptr<io::PassReader>(
        new FakePassReader(contents_.at(std::stoul(pass.file)).get()));
  }

 private:
  std::string run_ = "run";
  io::RunIndex index_;
  std::vector<io::ProcessEntry> processes_;
  std::vector<std::unique_ptr<PassContent>> contents_;
};

}  // namespace tdump::compare
