// Dumps of another tool of which a rank lacks a step that its peers have: its file was lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "compare/diff.h"
#include "tests/compare/foreign/foreign_sides.h"

namespace tdump::compare::foreign::test {
namespace {

using testing::SizeIs;

// Stores what one rank of `ranks` holds of a step in `directory`.
using StoreUnit = std::function<void(const std::string& directory, int step, int rank)>;

struct Lost {
  int step = -1, rank = 0;
};

class AbsentPassesTest : public ForeignSideTest {
 protected:
  // Three steps of copies on two ranks, against one rank of whole ones.
  DiffReport DiffWithout(const std::string& name, const StoreUnit& store, const Lost& lost,
                         int ranks_of_a = 1, const Lost& lost_of_a = {}) {
    const std::string root = name + std::to_string(++made_);
    for (int step = 0; step < 3; ++step) {
      for (int rank = 0; rank < 2; ++rank) {
        const bool is_of_a = rank < ranks_of_a;
        if (is_of_a && !(step == lost_of_a.step && rank == lost_of_a.rank))
          store(root + "a", step, rank);
        if (!(step == lost.step && rank == lost.rank)) store(root + "b", step, rank);
      }
    }
    const auto a = Side(root + "a"), b = Side(root + "b");
    DiffOptions options;
    options.job = JobOptions{};
    auto report = Diff(*a, *b, options);
    EXPECT_TRUE(report.ok()) << report.status().message();
    return report.ok() ? *std::move(report) : DiffReport{};
  }

  // Of each form of dumps that has ranks and steps.
  std::vector<std::pair<std::string, StoreUnit>> Forms() {
    const auto number = [](int n) { return std::to_string(n); };
    return {
        {"passes",
         [=, this](const std::string& directory, int step, int rank) {
           Store(directory + "/TP" + number(rank) + "_PP0_Rank" + number(rank) + "_pid9/Pass0000" +
                     number(step) + ".pt",
                 Pass({"model.a", "model.b"}, static_cast<float>(step)));
         }},
        {"tagged",
         [=, this](const std::string& directory, int step, int rank) {
           Store(directory + "/step=" + number(step) + "___rank=" + number(rank) +
                     "___dump_index=1___name=a.pt",
                 Pass({"value"}, static_cast<float>(step)));
         }},
        {"probe",
         [=, this](const std::string& directory, int step, int rank) {
           Store(directory + "/step" + number(step) + "/rank" + number(rank) +
                     "/dump_tensor_data/Module.a.Linear.forward.0.output.0.npy",
                 Array(static_cast<float>(step)));
         }},
        {"exports",
         [=, this](const std::string& directory, int step, int rank) {
           Store(
               directory + "/step" + number(step) + "_rank" + number(rank) + ".safetensors",
               Safetensors(R"({"a@output#":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                           R"("a@param#weight":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                           Raw(static_cast<float>(step)) + Raw(1.0f)));
         }},
    };
  }

  int made_ = 0;
};

TEST_F(AbsentPassesTest, AreToldAndFail) {
  for (const auto& [name, store] : Forms()) {
    EXPECT_EQ(DiffWithout(name, store, {}).overall, Overall::kSame) << name;
    for (const Lost lost : {Lost{0, 1}, Lost{1, 0}, Lost{1, 1}, Lost{2, 1}}) {
      SCOPED_TRACE(name + " of step " + std::to_string(lost.step));
      const DiffReport report = DiffWithout(name, store, lost);
      EXPECT_EQ(report.overall, Overall::kDiffers);
      ASSERT_THAT(report.unpaired, SizeIs(1));
      const Unpaired& unpaired = report.unpaired.front();
      EXPECT_EQ(unpaired.side, 'A');
      EXPECT_EQ(unpaired.step, static_cast<uint64_t>(lost.step));
      EXPECT_EQ(unpaired.why, "rank " + std::to_string(lost.rank) + " of B has no step " +
                                  std::to_string(lost.step) + ", which other ranks have");
    }
  }
}

// On each side as many ranks: both are told.
TEST_F(AbsentPassesTest, OfBothSides) {
  for (const auto& [name, store] : Forms()) {
    const DiffReport report = DiffWithout(name, store, {1, 1}, 2, {2, 0});
    EXPECT_EQ(report.overall, Overall::kDiffers) << name;
    ASSERT_THAT(report.unpaired, SizeIs(2)) << name;
    EXPECT_EQ(report.unpaired[0].side, 'A');
    EXPECT_EQ(report.unpaired[1].side, 'B');
    EXPECT_EQ(report.unpaired[1].why, "rank 0 of A has no step 2, which other ranks have");
  }
}

// A dump that takes some steps of some ranks only, against itself.
TEST_F(AbsentPassesTest, WhatBothSidesLackWasNotAskedFor) {
  for (const auto& [name, store] : Forms()) {
    const DiffReport report = DiffWithout(name, store, {1, 1}, 2, {1, 1});
    EXPECT_EQ(report.overall, Overall::kSame) << name;
    EXPECT_THAT(report.unpaired, SizeIs(0)) << name;
  }
}

}  // namespace
}  // namespace tdump::compare::foreign::test
