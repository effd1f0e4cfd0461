// StepClock: the Clock of a process. Boundaries come in from collectors;
// passes, the gate and step numbers go out.
//
//   1. Nothing happens until a boundary of a kind that activates (a first operator or outermost
//      call, MPI_Init, a process group). It is handed to the Activator, once, which says who this
//      process is and gives the clock its ClockSession.
//   2. StepTracker says where steps begin. Every step gets a local number (over all modes) and one
//      within its mode.
//   3. A step of a selected rank whose number is in `steps.select` opens a pass through
//      io::PassControl; the others close the open one. The number compared is the job's own where
//      the job tells it, else first + global number, where agreed, else first + local number.
//   4. The Gate is armed while a pass is open and the micro-batch is selected.
//   5. The agreement hears the shape of every step: its mode and its outermost calls, hashed.
//   6. A recorded step in which an exception left module calls or a backward, and behind which
//      another began, is whole as far as steps go; the manifest gets a note. The last one of the
//      process may be cut: nothing tells whether the job had more to do in it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "coordinator/step_tracker.h"
#include "core/clock.h"
#include "core/gate.h"
#include "core/identity.h"
#include "core/spec.h"
#include "io/capture_sink.h"
#include "io/manifest_writer.h"

namespace tdump::coordinator {

// What the agreement (agreement.h) is told of a step. `shape` is equal on two ranks whose step had
// the same mode and the same outermost calls in the same order.
struct EndedStep {
  uint64_t local = 0;
  StepMode mode = StepMode::kForward;
  uint64_t shape = 0;
  int64_t began_ns = 0;  // wall clock
  bool recorded = false;
};

// What the clock asks of the agreement. Called under the clock's lock; waits for no other rank.
class StepAgreement {
 public:
  virtual ~StepAgreement() = default;
  virtual void Ended(const EndedStep& step) noexcept = 0;
  // False: the shapes of steps are not looked at.
  virtual bool compares() const noexcept { return true; }
  // The number of the step that begins now, as far as the ranks agree;
  // `local` where they do not yet.
  virtual uint64_t NumberOf(uint64_t local) noexcept = 0;
  // A counted step begins under this number, which may be the job's own.
  virtual void Began(uint64_t number) noexcept {}
  virtual void Close() noexcept = 0;
};

// What activation hands to the clock. Everything pointed to outlives the clock's use (until
// AfterFork or kExit).
struct ClockSession {
  Identity identity;
  uint32_t generation = 0;
  bool selected = true;                    // this rank records
  io::PassControl* passes = nullptr;       // null: nothing can be recorded
  io::ManifestWriter* manifest = nullptr;  // may be null
  StepAgreement* agreement = nullptr;      // may be null

  bool needs_shapes() const { return agreement != nullptr && agreement->compares(); }
};

enum class Activation : uint8_t {
  kActive,  // `session` is filled
  kLater,   // inert, but joining a process group or MPI makes this process a rank: ask again then
  kNever,   // tdump stays out of this process: the gate goes off
};

// Implemented by launch. Called under the clock's lock from the thread of the boundary; must not
// call back into the clock.
class Activator {
 public:
  virtual ~Activator() = default;
  virtual Activation Activate(const Boundary& boundary, ClockSession* session) = 0;
  // The process, already active, became part of MPI or of a process group.
  virtual void Joined(const Boundary& boundary) {}
  // The first step begins; what marks steps is known now.
  virtual void FirstStep(const std::string& rule) {}
  // A boundary that would activate comes in a forked child, which stays inert. True: told of once,
  // which is enough.
  virtual bool RanInForkedChild(const Boundary& boundary) { return true; }
};

struct StepClockOptions {
  StepRule rule;
  Spec select = Spec::All();
  Spec micro = Spec::All();
  int64_t first = -1;  // number of the first step; -1: the job's own, else 0
  uint64_t skip = 0;   // steps at the start that are not counted
  std::function<void(const std::string&)> report;  // one line for the user; may be empty
};

// Thread-safe. Never throws and never waits for another rank.
class StepClock : public Clock {
 public:
  struct Counts {
    uint64_t steps = 0;   // counted steps begun
    uint64_t passes = 0;  // opened
    int failed = 0;       // exit status, where the process ended in its last pass; else 0
    // It succeeded, and its last pass may be cut: it has a backward and no optimizer's step, or a
    // call that did not return, or an exception left a call or a backward.
    bool undone = false;
  };

  StepClock(Gate* gate, Activator* activator, StepClockOptions options);

  void boundary(const Boundary& boundary) noexcept override;
  // In a forked child: forgets the parent's session and stays inert until the child joins a group.
  // Touches no file. Of a process that was dormant the gate stays so until the first operator,
  // which the Activator hears of.
  void AfterFork() noexcept;

  std::string RuleInForce() const;
  Counts counts() const;

 private:
  struct Step {
    bool counted = false;
    EndedStep told;
  };

  // What an exception, or the end of a thread, left in a step.
  struct Left {
    uint64_t calls = 0;  // of modules
    bool backward = false;
    bool threw = false, thread_ended = false;  // by which
    bool any() const { return calls != 0 || backward; }
    const char* By() const;
    // "2 module calls or a backward"
    std::string What(const std::string& calls_text, const char* word) const;
  };

  bool EnsureActive(const Boundary& boundary);
  void TellOfFork(const Boundary& boundary);
  void Handle(const Boundary& boundary);
  void EndStep();
  void NoteWhatWasLeft();
  void Note(const std::string& text);
  void BeginStep(const StepTracker::Verdict& verdict);
  void OpenPass(const StepTracker::Verdict& verdict, uint64_t mode_step, uint64_t number);
  void TellRule(StepMode mode);
  void NextMicro();
  void SetGate();
  void Mix(const Boundary& boundary);
  void Exit(int64_t status);  // the number of the boundary kExit
  uint64_t SelectionNumber(const StepTracker::Verdict& verdict);

  Gate* gate_;
  Activator* activator_;
  const StepClockOptions options_;

  mutable std::mutex mutex_;
  StepTracker tracker_;
  Activation state_ = Activation::kLater;
  bool told_first_ = false;
  bool asked_ = false;
  bool exited_ = false;
  bool fork_untold_ = false;  // in a forked child of which nothing was told
  ClockSession session_;
  StepTracker::Verdict pending_;  // began before activation
  Step step_;
  bool recording_ = false;  // a pass is open
  uint64_t skipped_ = 0;
  uint64_t next_local_ = 0;
  uint64_t next_of_mode_[4] = {};
  uint64_t passes_ = 0;
  int failed_ = 0;
  bool undone_ = false;
  Left left_;                                // in the present step
  Left more_left_;                           // in steps not told of one by one
  uint64_t steps_left_ = 0, last_left_ = 0;  // recorded steps in which something was; the last one
  uint32_t micros_ = 0;                      // root calls in the step so far
};

}  // namespace tdump::coordinator
