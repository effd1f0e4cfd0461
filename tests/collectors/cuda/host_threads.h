// Plays a CUDA kernel on the host: the threads of a block take turns on one host thread, and change
// at barriers and warp exchanges only, where the language lets them meet. Enough of the language
// for collectors/cuda/kernels.cu. Blocks run one after another.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#define __global__
#define __device__
#define __noinline__
#define __constant__
#define __shared__ static
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

namespace tdump::play {

struct Index {
  unsigned x = 0;
};

class Block {
 public:
  // Runs `thread` once for each of `threads` threads, the index in CurrentThread().
  void Run(unsigned threads, const std::function<void()>& thread) {
    body_ = &thread;
    fibers_ = std::vector<Fiber>(threads);
    exchange_.assign(threads, 0);
    for (unsigned i = 0; i < threads; ++i) Prepare(i);
    while (left_ > 0) {
      for (current_ = 0; current_ < threads; ++current_) {
        if (fibers_[current_].done) continue;
        swapcontext(&main_, &fibers_[current_].context);
      }
    }
  }
  unsigned current() const { return current_; }
  // Back when every thread of the block has come here.
  void Barrier() {
    const unsigned round = rounds_;
    if (++arrived_ == fibers_.size()) {
      arrived_ = 0;
      ++rounds_;
    }
    while (rounds_ == round) Yield();
  }
  // What each thread of the caller's warp gave.
  void Exchange(uint64_t mine, uint64_t* all) {
    exchange_[current_] = mine;
    Yield();
    std::memcpy(all, &exchange_[current_ / 32 * 32], 32 * sizeof(uint64_t));
    Yield();
  }

  static Block*& Current() {
    static Block* block = nullptr;
    return block;
  }

 private:
  static constexpr size_t kStack = 256 * 1024;
  struct Fiber {
    ucontext_t context{};
    std::unique_ptr<char[]> stack;
    bool done = false;
  };
  // Every other thread runs once. The threads of a warp do the same exchanges in the same order.
  void Yield() { swapcontext(&fibers_[current_].context, &main_); }
  static void Enter() {
    Block* block = Current();
    (*block->body_)();
    Fiber& fiber = block->fibers_[block->current_];
    fiber.done = true;
    --block->left_;
    swapcontext(&fiber.context, &block->main_);
  }
  void Prepare(unsigned i) {
    Fiber& fiber = fibers_[i];
    fiber.stack.reset(new char[kStack]);
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStack;
    makecontext(&fiber.context, &Enter, 0);
    ++left_;
  }

  const std::function<void()>* body_ = nullptr;
  std::vector<Fiber> fibers_;
  std::vector<uint64_t> exchange_;
  ucontext_t main_{};
  unsigned current_ = 0, left_ = 0, arrived_ = 0, rounds_ = 0;
};

template <class T>
uint64_t ToWord(T value) {
  uint64_t word = 0;
  std::memcpy(&word, &value, sizeof value);
  return word;
}
template <class T>
T Shuffle(T value, unsigned from) {
  uint64_t all[32];
  Block::Current()->Exchange(ToWord(value), all);
  std::memcpy(&value, &all[from], sizeof value);
  return value;
}

inline Index grid_dim, block_dim, block_index;

template <class Kernel, class Arguments>
void Launch(Kernel kernel, unsigned blocks, unsigned threads, const Arguments& arguments) {
  grid_dim.x = blocks;
  block_dim.x = threads;
  for (unsigned i = 0; i < blocks; ++i) {
    block_index.x = i;
    Block block;
    Block::Current() = &block;
    block.Run(threads, [&] { kernel(arguments); });
  }
}

}  // namespace tdump::play

#define threadIdx (tdump::play::Index{tdump::play::Block::Current()->current()})
#define blockIdx tdump::play::block_index
#define blockDim tdump::play::block_dim
#define gridDim tdump::play::grid_dim

inline void __syncwarp() {
  uint64_t all[32];
  tdump::play::Block::Current()->Exchange(0, all);
}
inline void __syncthreads() { tdump::play::Block::Current()->Barrier(); }
template <class T>
T __shfl_sync(unsigned, T value, unsigned from) {
  return tdump::play::Shuffle(value, from);
}
template <class T>
T __shfl_xor_sync(unsigned, T value, unsigned mask) {
  return tdump::play::Shuffle(value, (tdump::play::Block::Current()->current() % 32) ^ mask);
}
template <class T>
T atomicAdd(T* to, T value) {
  const T before = *to;
  *to += value;
  return before;
}
using std::min;
