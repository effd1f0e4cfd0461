#include "coordinator/ownership.h"

#include <gtest/gtest.h>

namespace tdump::coordinator {
namespace {

using Kind = ActivationDecision::Kind;
const ProcessId kSelf{50, 500};
const ProcessId kOwner{40, 400};

struct Row {
  const char* what;
  Environment environment;
  BoundaryKind trigger;
  bool owner_alive;
  Kind kind;
};

const Row kRows[] = {
    {"bash -> python, python app.py alone", {}, BoundaryKind::kFirstOperator, true, Kind::kActive},
    {"torchrun worker; the agent runs no operator",
     {{"RANK", "1"}, {"WORLD_SIZE", "2"}},
     BoundaryKind::kFirstOperator,
     true,
     Kind::kActive},
    {"mp.spawn worker before it joins",
     {{"TDUMP_OWNER", "40:400"}},
     BoundaryKind::kFirstOperator,
     true,
     Kind::kInert},
    {"mp.spawn worker joins a group",
     {{"TDUMP_OWNER", "40:400"}},
     BoundaryKind::kProcessGroup,
     true,
     Kind::kActive},
    {"worker joins MPI", {{"TDUMP_OWNER", "40:400"}}, BoundaryKind::kMpiInit, true, Kind::kActive},
    {"data-loader worker, helper subprocess",
     {{"TDUMP_OWNER", "40:400"}},
     BoundaryKind::kOutermostBegin,
     true,
     Kind::kInert},
    {"helper of a torchrun worker",
     {{"TDUMP_OWNER", "40:400:1"}, {"RANK", "1"}},
     BoundaryKind::kFirstOperator,
     true,
     Kind::kInert},
    {"helper of a restarted worker",
     {{"TDUMP_OWNER", "40:400:1/2"}, {"RANK", "1"}, {"TORCHELASTIC_RESTART_COUNT", "2"}},
     BoundaryKind::kFirstOperator,
     true,
     Kind::kInert},
    {"torchrun started from an observed process",
     {{"TDUMP_OWNER", "40:400"}, {"RANK", "0"}},
     BoundaryKind::kFirstOperator,
     true,
     Kind::kActive},
    {"torchrun's worker of another rank",
     {{"TDUMP_OWNER", "40:400:0"}, {"RANK", "1"}},
     BoundaryKind::kFirstOperator,
     true,
     Kind::kActive},
    {"after exec: the owner itself",
     {{"TDUMP_OWNER", "50:500"}},
     BoundaryKind::kFirstOperator,
     true,
     Kind::kActive},
    {"pid of the owner reused",
     {{"TDUMP_OWNER", "50:499"}},
     BoundaryKind::kFirstOperator,
     false,
     Kind::kActive},
    {"owner has ended",
     {{"TDUMP_OWNER", "40:400"}},
     BoundaryKind::kFirstOperator,
     false,
     Kind::kActive},
    {"not a mark", {{"TDUMP_OWNER", "me"}}, BoundaryKind::kFirstOperator, true, Kind::kActive},
    {"switched off", {{"TDUMP_DISABLE", "1"}}, BoundaryKind::kProcessGroup, true, Kind::kOff},
    {"not switched off",
     {{"TDUMP_DISABLE", "0"}},
     BoundaryKind::kProcessGroup,
     true,
     Kind::kActive},
};

TEST(Ownership, Table) {
  for (const Row& row : kRows) {
    const ActivationDecision decision =
        DecideActivation(row.environment, kSelf, row.trigger, [&](const ProcessId& process) {
          return row.owner_alive && (process == kOwner || process == kSelf);
        });
    EXPECT_EQ(decision.kind, row.kind) << row.what << ": " << decision.reason;
    EXPECT_FALSE(decision.reason.empty());
  }
}

TEST(Ownership, MarkIsReadBack) {
  EXPECT_EQ(OwnerMark({}, kOwner), "40:400");
  const Environment worker = {{"RANK", "3"}, {"TORCHELASTIC_RESTART_COUNT", "1"}};
  EXPECT_EQ(OwnerMark(worker, kOwner), "40:400:3/1");
  Environment child = worker;
  child[kOwnerVariable] = OwnerMark(worker, kOwner);
  const auto alive = [](const ProcessId&) { return true; };
  EXPECT_EQ(DecideActivation(child, kSelf, BoundaryKind::kFirstOperator, alive).kind, Kind::kInert);
}

}  // namespace
}  // namespace tdump::coordinator
