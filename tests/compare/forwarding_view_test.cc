// Views that are another one: of one that is owned, and of one that is opened late.
#include "compare/forwarding_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compare/late_view.h"
#include "compare/run_side.h"

namespace tdump::compare {
namespace {

using testing::SizeIs;

// Says of everything something else than a StepView that does not know.
class Knowing : public StepView {
 public:
  explicit Knowing(bool* stored) : stored_(stored) { record_.id = 7; }

  Status ForEachTensor(const VisitTensor& visit) const override {
    visit(record_);
    return Corrupt("tensors");
  }
  Result<io::Record> Get(uint64_t id) const override {
    return id == 7 ? Result<io::Record>(record_) : NotFound("get");
  }
  const io::Record* Known(uint64_t) const override { return &record_; }
  Result<ReadBytes> Open(const io::Record&) const override { return Corrupt("open"); }
  std::optional<Summary> SummaryOf(const io::Record&) const override { return Summary{.max = 3}; }
  Status ForEachCall(const VisitCall&) const override { return Corrupt("calls"); }
  const std::vector<io::Damage>& damage() const override { return damage_; }
  bool is_assembled() const override { return true; }
  bool dequantises() const override { return true; }
  void ShowStored(const std::function<bool(const io::Record& stored)>& picks) override {
    *stored_ = picks(record_);
  }
  std::string LayoutOf(uint64_t) const override { return "layout"; }
  bool IsJoined(uint64_t) const override { return true; }
  std::vector<int32_t> RanksApart(uint64_t id) const override { return {static_cast<int32_t>(id)}; }
  Status StateOf(uint64_t) const override { return Corrupt("state"); }
  std::string DimsOfMean(uint64_t, uint64_t times) const override {
    return std::string(times, 'd');
  }
  std::string DimsOfAgreeingMean(uint64_t) const override { return "agreeing"; }
  int32_t RankAt(uint64_t id, std::span<const uint64_t>) const override {
    return static_cast<int32_t>(id);
  }

 private:
  bool* const stored_;
  io::Record record_;
  const std::vector<io::Damage> damage_ = std::vector<io::Damage>(2);
};

void ExpectForwards(StepView* view, const bool& stored) {
  std::vector<uint64_t> ids;
  EXPECT_EQ(view->ForEachTensor([&](const io::Record& record) {
                  ids.push_back(record.id);
                  return true;
                })
                .message(),
            "tensors");
  EXPECT_THAT(ids, SizeIs(1));
  EXPECT_EQ(view->Get(7)->id, 7u);
  ASSERT_NE(view->Known(1), nullptr);
  EXPECT_EQ(view->Known(1)->id, 7u);
  EXPECT_EQ(view->Open({}).status().message(), "open");
  ASSERT_TRUE(view->SummaryOf({}));
  EXPECT_EQ(view->SummaryOf({})->max, 3);
  EXPECT_EQ(view->ForEachCall([](const io::CallRecord&) { return true; }).message(), "calls");
  EXPECT_TRUE(view->is_assembled());
  EXPECT_TRUE(view->dequantises());
  view->ShowStored([](const io::Record& record) { return record.id == 7; });
  EXPECT_TRUE(stored);
  EXPECT_EQ(view->LayoutOf(1), "layout");
  EXPECT_EQ(view->StateOf(1).message(), "state");
  EXPECT_EQ(view->DimsOfMean(1, 4), "dddd");
  EXPECT_EQ(view->DimsOfAgreeingMean(1), "agreeing");
  EXPECT_EQ(view->RankAt(5, {}), 5);
  EXPECT_TRUE(view->IsJoined(1));
  EXPECT_EQ(view->RanksApart(5), std::vector<int32_t>{5});
}

TEST(WrappedView, ForwardsEverything) {
  bool stored = false;
  WrappedView view(std::make_unique<Knowing>(&stored));
  ExpectForwards(&view, stored);
  EXPECT_THAT(view.damage(), SizeIs(2));
}

TEST(LateView, ForwardsEverythingToWhatItOpensOnce) {
  bool stored = false;
  int opened = 0;
  LateView view([&] {
    ++opened;
    return Result<std::unique_ptr<StepView>>(std::make_unique<Knowing>(&stored));
  });
  EXPECT_THAT(view.damage(), SizeIs(0));
  EXPECT_EQ(opened, 0);
  ExpectForwards(&view, stored);
  EXPECT_EQ(opened, 1);
}

TEST(LateView, WhatCannotBeOpenedIsTheErrorOfEveryCall) {
  LateView view([]() -> Result<std::unique_ptr<StepView>> { return Corrupt("gone"); });
  EXPECT_EQ(view.ForEachTensor([](const io::Record&) { return true; }).message(), "gone");
  EXPECT_EQ(view.Get(1).status().message(), "gone");
  EXPECT_EQ(view.Open({}).status().message(), "gone");
  EXPECT_EQ(view.ForEachCall([](const io::CallRecord&) { return true; }).message(), "gone");
  EXPECT_EQ(view.StateOf(1).message(), "gone");
  EXPECT_EQ(view.Known(1), nullptr);
  EXPECT_FALSE(view.SummaryOf({}) || view.is_assembled() || view.dequantises());
  EXPECT_EQ(view.RankAt(1, {}), kAllRanks);
  EXPECT_FALSE(view.IsJoined(1));
  EXPECT_THAT(view.RanksApart(1), SizeIs(0));
}

}  // namespace
}  // namespace tdump::compare
