#include "compare/late_pair.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/compare/fake_run.h"

namespace tdump::compare {
namespace {

// Counts how often a pass is opened; fails where it should.
class CountedRun : public CapturedRun {
 public:
  explicit CountedRun(const FakeRun& run, Status status = {})
      : CapturedRun(run.side()), status_(std::move(status)) {}

  Result<std::unique_ptr<StepView>> Open(const PassRef& pass) const override {
    ++opened_;
    if (!status_.ok()) return status_;
    return CapturedRun::Open(pass);
  }
  int opened() const { return opened_; }

 private:
  const Status status_;
  mutable std::atomic<int> opened_{0};
};

FakeRun OneModule(const std::string& name) {
  const Tensor value = Vector<float>("float32", {1, 2});
  FakeRun run(1);
  run.Pass(0, 0).Module(name, value, value);
  return run;
}

std::string PathIn(const Result<std::unique_ptr<StepView>>& view) {
  return view.ok() ? (*view)->Get(1)->key.path : view.status().message();
}

TEST(LatePair, IsOpenedOnceWhenTheFirstViewIsAskedFor) {
  const FakeRun left = OneModule("left"), right = OneModule("right");
  const CountedRun a(left), b(right);
  LatePair pair(a, b, {a.passes()[0], b.passes()[0]});
  EXPECT_EQ(a.opened() + b.opened(), 0);
  EXPECT_EQ(PathIn(pair.TakeB()), "right");
  EXPECT_EQ(PathIn(pair.TakeA()), "left");
  EXPECT_EQ(a.opened(), 1);
  EXPECT_EQ(b.opened(), 1);
}

TEST(LatePair, BothViewsMayBeAskedForAtOnce) {
  const FakeRun left = OneModule("left"), right = OneModule("right");
  const CountedRun a(left), b(right);
  LatePair pair(a, b, {a.passes()[0], b.passes()[0]});
  std::string of_a;
  std::thread other([&] { of_a = PathIn(pair.TakeA()); });
  EXPECT_EQ(PathIn(pair.TakeB()), "right");
  other.join();
  EXPECT_EQ(of_a, "left");
  EXPECT_EQ(a.opened(), 1);
}

TEST(LatePair, OneThatCannotBeOpenedIsTheErrorOfBoth) {
  const FakeRun left = OneModule("left"), right = OneModule("right");
  const CountedRun a(left), b(right, Corrupt("gone"));
  LatePair pair(a, b, {a.passes()[0], b.passes()[0]});
  EXPECT_EQ(PathIn(pair.TakeA()), "gone");
  EXPECT_EQ(PathIn(pair.TakeB()), "gone");
  EXPECT_EQ(b.opened(), 1);
}

}  // namespace
}  // namespace tdump::compare
