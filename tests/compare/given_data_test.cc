#include "compare/given_data.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "tests/compare/job_runs.h"

namespace tdump::compare {
namespace {

const Tensor kOther = Matrix(2, 2, {9, 9, 9, 9});
const Tensor kIds = MakeTensor<int64_t>("int64", {2}, {3, 4});
const Tensor kOtherIds = MakeTensor<int64_t>("int64", {2}, {5, 6});

using Fill = std::function<void(PassBuilder&)>;

GivenData Of(const Fill& fill) {
  PassContent content;
  PassBuilder pass(&content);
  fill(pass);
  return GivenData(OnePass(std::make_unique<FakePassReader>(&content)));
}

Fill Model(const std::vector<PassBuilder::Argument>& inputs, const Tensor& of_a) {
  return [=](PassBuilder& pass) {
    const uint64_t root = pass.Begin(".", "", inputs);
    pass.Module("a", of_a, of_a);
    pass.End(root, ".", "", {{"", of_a}});
  };
}

std::optional<bool> AreSame(const Fill& x, const Fill& y, bool by_place = false) {
  const auto same = Of(x).IsAsOf(Of(y), 0, by_place);
  EXPECT_EQ(same, Of(y).IsAsOf(Of(x), 0, by_place));
  return same;
}

TEST(GivenData, AnyInputOfTheModelThatDiffersTells) {
  const Fill ids = Model({{"ids", kIds}, {"mask", kInput}}, kInput);
  EXPECT_EQ(AreSame(ids, Model({{"ids", kIds}, {"mask", kInput}}, kOther)), true);
  EXPECT_EQ(AreSame(ids, Model({{"ids", kOtherIds}, {"mask", kInput}}, kInput)), false);
  EXPECT_EQ(AreSame(ids, Model({{"pixels", kOther}}, kOther)), false);  // by what a was given
  EXPECT_EQ(AreSame(ids, Model({}, kInput)), true);
}

TEST(GivenData, MoreInputsAreOtherDataUnlessIntegersOfBothAreEqual) {
  const Fill rows = Model({{"rows", kInput}, {"images", kOther}}, kInput);
  EXPECT_EQ(AreSame(rows, Model({{"rows", kInput}}, kInput)), false);
  EXPECT_EQ(AreSame(rows, Model({{"rows", kInput}}, kInput), true), true);  // not known of a shard
  for (const Tensor& more : {kOtherIds, kOther}) {                          // labels, a mask
    const Fill ids = Model({{"ids", kIds}, {"more", more}}, kInput);
    EXPECT_EQ(AreSame(ids, Model({{"ids", kIds}}, kInput)), true);
    EXPECT_EQ(AreSame(ids, Model({{"ids", kOtherIds}}, kInput)), false);
    EXPECT_EQ(AreSame(ids, Model({}, kInput)), true);  // by what a was given
  }
  EXPECT_EQ(AreSame(Model({{"ids", kIds}, {"rows", kInput}, {"labels", kIds}}, kInput),
                    Model({{"ids", kIds}, {"rows", kOther}}, kInput)),
            false);
}

TEST(GivenData, AnInputWithoutAHashIsNoneThatOneRankAloneHas) {
  const Fill both = Model({{"rows", kInput}, {"mask", kOther}}, kInput);
  const Fill lost = [&](PassBuilder& pass) {
    both(pass);
    for (io::Record& record : *pass.records()) {
      if (record.key.arg == "mask") record.hash.reset();
    }
  };
  EXPECT_EQ(AreSame(both, lost), true);
}

TEST(GivenData, RanksThatAreGivenTheSameMayHoldShardsOfWhatIsHandedOn) {
  const Fill model = Model({{"0", kInput}}, kInput);
  EXPECT_EQ(AreSame(model, Model({{"0", kOther}}, kOther), true), std::nullopt);
  EXPECT_EQ(AreSame(model, Model({{"0", kOther}}, kOther), false), false);
  const Fill ids = Model({{"ids", kIds}, {"0", kInput}}, kInput);
  EXPECT_EQ(AreSame(ids, Model({{"ids", kOtherIds}, {"0", kInput}}, kInput), true), false);
}

TEST(GivenData, TheFirstInputOfBothTellsWhereTheModelsDoNot) {
  const auto modules = [](const Tensor& of_a, const Tensor& of_b, bool has_first) {
    return [=](PassBuilder& pass) {
      if (has_first) pass.Module("images", kOther, kOther);
      pass.Module("a", of_a, of_a).Module("b", of_b, of_b);
    };
  };
  EXPECT_EQ(AreSame(modules(kInput, kInput, true), modules(kInput, kOther, false)), true);
  EXPECT_EQ(AreSame(modules(kInput, kInput, true), modules(kOther, kInput, false)), false);
  EXPECT_EQ(AreSame(modules(kInput, kInput, true),
                    [](PassBuilder& pass) { pass.Module("c", kInput, kInput); }),
            std::nullopt);
}

TEST(GivenData, WithoutHashesNothingIsKnown) {
  const Fill model = [](PassBuilder& pass) {
    pass.Module("a", kInput, kInput);
    for (io::Record& record : *pass.records()) record.hash.reset();
  };
  EXPECT_EQ(AreSame(model, model), std::nullopt);
}

TEST(GivenData, AMicroBatchThatBothHaveTellsFirst) {
  const auto micro_batches = [](const std::vector<Tensor>& rows) {
    return [=](PassBuilder& pass) {
      for (uint32_t micro = 0; micro < rows.size(); ++micro) {
        pass.Module("a", rows[micro], rows[micro]);
        for (auto record = pass.records()->end() - 2; record != pass.records()->end(); ++record)
          record->key.micro = micro;
      }
    };
  };
  const GivenData x = Of(micro_batches({kInput, kOther})), y = Of(micro_batches({kInput, kInput})),
                  less = Of(micro_batches({kInput}));
  EXPECT_EQ(x.IsAsOf(y, 0, false), true);
  EXPECT_EQ(x.IsAsOf(y, 1, false), false);
  EXPECT_EQ(less.IsAsOf(x, 1, false), true);  // by the others of the step
}

}  // namespace
}  // namespace tdump::compare
