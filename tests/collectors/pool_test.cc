#include "collectors/torch/pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace tdump::collectors {
namespace {

struct Counted {
  static std::atomic<int> alive;
  Counted() { ++alive; }
  ~Counted() { --alive; }
  std::string text;
  std::atomic<int> users{0};
};
std::atomic<int> Counted::alive{0};

TEST(Pool, GivesWhatItWasGivenWithItsMemory) {
  Pool<Counted> pool(4);
  Counted* const first = pool.Take();
  first->text.assign(100, 'x');
  const char* const memory = first->text.data();
  first->text.clear();
  pool.Give(first);
  Counted* const again = pool.Take();
  EXPECT_EQ(again, first);
  again->text.assign(100, 'y');
  EXPECT_EQ(again->text.data(), memory);
  pool.Give(again);
}

TEST(Pool, KeepsNoMoreThanItMayAndFreesTheRest) {
  {
    Pool<Counted> pool(2);
    const std::vector<Counted*> taken = {pool.Take(), pool.Take(), pool.Take(), pool.Take()};
    EXPECT_EQ(std::set<Counted*>(taken.begin(), taken.end()).size(), 4u);
    EXPECT_EQ(Counted::alive, 4);
    for (Counted* object : taken) pool.Give(object);
    EXPECT_EQ(Counted::alive, 2);
  }
  EXPECT_EQ(Counted::alive, 0);
}

TEST(Pool, NoObjectHasTwoUsers) {
  {
    Pool<Counted> pool(8);
    std::atomic<int> shared{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int k = 0; k < 20'000; ++k) {
          Counted* const object = pool.Take();
          if (object->users.fetch_add(1) != 0) ++shared;
          object->users.fetch_sub(1);
          pool.Give(object);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(shared, 0);
  }
  EXPECT_EQ(Counted::alive, 0);
}

}  // namespace
}  // namespace tdump::collectors
