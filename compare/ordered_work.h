// RunInOrder: numbered pieces of work on several threads, their results handed on in order, so that
// what is made of them does not depend on the number of threads.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <map>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/add_thread.h"

namespace tdump::compare {

// Calls produce(thread, piece) for pieces 0 .. count - 1, on `threads` threads at a time, the
// calling one among them (thread 0); and consume(piece, result) for each, in order, never two at
// once, on any of them. consume returns false to stop. At most 2 * threads results wait. A thread
// for which nothing is left to do calls idle().
template <class Produce, class Consume, class Idle>
void RunInOrder(size_t count, unsigned threads, const Produce& produce, const Consume& consume,
                const Idle& idle) {
  using Result = std::invoke_result_t<Produce, unsigned, size_t>;
  threads = static_cast<unsigned>(std::clamp<size_t>(threads, 1, std::max<size_t>(1, count)));
  std::mutex mutex;
  std::condition_variable moved;
  std::map<size_t, Result> waiting;
  size_t next = 0, consumed = 0;
  bool consuming = false, stop = false;

  const auto hand_on = [&](std::unique_lock<std::mutex>* lock) {
    if (consuming) return;  // the thread that does will take it
    consuming = true;
    while (!stop && !waiting.empty() && waiting.begin()->first == consumed) {
      auto first = waiting.extract(waiting.begin());
      lock->unlock();
      const bool go_on = consume(first.key(), std::move(first.mapped()));
      lock->lock();
      ++consumed;
      stop |= !go_on;
      moved.notify_all();
    }
    consuming = false;
  };
  const auto work = [&](unsigned thread) {
    std::unique_lock lock(mutex);
    while (true) {
      moved.wait(lock, [&] { return stop || next >= count || next < consumed + 2 * threads; });
      if (stop || next >= count) break;
      const size_t piece = next++;
      lock.unlock();
      Result result = produce(thread, piece);
      lock.lock();
      waiting.emplace(piece, std::move(result));
      hand_on(&lock);
    }
    idle();
  };
  std::vector<std::thread> others;
  for (unsigned thread = 1; thread < threads && AddThread(&others, work, thread);) ++thread;
  work(0);
  for (std::thread& other : others) other.join();
}

template <class Produce, class Consume>
void RunInOrder(size_t count, unsigned threads, const Produce& produce, const Consume& consume) {
  RunInOrder(count, threads, produce, consume, [] {});
}

}  // namespace tdump::compare
