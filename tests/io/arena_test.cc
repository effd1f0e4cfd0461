#include "io/arena.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

namespace tdump::io {
namespace {

struct Room {
  std::byte* data;
  uint64_t bytes;
  uint8_t mark;
};

TEST(Arena, SmallRoomsShareABlockThatComesBackWithTheLast) {
  Arena arena(64 << 10);
  ASSERT_TRUE(arena.Map());
  EXPECT_EQ(arena.used(), 0u);
  std::byte* a = arena.Take(100);
  std::byte* b = arena.Take(100);
  EXPECT_EQ(b - a, 128);  // rounded up to 64
  EXPECT_EQ(arena.used(), 4096u);
  // The next block retires this one: 4096 / 128 = 32 rooms in each.
  for (int i = 2; i < 33; ++i) ASSERT_NE(arena.Take(100), nullptr);
  EXPECT_EQ(arena.used(), 8192u);
  for (int i = 31; i >= 0; --i) arena.Give(a + 128 * i, 100);
  EXPECT_EQ(arena.used(), 4096u);
  EXPECT_EQ(arena.Take(5000), a + 2 * 4096);  // two granules behind the block in use
}

TEST(Arena, LargeRoomsAreTakenFromTheLowEnd) {
  Arena arena(64 << 10);
  ASSERT_TRUE(arena.Map());
  std::byte* a = arena.Take(20'000);  // 5 granules of 4 KiB
  std::byte* b = arena.Take(20'000);
  std::byte* c = arena.Take(20'000);
  EXPECT_EQ(b - a, 5 * 4096);
  EXPECT_EQ(c - b, 5 * 4096);
  EXPECT_EQ(arena.Take(20'000), nullptr);  // one granule is left
  EXPECT_EQ(arena.used(), 15u * 4096);
  arena.Give(b, 20'000);
  EXPECT_EQ(arena.Take(24'000), nullptr);  // 6 granules are free, but not in a row
  EXPECT_EQ(arena.Take(20'000), b);
  arena.Give(a, 20'000);
  arena.Give(b, 20'000);
  EXPECT_EQ(arena.Take(40'000), a);
}

// As under ulimit -v: more than any address space has.
TEST(Arena, WhatTheSystemRefusesIsMadeSmaller) {
  Arena arena(uint64_t{1} << 50);
  ASSERT_TRUE(arena.Map());
  EXPECT_LT(arena.capacity(), uint64_t{1} << 48);
  EXPECT_GT(arena.capacity(), uint64_t{1} << 20);
  std::byte* room = arena.Take(100);
  ASSERT_NE(room, nullptr);
  room[0] = room[99] = std::byte{1};
  EXPECT_EQ(arena.Take(uint64_t{1} << 49), nullptr);
}

// Each thread marks every byte of its rooms and sees its marks again when it gives them back. In
// the end nothing but the blocks being cut is taken.
TEST(Arena, NoTwoThreadsEverHaveTheSameBytes) {
  constexpr int kThreads = 6, kRounds = 4000;
  Arena arena(1 << 20);
  ASSERT_TRUE(arena.Map());
  std::atomic<uint64_t> held{0}, most{0}, refused{0}, wrong{0};
  std::vector<std::vector<Room>> left(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      std::vector<Room>& rooms = left[static_cast<size_t>(t)];
      const auto give = [&](size_t i) {
        const Room room = rooms[i];
        rooms[i] = rooms.back();
        rooms.pop_back();
        for (uint64_t b = 0; b < room.bytes; ++b)
          if (room.data[b] != std::byte{room.mark}) return void(++wrong);
        arena.Give(room.data, room.bytes);
        held -= room.bytes;
      };
      for (int round = 0; round < kRounds; ++round) {
        const uint64_t bytes = random() % 8 == 0 ? 1 + random() % 60'000 : 1 + random() % 700;
        std::byte* data = arena.Take(bytes);
        if (data == nullptr) {
          ++refused;
        } else {
          const auto mark = static_cast<uint8_t>(random());
          std::memset(data, mark, bytes);
          rooms.push_back({data, bytes, mark});
          const uint64_t now = held += bytes;
          for (uint64_t seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
          }
        }
        const bool full = data == nullptr;
        while (!rooms.empty() && (full ? rooms.size() > 4 : random() % 4 == 0))
          give(random() % rooms.size());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t t = 0; t < left.size(); ++t) {
    for (const Room& room : left[t]) {
      EXPECT_EQ(room.data[room.bytes - 1], std::byte{room.mark});
      arena.Give(room.data, room.bytes);
    }
  }
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(refused, 0u);
  EXPECT_LE(most, arena.capacity());
  EXPECT_LE(arena.used(), arena.capacity() / 8);  // each stripe keeps the block it cuts from
}

}  // namespace
}  // namespace tdump::io
