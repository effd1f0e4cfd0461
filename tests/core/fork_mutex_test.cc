#include "core/fork_mutex.h"

#include <signal.h>
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

// A writer may be kept from the processor for 100 ms while it holds its lock; not in one of ten.
TEST(ForkMutex, AChildFindsItFreeAndWhatItGuardsWhole) {
  Writer<ForkMutex> one, other;
  int whole = 0;
  for (int i = 0; i < 100; ++i) {
    whole += InChild([&] {
               std::scoped_lock both(one.mutex, other.mutex);
               return one.first == one.second && other.first == other.second;
             }) == 0;
  }
  EXPECT_GE(whole, 90);
}

TEST(ForkMutex, LocksComeAndGoWhileAnotherThreadForks) {
  std::atomic<bool> stop{false};
  std::thread maker([&] {
    while (!stop) {
      auto first = std::make_unique<ForkMutex>();
      ForkMutex second;
      first.reset();
      std::lock_guard lock(second);
    }
  });
  ForkMutex mine;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(InChild([&] {
                ForkMutex fresh;
                std::scoped_lock both(mine, fresh);
                return true;
              }),
              0);
  }
  stop = true;
  maker.join();
}

volatile sig_atomic_t forked = 0;

TEST(ForkMutex, ASignalHandlerMayForkWhileItsThreadDoes) {
  ForkMutex mutex;
  std::atomic<bool> holds{false}, done{false};
  std::thread holder([&] {
    std::lock_guard lock(mutex);
    holds = true;
    while (!done) std::this_thread::sleep_for(1ms);
  });
  while (!holds) std::this_thread::yield();
  struct sigaction action = {}, before;
  action.sa_handler = [](int) { forked = InChild([] { return true; }) == 0 ? 1 : 2; };
  ::sigaction(SIGALRM, &action, &before);
  ::ualarm(20'000, 0);  // while the fork waits for the lock
  EXPECT_EQ(InChild([&] { return mutex.try_lock(); }), 0);
  EXPECT_EQ(forked, 1);
  ::sigaction(SIGALRM, &before, nullptr);
  done = true;
  holder.join();
  EXPECT_TRUE(mutex.try_lock());
  mutex.unlock();
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
