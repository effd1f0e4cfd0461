// Which bytes go past the page cache: by place and length, by what each way costs on disks of
// different speeds, and after a refusal; and that a file holds the same bytes whatever a direct
// write meets.
#include "io/direct_writes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "tests/io/forwarding_env.h"

namespace tdump::io {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kMiB = 1 << 20;

// Time passes with the bytes that are written.
class TimedEnv final : public test::ForwardingEnv {
 public:
  TimedEnv() : ForwardingEnv(NewMemoryEnv()) {}
  int64_t MonotonicNs() override { return now; }
  int64_t now = 1;
};

class TimedFile final : public WritableFile {
 public:
  explicit TimedFile(TimedEnv* env) : env_(*env) {}
  Status Append(std::span<const std::byte>) override { return Internal("not used"); }
  Status WriteAt(uint64_t offset, std::span<const std::byte> bytes) override {
    return Take(offset, bytes.size(), cached_mib_s, &cached), Status();
  }
  Result<bool> WriteDirect(uint64_t offset, std::span<const std::byte> bytes) override {
    return Take(offset, bytes.size(), direct_mib_s, &direct), allows;
  }
  Status Preallocate(uint64_t, uint64_t, bool) override { return Internal("not used"); }
  Status Truncate(uint64_t) override { return Internal("not used"); }
  Status Sync() override { return Internal("not used"); }
  Status Close() override { return Status(); }
  uint64_t Size() const override { return size_; }

  int64_t direct_mib_s = 1000, cached_mib_s = 1000;
  bool allows = true;
  uint64_t direct = 0, cached = 0;  // bytes

 private:
  void Take(uint64_t offset, uint64_t bytes, int64_t mib_s, uint64_t* sum) {
    EXPECT_EQ(offset, size_);  // no gap, nothing twice
    size_ += bytes;
    *sum += bytes;
    env_.now += static_cast<int64_t>(bytes) * 1000 / mib_s;  // a MiB: about 10^9 / mib_s ns
  }
  TimedEnv& env_;
  uint64_t size_ = 0;
};

class DirectWritesTest : public ::testing::Test {
 protected:
  DirectWritesTest() : memory_(17 * kMiB + kDirectAlign) {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    pages_ = memory_.data() + (kDirectAlign - address % kDirectAlign) % kDirectAlign;
  }
  // At the end of the file, from the beginning of a page.
  void Write(uint64_t bytes) {
    ASSERT_TRUE(writes_.WriteAt(&file_, file_.Size(), {pages_, bytes}).ok());
  }
  void WriteMany(int count) {
    file_.direct = file_.cached = 0;
    for (int i = 0; i < count; ++i) Write(16 * kMiB);
  }

  std::vector<std::byte> memory_;
  std::byte* pages_;
  TimedEnv env_;
  TimedFile file_{&env_};
  DirectWrites writes_{&env_, true};
};

// 1 GiB/s past the cache and 1.5 GiB/s into it: no copy is worth that, but for trials.
TEST_F(DirectWritesTest, LargePayloadsGoPastTheCacheWhereTheDiskIsFast) {
  file_.cached_mib_s = 1500;
  WriteMany(100);  // 1.6 s
  EXPECT_EQ(file_.direct + file_.cached, 1600 * kMiB);
  EXPECT_EQ(file_.cached, 12 * kMiB);  // the first payload but for its trial
  WriteMany(1000);                     // 16 s: a trial every 4 s
  EXPECT_EQ(file_.cached % (4 * kMiB), 0u);
  EXPECT_GE(file_.cached, 12 * kMiB);
  EXPECT_LE(file_.cached, 16 * kMiB);
}

// 100 MiB/s past the cache, 2 GiB/s into it: it takes the burst.
TEST_F(DirectWritesTest, TheCacheTakesTheBurstInFrontOfASlowDisk) {
  file_.direct_mib_s = 100;
  file_.cached_mib_s = 2000;
  WriteMany(100);
  EXPECT_EQ(file_.direct, 4 * kMiB);
  // It is full: nothing is faster than the disk any more.
  file_.cached_mib_s = 110;
  WriteMany(100);
  EXPECT_GT(file_.direct, 1300 * kMiB);
}

TEST_F(DirectWritesTest, WhatIsShortOrBesideAPageIsCopied) {
  Write(kMiB);  // not large
  EXPECT_EQ(file_.direct, 0u);
  ASSERT_TRUE(writes_.WriteAt(&file_, file_.Size(), {pages_ + 64, 2 * kMiB}).ok());
  EXPECT_EQ(file_.direct, 0u);
  Write(64);
  Write(2 * kMiB);  // at 3 MiB + 64 of the file
  EXPECT_EQ(file_.direct, 0u);
  EXPECT_EQ(file_.Size(), 5 * kMiB + 64);
}

TEST_F(DirectWritesTest, IsNotTriedAgainAfterARefusal) {
  file_.allows = false;
  file_.direct_mib_s = 5000;
  WriteMany(1000);
  EXPECT_EQ(file_.direct, 4 * kMiB);
  EXPECT_TRUE(writes_.was_refused());
}

TEST_F(DirectWritesTest, IsNotTriedWhereItIsNotWanted) {
  DirectWrites writes(&env_, false);
  ASSERT_TRUE(writes.WriteAt(&file_, 0, {pages_, 16 * kMiB}).ok());
  EXPECT_EQ(file_.direct, 0u);
  EXPECT_FALSE(writes.was_refused());
}

// One call of the system in a direct write of two and a half pages.
struct Meets {
  const char* name;
  int error;
  bool stays_direct;
};

class DirectWriteMeets : public ::testing::TestWithParam<Meets> {};

TEST_P(DirectWriteMeets, AndTheFileHasAllBytes) {
  auto memory = NewMemoryEnv();
  std::vector<std::string> calls;
  auto env = NewFaultyEnv(memory.get(), [&](uint64_t, std::string_view call, std::string_view) {
    calls.emplace_back(call);
    return calls.size() == 2 ? GetParam().error : 0;  // after "open"
  });
  auto file = env->CreateExclusive("file", 0600);
  ASSERT_TRUE(file.ok());
  std::string text(kDirectAlign * 5 / 2, 'a');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + i % 23);
  const Result<bool> direct = (*file)->WriteDirect(0, std::as_bytes(std::span(text)));
  ASSERT_TRUE(direct.ok()) << direct.status().message();
  EXPECT_EQ(*direct, GetParam().stays_direct);
  EXPECT_EQ(calls[1], "write_direct");
  EXPECT_EQ(calls.back(), "write");  // the half page
  const auto found = ReadFile(memory.get(), "file", 1 << 20);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(*found, text);
}

INSTANTIATE_TEST_SUITE_P(Faults, DirectWriteMeets,
                         ::testing::Values(Meets{"Nothing", 0, true}, Meets{"Eintr", EINTR, true},
                                           Meets{"ShortWrite", kShortWrite, true},
                                           Meets{"Einval", EINVAL, false},
                                           Meets{"Eopnotsupp", EOPNOTSUPP, false},
                                           Meets{"Efault", EFAULT, false}),
                         [](const auto& info) { return info.param.name; });

TEST(DirectWrite, SaysTheSameOfAFullDiskAsAnyWrite) {
  auto memory = NewMemoryEnv();
  auto env = NewFaultyEnv(memory.get(), [&](uint64_t n, std::string_view, std::string_view) {
    return n == 0 ? 0 : ENOSPC;
  });
  auto file = env->CreateExclusive("file", 0600);
  ASSERT_TRUE(file.ok());
  const std::vector<std::byte> bytes(3 * kDirectAlign);
  const Status direct = (*file)->WriteDirect(kDirectAlign, bytes).status();
  EXPECT_EQ(direct.code(), StatusCode::kNoSpace);
  EXPECT_THAT(direct.message(), HasSubstr("cannot write 12288 bytes at offset 4096 of"));
  EXPECT_EQ(direct.message(), (*file)->WriteAt(kDirectAlign, bytes).message());
}

}  // namespace
}  // namespace tdump::io
