#include "core/fork_mutex.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <thread>

#include <gtest/gtest.h>

namespace tdump {
namespace {

using namespace std::chrono_literals;

// The status of a child that runs `work`; a child that hangs is ended by the alarm.
template <typename Work>
int InChild(Work work) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::alarm(20);
    ::_exit(work() ? 0 : 1);
  }
  int status = -1;
  ::waitpid(pid, &status, 0);
  return status;
}

// A thread that writes two numbers that are equal whenever the lock is free.
template <typename Mutex>
struct Writer {
  Writer() {
    thread = std::thread([this] {
      while (!stop) {
        {
          std::lock_guard lock(mutex);
          ++first;
          for (volatile int i = 0; i < 2'000; i = i + 1) {
          }
          ++second;
        }
        std::this_thread::yield();
        for (volatile int i = 0; i < 1'000; i = i + 1) {
        }
      }
    });
  }
  ~Writer() {
    stop = true;
    thread.join();
  }

  Mutex mutex;
  volatile int first = 0, second = 0;
  std::atomic<bool> stop{false};
  std::thread thread;
};

TEST(ForkMutex, AChildFindsItFreeAndWhatItGuardsWhole) {
  Writer<ForkMutex> one, other;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(InChild([&] {
                std::scoped_lock both(one.mutex, other.mutex);
                return one.first == one.second && other.first == other.second;
              }),
              0);
  }
}

TEST(ForkMutex, OneThatIsHeldForLongIsFreeInTheChildAllTheSame) {
  ForkMutex mutex;
  ForkSafe<std::shared_mutex> shared;
  std::atomic<bool> holds{false}, done{false};
  std::thread holder([&] {
    std::lock_guard lock(mutex);
    std::shared_lock reading(shared);
    holds = true;
    while (!done) std::this_thread::sleep_for(1ms);
  });
  while (!holds) std::this_thread::yield();
  const auto began = std::chrono::steady_clock::now();
  EXPECT_EQ(InChild([&] { return mutex.try_lock() && shared.try_lock(); }), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - began, 10s);
  EXPECT_FALSE(mutex.try_lock());  // still of the thread that holds it
  done = true;
  holder.join();
  EXPECT_TRUE(mutex.try_lock());
  mutex.unlock();
}

TEST(ForkMutex, TheParentGoesOnWithAllOfThem) {
  auto gone = std::make_unique<ForkMutex>();
  ForkMutex kept;
  EXPECT_EQ(InChild([] { return true; }), 0);
  gone.reset();
  ForkMutex late;
  EXPECT_EQ(InChild([&] { return kept.try_lock() && late.try_lock(); }), 0);
  EXPECT_TRUE(kept.try_lock());
  EXPECT_TRUE(late.try_lock());
  late.unlock();
  kept.unlock();
}

}  // namespace
}  // namespace tdump
