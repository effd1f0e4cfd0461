#include "compare/shared_pairs.h"

#include <gtest/gtest.h>

#include "compare/job_pairs.h"
#include "io/value_parts.h"
#include "tests/compare/diff_runs.h"

namespace tdump::compare {
namespace {

// One of three processes that say nothing to each other.
class Alone : public Team {
 public:
  int rank() const override { return 0; }
  int size() const override { return 3; }
  Status Send(std::string_view) override { return {}; }
  Result<std::string> Receive(int) override { return NotFound("nobody"); }
  Result<int> Largest(int value) override { return value; }
};

Tensor Values(int64_t count) {
  return Vector<float>("float32", std::vector<float>(static_cast<size_t>(count), 1.5f));
}

Tensor Statistics(int64_t count) {
  Tensor tensor = Values(count);
  io::Record& record = tensor.record;
  const io::ValueParts made = io::PartsOf(Keep(kPartStats), Content::kWhole, record.dtype,
                                          record.sizes, record.strides, tensor.payload);
  record.statistics = *io::FromSection(*made.statistics);
  record.hash.reset();
  record.payload.reset();
  return tensor;
}

Tensor WithoutHash(Tensor tensor) {
  tensor.record.hash.reset();
  return tensor;
}

// Six tensors of which one side has the values and the other one statistics, of which two are
// large: no process has both.
TEST(SharedPairs, ValuesOfOneSideAreDealtBySize) {
  FakeRun a(1), b(1);
  PassBuilder of_a = a.Pass(0, 0), of_b = b.Pass(0, 0);
  for (const int64_t count : {1'000'000, 10, 10, 1'000'000, 10, 10}) {
    const bool swapped = count == 10;
    of_a.Tap("model", "tap", swapped ? Statistics(count) : WithoutHash(Values(count)));
    of_b.Tap("model", "tap", swapped ? WithoutHash(Values(count)) : Statistics(count));
  }
  const CapturedRun run_a = a.side(), run_b = b.side();
  const auto side_a = JobSide::Make(&run_a, {}, ""), side_b = JobSide::Make(&run_b, {}, "");
  ASSERT_TRUE(side_a.ok() && side_b.ok());
  const auto pairing = PairPasses(*side_a, *side_b, {});
  ASSERT_TRUE(pairing.ok());
  const JobOptions options;
  JobPairs pairs(&*side_a, &*side_b, &options);
  auto opened = pairs.Open(pairing->pairs.front(), [](const io::Record&) { return true; });
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  PassDiff diff;
  for (const RecordIds& ids : opened->pairing.pairs) {
    Outcome& outcome = diff.outcomes.emplace_back();
    outcome.ids = ids;
  }
  diff.a = std::move(opened->a);
  diff.b = std::move(opened->b);
  ASSERT_EQ(diff.outcomes.size(), 6u);
  Alone team;
  SharedPairs shared(&team, nullptr);
  shared.Deal(diff);
  EXPECT_TRUE(shared.IsOwn(0));
  EXPECT_FALSE(shared.IsOwn(3));
}

}  // namespace
}  // namespace tdump::compare
