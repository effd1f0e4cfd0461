#include "compare/spill_file.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace tdump::compare {
namespace {

std::string Piece(size_t i) { return std::to_string(i) + std::string(i % 700, 'x'); }

SpillOptions In(Env* env, uint64_t in_memory = 0) {
  return {.env = env, .directory = "/tmp", .in_memory = in_memory};
}

class SpillFileTest : public testing::Test {
 protected:
  SpillFileTest() { EXPECT_TRUE(memory_->MakeDirs("/tmp", 0700).ok()); }
  // Fails every call of a name, from the n-th of them on.
  std::unique_ptr<Env> Failing(std::string name, int from, int error) {
    auto seen = std::make_shared<std::atomic<int>>(0);
    return NewFaultyEnv(memory_.get(), [=](uint64_t, std::string_view call, std::string_view) {
      return call == name && (*seen)++ >= from ? error : 0;
    });
  }

  std::unique_ptr<Env> memory_ = NewMemoryEnv();
};

TEST_F(SpillFileTest, WhatWasAddedComesBackInAnyOrder) {
  SpillFile file(In(memory_.get()));
  constexpr size_t kPieces = 5000;  // 1.7 MiB
  std::vector<uint64_t> places;
  for (size_t i = 0; i < kPieces; ++i) places.push_back(file.Add(Piece(i)).value());
  for (size_t i = 0; i < kPieces; ++i) ASSERT_EQ(file.Get(places[i]), Piece(i));
  for (size_t i = 0; i < kPieces; ++i) {
    const size_t any = i * 1009 % kPieces;
    ASSERT_EQ(file.Get(places[any]), Piece(any));
  }
  EXPECT_TRUE(file.status().ok());
  EXPECT_GT(places.back(), 40 * SpillFile::kBlock);
}

TEST_F(SpillFileTest, TheFileHasNoName) {
  SpillFile file(In(memory_.get()));
  for (size_t i = 0; i < 1000; ++i) (void)file.Add(Piece(i));
  EXPECT_TRUE(memory_->List("/tmp")->empty());
}

TEST_F(SpillFileTest, TheFirstBytesAndLargePiecesAreRefused) {
  SpillFile file(In(memory_.get(), 2000));
  size_t refused = 0;
  while (!file.Add(std::string(96, 'x'))) ++refused;
  EXPECT_EQ(refused, 20u);  // four bytes tell the length
  EXPECT_FALSE(file.Add(std::string(SpillFile::kBlock, 'x')));
  const auto whole = file.Add(std::string(SpillFile::kBlock - 4, 'y'));
  EXPECT_EQ(file.Get(whole.value()), std::string(SpillFile::kBlock - 4, 'y'));
}

TEST_F(SpillFileTest, SeveralThreadsMayAddAndGet) {
  SpillFile file(In(memory_.get()));
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (size_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      std::map<size_t, uint64_t> places;
      for (size_t i = thread; i < 4000; i += 4) {
        places[i] = file.Add(Piece(i)).value();
        const auto first = places.begin();
        wrong += file.Get(first->second) != Piece(first->first);
      }
      for (const auto& [i, place] : places) wrong += file.Get(place) != Piece(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// Pieces that were taken stay; the caller keeps the others.
TEST_F(SpillFileTest, AFullDiskRefusesWhatComesThen) {
  for (const int writes : {0, 3}) {
    const auto env = Failing("write", writes, ENOSPC);
    SpillFile file(In(env.get()));
    std::vector<uint64_t> places;
    for (size_t i = 0;; ++i) {
      const auto place = file.Add(Piece(i));
      if (!place) break;
      places.push_back(*place);
    }
    EXPECT_GT(places.back(), static_cast<uint64_t>(writes) * SpillFile::kBlock);
    EXPECT_LT(places.back(), static_cast<uint64_t>(writes + 1) * SpillFile::kBlock);
    EXPECT_FALSE(file.Add("x"));
    for (size_t i = 0; i < places.size(); ++i) ASSERT_EQ(file.Get(places[i]), Piece(i));
    EXPECT_TRUE(file.status().ok());
  }
}

TEST_F(SpillFileTest, ADirectoryThatIsMissingRefusesToo) {
  SpillFile file({.env = memory_.get(), .directory = "/no/such", .in_memory = 0});
  std::vector<uint64_t> places;
  while (const auto place = file.Add(Piece(places.size()))) places.push_back(*place);
  for (size_t i = 0; i < places.size(); ++i) ASSERT_EQ(file.Get(places[i]), Piece(i));
}

TEST_F(SpillFileTest, AFileThatCannotBeOpenedAgainIsRemoved) {
  const auto env = Failing("open", 1, EMFILE);
  SpillFile file(In(env.get()));
  size_t added = 0;
  while (file.Add(Piece(added))) ++added;
  EXPECT_LT(added * 4, SpillFile::kBlock);
  EXPECT_TRUE(memory_->List("/tmp")->empty());
}

TEST_F(SpillFileTest, WhatCannotBeReadIsTold) {
  const auto env = Failing("read", 0, EIO);
  SpillFile file(In(env.get()));
  const uint64_t first = file.Add("first").value();
  for (size_t i = 0; i < 1000; ++i) (void)file.Add(Piece(i));
  const uint64_t last = file.Add("last").value();
  EXPECT_EQ(file.Get(last), "last");  // not written yet
  EXPECT_TRUE(file.status().ok());
  EXPECT_EQ(file.Get(first), "");
  EXPECT_FALSE(file.status().ok());
}

}  // namespace
}  // namespace tdump::compare
