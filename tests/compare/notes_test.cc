#include "compare/notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

#include "core/env.h"

namespace tdump::compare {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

SpillOptions In(Env* env) { return {.env = env, .directory = "/tmp", .in_memory = 0}; }

std::unique_ptr<Env> WithTmp() {
  auto env = NewMemoryEnv();
  EXPECT_TRUE(env->MakeDirs("/tmp", 0700).ok());
  return env;
}

TEST(Notes, ReadLikeAVector) {
  Notes notes;
  EXPECT_TRUE(notes.empty());
  EXPECT_THAT(notes, IsEmpty());
  EXPECT_TRUE(Notes(Notes::List{}).empty());
  notes.push_back("first");
  notes.push_back("");
  notes.push_back("last");
  EXPECT_FALSE(notes.empty());
  EXPECT_EQ(notes.size(), 3u);
  EXPECT_EQ(notes.front(), "first");
  EXPECT_EQ(notes[1], "");
  EXPECT_EQ(notes.back(), "last");
  EXPECT_THAT(notes, ElementsAre("first", "", "last"));
  EXPECT_THAT(notes.Copy(), ElementsAre("first", "", "last"));
  EXPECT_NE(std::find(notes.begin(), notes.end(), "last"), notes.end());
  EXPECT_EQ(std::find(notes.begin(), notes.end(), "none"), notes.end());
}

TEST(Notes, OfAFileMoreAreTaken) {
  const auto env = WithTmp();
  Notes copy, moved;
  {
    SpillFile file(In(env.get()));
    Notes notes = {"first", "second"};
    notes.MoveTo(&file);
    EXPECT_EQ(notes.size(), 2u);
    copy = notes;
    notes.push_back("third");
    EXPECT_THAT(notes, ElementsAre("first", "second", "third"));
    EXPECT_THAT(copy, ElementsAre("first", "second"));
    notes.MoveTo(&file);
    moved = std::move(notes);
    EXPECT_THAT(moved, ElementsAre("first", "second", "third"));
    moved.push_back("fourth");  // from here on in memory
  }
  EXPECT_THAT(copy, ElementsAre("first", "second"));
  EXPECT_THAT(moved, ElementsAre("first", "second", "third", "fourth"));
}

// As those of a pass that stands for others are.
TEST(Notes, OfAFileMayBeReadBySeveralThreads) {
  const auto env = WithTmp();
  SpillFile file(In(env.get()));
  std::vector<Notes> all(500);
  for (size_t i = 0; i < all.size(); ++i) {
    all[i] = {"first", std::to_string(i)};
    all[i].MoveTo(&file);
  }
  const std::vector<Notes>& shared = all;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (size_t i = 0; i < shared.size(); ++i) wrong += shared[i].back() != std::to_string(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Notes, WhatCannotBeReadIsNoneAndTheFileTells) {
  const auto env = WithTmp();
  const auto failing = NewFaultyEnv(
      env.get(),
      [](uint64_t, std::string_view call, std::string_view) { return call == "read" ? EIO : 0; });
  SpillFile file(In(failing.get()));
  Notes notes = {"first"};
  notes.MoveTo(&file);
  for (int i = 0; i < 1000; ++i) (void)file.Add(std::string(100, 'x'));  // so that it is written
  EXPECT_TRUE(notes.empty());
  EXPECT_THAT(notes, IsEmpty());
  EXPECT_FALSE(file.status().ok());
}

}  // namespace
}  // namespace tdump::compare
