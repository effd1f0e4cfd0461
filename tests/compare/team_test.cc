// One comparison shared by several processes, here threads: the report is that of one.
#include "compare/team.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "compare/diff.h"
#include "compare/pass_diff_archive.h"
#include "compare/report.h"
#include "tests/compare/fake_run.h"

namespace tdump::compare {
namespace {

// What the processes of a team have in common.
class World {
 public:
  explicit World(int size) : size_(size) {}

  int size() const { return size_; }
  void Send(int from, std::string_view bytes) {
    const std::lock_guard lock(mutex_);
    sent_[from].emplace_back(bytes);
    arrived_.notify_all();
  }
  std::string Receive(int from) {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [&] { return !sent_[from].empty(); });
    std::string bytes = std::move(sent_[from].front());
    sent_[from].pop_front();
    return bytes;
  }

 private:
  const int size_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<int, std::deque<std::string>> sent_;
};

class Member : public Team {
 public:
  Member(World* world, int rank) : world_(world), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return world_->size(); }
  Status Send(std::string_view bytes) override { return world_->Send(rank_, bytes), Status(); }
  Result<std::string> Receive(int from) override { return world_->Receive(from); }
  Result<int> Largest(int value) override { return value; }

 private:
  World* world_;
  int rank_;
};

// Three ranks, four steps; rank 1 goes wrong in step 2, one payload of rank 2 cannot be read.
void Fill(FakeRun* run, bool faulty) {
  const auto values = [](float x) { return Vector<float>("float32", {x, 2 * x, 3 * x}); };
  for (uint64_t step = 0; step < 4; ++step) {
    for (int32_t rank = 0; rank < 3; ++rank) {
      const float x = static_cast<float>(step + 1),
                  wrong = faulty && rank == 1 && step >= 2 ? 9 : 0;
      PassBuilder pass = run->Pass(rank, step);
      pass.Param("a", "weight", values(0.5f));
      pass.Module("a", values(x), values(2 * x + wrong));
      pass.Module("b", values(2 * x + wrong), values(3 * x + 2 * wrong));
      if (faulty && rank == 2 && step == 3) {
        pass.Module("c", values(x), values(x + 1));
        pass.Damage(7);
      } else {
        pass.Module("c", values(x), values(x));
      }
    }
  }
}

std::string Report(const FakeRun& a, const FakeRun& b, Team* team, unsigned threads) {
  DiffOptions options;
  options.top = ~size_t{0};
  options.pass.threads = threads;
  options.team = team;
  const CapturedRun left = a.side(), right = b.side();
  const Result<DiffReport> report = Diff(left, right, options);
  EXPECT_TRUE(report.ok());
  return report.ok() ? RenderJson(*report, left.Describe(), right.Describe(), false) : "";
}

TEST(TeamTest, AnyNumberOfProcessesGivesTheReportOfOne) {
  FakeRun a(3), b(3);
  Fill(&a, false);
  Fill(&b, true);
  const std::string alone = Report(a, b, nullptr, 1);
  EXPECT_NE(alone.find("\"damaged\""), std::string::npos);
  for (const int size : {1, 2, 3, 5, 20}) {
    SCOPED_TRACE(size);
    World world(size);
    std::vector<std::thread> others;
    for (int rank = 1; rank < size; ++rank) {
      others.emplace_back([&, rank] {
        Member member(&world, rank);
        Report(a, b, &member, 2);
      });
    }
    Member first(&world, 0);
    EXPECT_EQ(Report(a, b, &first, 2), alone);
    for (std::thread& other : others) other.join();
  }
}

TEST(TeamTest, AnArchiveThatIsCutIsAnError) {
  PassDiff diff;
  diff.outcomes.resize(3);
  diff.outcomes[1].error = "pass.tdp: offset 4096: digest";
  diff.outcomes[2].comparison.metrics.Edit().elements = 5;
  diff.outcomes[2].comparison.metrics.Edit().cosine = 0.5;
  diff.only_a = {1, 2};
  diff.calls[7].path = "layer";
  diff.damage.push_back({"pass.tdp", 4096, "digest"});
  const std::string bytes = ArchivePassDiff(diff, nullptr);
  const auto whole = UnarchivePassDiff(bytes, nullptr);
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->outcomes.size(), 3u);
  EXPECT_EQ(whole->outcomes[1].error, diff.outcomes[1].error);
  EXPECT_EQ(whole->outcomes[2].comparison.metrics->cosine, 0.5);
  EXPECT_EQ(whole->only_a, diff.only_a);
  EXPECT_EQ(whole->calls.at(7).path, "layer");
  EXPECT_EQ(whole->damage.at(0).what, "digest");
  for (size_t cut = 0; cut < bytes.size(); cut += 7)
    EXPECT_FALSE(UnarchivePassDiff(std::string_view(bytes).substr(0, cut), nullptr).ok());
}

}  // namespace
}  // namespace tdump::compare
