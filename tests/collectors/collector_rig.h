// A runtime for collectors whose plan keeps everything and whose sink is memory.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "core/runtime.h"

namespace tdump::collectors {

class KeepAll final : public Plan {
 public:
  RuleId op(OperatorId, const OperatorInfo& info, const void*) noexcept override {
    return info.kind == OperatorKind::kAten && !aten ? kNoRule : 1;
  }
  Decision observe(RuleId, const ObservationKey&) const noexcept override {
    return {{kLevelFull}, 1};
  }
  bool wants(RuleId, Role, Phase) const noexcept override { return true; }
  bool wants_kind(OperatorKind) const noexcept override { return true; }

  bool aten = false;  // operators of the dispatcher too
};

class MemorySink final : public Sink {
 public:
  struct Kept {
    OperatorId op;
    uint64_t call;
    Role role;
    std::string arg;
    std::string dtype;
    std::vector<int64_t> sizes;
    std::vector<std::byte> data;
    SkipReason reason = SkipReason::kNone;
  };

  Slot reserve(const Call& call, const Observation& seen, const Keep&,
               uint64_t bytes) noexcept override {
    if (inside) inside();
    Kept& kept = Add(call, seen);
    kept.data.resize(bytes);
    return {.data = kept.data.data(), .bytes = bytes};
  }
  void commit(const Slot&) noexcept override {}
  void abandon(const Slot&, SkipReason) noexcept override {}
  uint64_t max_slot() const noexcept override { return ~uint64_t{0}; }
  void stream(const Call&, const Observation&, const Keep&, uint64_t,
              PieceSource*) noexcept override {}
  void when_ready(const Call& call, const Observation& seen, const Keep&, uint64_t,
                  DeviceCopy* copy) noexcept override {
    Add(call, seen);
    std::lock_guard lock(mutex);
    copies.push_back(copy);  // the test polls and releases it
  }
  void refer(const Call&, const Observation&, const Keep&, uint64_t) noexcept override {}
  void skip(const Call& call, const Observation& seen, const Keep&, SkipReason reason,
            std::string_view) noexcept override {
    Add(call, seen).reason = reason;
  }
  void end_call(const Call& call, std::span<const std::byte>,
                std::span<const std::byte> text) noexcept override {
    std::lock_guard lock(mutex);
    calls.push_back(call);
    texts.push_back(CallText::ToString(text));
  }
  void expect(OperatorId op) noexcept override { expected.push_back(op); }
  void note(std::string_view text) noexcept override {
    std::lock_guard lock(mutex);
    notes.emplace_back(text);
  }

  void Clear() {
    std::lock_guard lock(mutex);
    kept.clear();
    calls.clear();
    texts.clear();
    expected.clear();
    notes.clear();
  }

  std::function<void()> inside;  // runs in reserve()
  std::mutex mutex;
  std::deque<Kept> kept;
  std::vector<Call> calls;
  std::vector<std::string> texts;  // beside calls
  std::vector<OperatorId> expected;
  std::vector<std::string> notes;
  std::vector<DeviceCopy*> copies;

 private:
  Kept& Add(const Call& call, const Observation& seen) {
    std::lock_guard lock(mutex);
    return kept.emplace_back(Kept{.op = call.op,
                                  .call = call.begin,
                                  .role = seen.role,
                                  .arg = std::string(seen.arg),
                                  .dtype = std::string(seen.meta.dtype.view()),
                                  .sizes = {seen.meta.sizes.begin(), seen.meta.sizes.end()}});
  }
};

class ListedBoundaries final : public Clock {
 public:
  void boundary(const Boundary& boundary) noexcept override {
    std::lock_guard lock(mutex);
    kinds.push_back(boundary.kind);
    names.emplace_back(boundary.name);
    left += boundary.left;
  }
  std::mutex mutex;
  std::vector<BoundaryKind> kinds;
  uint32_t left = 0;  // by exceptions, in all
  std::vector<std::string> names;
};

struct CollectorRig {
  CollectorRig() {
    gate.state = GateState::kArmed;
    runtime.recorder = &recorder;
    runtime.gate = &gate;
    runtime.operators = &operators;
    runtime.plan = &plan;
    runtime.sink = &sink;
    runtime.clock = &clock;
  }
  std::string Name(OperatorId op) const {
    const OperatorInfo& info = operators.Get(op);
    return info.op.empty() ? info.path : info.path + "/" + info.op;
  }
  // "path" of each call in the order of their ends, "!" after those that threw.
  std::vector<std::string> Calls() const {
    std::vector<std::string> names;
    for (const Call& call : sink.calls) names.push_back(Name(call.op) + (call.threw ? "!" : ""));
    return names;
  }

  Gate gate;
  OperatorTable operators;
  KeepAll plan;
  MemorySink sink;
  ListedBoundaries clock;
  Recorder recorder{&gate, &operators, &plan, &sink, &clock};
  Runtime runtime;
};

}  // namespace tdump::collectors
