// Dumps of another tool in which a rank has no file at all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compare/diff.h"
#include "compare/report.h"
#include "tests/compare/foreign/foreign_sides.h"

namespace tdump::compare::foreign::test {
namespace {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class LostRanksTest : public ForeignSideTest {
 protected:
  // A weight and what is made of it, `size` numbers each from `first` on.
  void StoreRank(const std::string& directory, int rank, int size, int first) {
    const std::string bytes = std::to_string(4 * size), all = std::to_string(8 * size);
    const std::string shape = "[" + std::to_string(size) + "]";
    std::string values;
    for (int i = 0; i < size; ++i) values += Raw(static_cast<float>(first + i));
    Store(directory + "/step0_rank" + std::to_string(rank) + ".safetensors",
          Safetensors(R"({"a@param#weight":{"dtype":"F32","shape":)" + shape +
                          R"(,"data_offsets":[0,)" + bytes +
                          R"(]},"a@output#":{"dtype":"F32","shape":)" + shape +
                          R"(,"data_offsets":[)" + bytes + "," + all + "]}}",
                      values + values));
  }
  // Four numbers in parts of `size`, rank by rank, or as copies, without a rank.
  std::string Dump(const std::string& name, int ranks, int size, int without = -1) {
    for (int rank = 0; rank < ranks; ++rank)
      if (rank != without) StoreRank(name, rank, size, size == 4 ? 0 : rank * size);
    return name;
  }
  DiffReport DiffOf(const std::string& name_a, const std::string& name_b,
                    const std::string& topology_a, const std::string& topology_b) {
    const auto a = Side(name_a), b = Side(name_b);
    DiffOptions options;
    options.job = JobOptions{.topology_a = topology_a, .topology_b = topology_b};
    auto report = Diff(*a, *b, options);
    EXPECT_TRUE(report.ok()) << report.status().message();
    return report.ok() ? *std::move(report) : DiffReport{};
  }
};

TEST_F(LostRanksTest, TheRankIsTheOriginOfPartsThatAreMissing) {
  const std::string one = Dump("one", 1, 4);
  EXPECT_EQ(DiffOf(one, Dump("all", 4, 1), "", "tp=4").overall, Overall::kSame);
  const DiffReport report = DiffOf(one, Dump("lost", 4, 1, 2), "", "tp=4");
  EXPECT_EQ(report.overall, Overall::kDiffers);
  ASSERT_TRUE(report.origin);
  ASSERT_TRUE(report.origin->killed);
  EXPECT_THAT(report.origin->killed->ranks, ElementsAre(2));
  EXPECT_EQ(KilledText(*report.origin->killed), "not in the dump");
  EXPECT_EQ(report.origin->parameter, "");
  EXPECT_THAT(report.notes, Each(Not(HasSubstr("--dims"))));
  EXPECT_THAT(report.notes, Contains(HasSubstr("'lost' has nothing of rank 2")));
}

TEST_F(LostRanksTest, ACopyThatIsMissingFails) {
  const std::string one = Dump("one", 1, 4), lost = Dump("lost", 4, 4, 2);
  EXPECT_EQ(DiffOf(one, Dump("all", 4, 4), "", "tp=4").overall, Overall::kSame);
  const DiffReport report = DiffOf(one, lost, "", "tp=4");
  EXPECT_EQ(report.overall, Overall::kDiffers);
  ASSERT_EQ(report.unpaired.size(), 1u);
  EXPECT_EQ(report.unpaired[0].why, "rank 2 of B has no step 0, which other ranks have");
  EXPECT_EQ(DiffOf(lost, one, "tp=4", "").counts.unpaired_b, 2u);
  // Both lack it, and nobody says how the ranks lie.
  EXPECT_EQ(DiffOf(lost, lost, "tp=4", "tp=4").overall, Overall::kSame);
  EXPECT_EQ(DiffOf(one, lost, "", "").overall, Overall::kSame);
}

TEST_F(LostRanksTest, TheDumpIsIncomplete) {
  EXPECT_THAT(Side(Dump("lost", 4, 4, 2))->Describe().holes,
              ElementsAre("rank 2 is not in the dump"));
  EXPECT_THAT(Side(Dump("all", 4, 4))->Describe().holes, IsEmpty());
  StoreRank("last", 3, 4, 0);  // one rank alone may have been asked for
  EXPECT_THAT(Side("last")->Describe().holes, IsEmpty());
}

TEST_F(LostRanksTest, AParameterThatWasNotReadIsNotSaidToDiffer) {
  Dump("two", 2, 3);
  const DiffReport report = DiffOf(Dump("one", 1, 4), "two", "", "tp=2");
  EXPECT_EQ(report.overall, Overall::kDiffers);
  ASSERT_TRUE(report.origin);
  const std::string text =
      RenderText(report, {.label = "one", .run = "one", .world = 1},
                 {.label = "two", .run = "two", .world = 2}, false, Style(false));
  EXPECT_THAT(text, HasSubstr("its parameter could not be put together: a.weight"));
  EXPECT_THAT(text, Not(HasSubstr("its parameter differs")));
}

}  // namespace
}  // namespace tdump::compare::foreign::test
