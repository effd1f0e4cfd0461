#include "compare/ordered_work.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace tdump::compare {
namespace {

// As std::thread's constructor where the system has no thread to give.
struct NoThread {
  NoThread() = default;
  NoThread(const NoThread&) { throw std::system_error(EAGAIN, std::generic_category()); }
  void operator()() const {}
};

TEST(AddThread, WhereThereIsNoneIsNoError) {
  std::vector<std::thread> threads;
  const NoThread work;
  EXPECT_FALSE(AddThread(&threads, work));
  EXPECT_TRUE(threads.empty());
  EXPECT_TRUE(AddThread(&threads, [] {}));
  ASSERT_EQ(threads.size(), 1u);
  threads[0].join();
}

TEST(OrderedWork, ResultsComeInOrderWhateverTheThreads) {
  for (const unsigned threads : {1u, 2u, 7u}) {
    std::vector<size_t> order;
    std::mutex mutex;
    std::set<unsigned> used;
    RunInOrder(
        50, threads,
        [&](unsigned thread, size_t piece) {
          {
            const std::lock_guard lock(mutex);
            used.insert(thread);
          }
          if (piece % 5 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
          return piece * piece;
        },
        [&](size_t piece, size_t&& result) {
          EXPECT_EQ(result, piece * piece);
          order.push_back(piece);
          return true;
        });
    ASSERT_EQ(order.size(), 50u);
    for (size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], i);
    for (const unsigned thread : used) EXPECT_LT(thread, threads);
  }
}

TEST(OrderedWork, NoMoreThanTwoAThreadWait) {
  std::atomic<size_t> made{0}, handed{0};
  RunInOrder(
      200, 4,
      [&](unsigned, size_t piece) {
        // What is taken but not handed on yet: the waiting ones and those in work.
        EXPECT_LE(made.fetch_add(1) - handed.load(), 4u * 2 + 4);
        return piece;
      },
      [&](size_t, size_t&&) {
        ++handed;
        return true;
      });
  EXPECT_EQ(handed, 200u);
}

TEST(OrderedWork, StopsWhenTold) {
  std::atomic<size_t> made{0};
  size_t last = 0;
  RunInOrder(
      1000, 3,
      [&](unsigned, size_t piece) {
        ++made;
        return piece;
      },
      [&](size_t piece, size_t&&) {
        last = piece;
        return piece < 10;
      });
  EXPECT_EQ(last, 10u);
  EXPECT_LE(made, 10u + 1 + 2 * 3 + 3);
}

TEST(OrderedWork, NothingToDoEndsAtOnce) {
  RunInOrder(
      0, 4, [](unsigned, size_t) { return ADD_FAILURE(), 0; }, [](size_t, int&&) { return true; });
}

}  // namespace
}  // namespace tdump::compare
