// Node files: the files of many processes in one, and what is there when something goes wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <thread>

#include "io/archive.h"
#include "io/node_env.h"
#include "io/node_file.h"
#include "io/pass_store.h"
#include "tests/io/forwarding_env.h"
#include "tests/io/recorded_passes.h"

namespace tdump::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kNodeFile = "node_a_0.tdn";
constexpr size_t kRecords = 5;

std::vector<std::byte> Values(uint64_t pass, size_t i) {
  const size_t size = i == 0 ? 5000 : i == 3 ? (100 << 10) + 64 * pass : 30 + i;
  return Bytes(size, static_cast<uint8_t>(i == 0 ? 9 : 17 * pass + i), 3);
}

std::string Text(Env* env, const std::string& path) {
  const auto text = ReadFile(env, path, 64 << 20);
  EXPECT_TRUE(text.ok()) << text.status().message();
  return text.ok() ? *text : "";
}

// A run in memory, with what its processes and its readers see.
class NodeFileTest : public ::testing::Test {
 protected:
  NodeFileTest() { EXPECT_TRUE(memory_->MakeDirs("run", 0700).ok()); }

  std::unique_ptr<Env> Writing() { return NewNodeEnv(memory_.get(), "run", kNodeFile); }
  std::unique_ptr<Env> Reading() { return NewNodeEnv(memory_.get()); }

  void Write(Env* env, const std::string& path, const std::string& text) {
    auto file = env->CreateExclusive(path, 0600);
    ASSERT_TRUE(file.ok()) << file.status().message();
    ASSERT_TRUE((*file)->Append(std::as_bytes(std::span(text))).ok());
    ASSERT_TRUE((*file)->Close().ok());
  }

  std::unique_ptr<Env> memory_ = NewMemoryEnv();
};

TEST_F(NodeFileTest, ProcessesShareOneFile) {
  constexpr int kProcesses = 3;
  for (int rank = 0; rank < kProcesses; ++rank) {
    const auto env = Writing();
    SinkRig rig({.thread = false, .files = {.single_files = 0}}, env.get(),
                "run/rank" + std::to_string(rank) + "_pid7");
    RecordPasses(&rig, 4, kRecords, Values);
    rig.sink.reset();
  }
  EXPECT_THAT(*memory_->List("run"), ElementsAre(kNodeFile));
  const auto env = Reading();
  EXPECT_THAT(*env->List("run"), ElementsAre(kNodeFile, "rank0_pid7", "rank1_pid7", "rank2_pid7"));
  EXPECT_THAT(*env->List("run/rank1_pid7"), ElementsAre("manifest.tdm", "pack00000.tdp"));
  const auto store = PassStore::Open(env.get(), "run");
  ASSERT_TRUE(store.ok()) << store.status().message();
  ASSERT_EQ((*store)->processes().size(), kProcesses);
  for (const ProcessEntry& process : (*store)->processes()) {
    EXPECT_THAT(process.damage, IsEmpty());
    ASSERT_EQ(process.passes.size(), 4u);
    for (const PassEntry& pass : process.passes) {
      const auto reader = (*store)->OpenPass(process, pass);
      ASSERT_TRUE(reader.ok()) << reader.status().message();
      EXPECT_EQ(RightRecords(reader->get(), pass.info.ordinal, Values), kRecords);
      ExpectWhole(reader->get());
    }
  }
}

// As in a packed file of its own, byte for byte.
TEST_F(NodeFileTest, AMemberIsTheFileThatItStandsFor) {
  const auto node = Writing();
  for (Env* env : {node.get(), memory_.get()}) {
    SinkRig rig({.thread = false, .files = {.single_files = 0}}, env,
                env == node.get() ? "run/rank0_pid7" : "plain");
    RecordPasses(&rig, 20, kRecords, Values);
    rig.sink.reset();
  }
  const std::string in_node = Text(Reading().get(), "run/rank0_pid7/pack00000.tdp");
  const std::string plain = Text(memory_.get(), "plain/pack00000.tdp");
  EXPECT_GT(in_node.size(), 2u << 20);  // several extents
  ASSERT_EQ(in_node.size(), plain.size());
  size_t other = 0;  // times of day in headers, and the checksums over them
  for (size_t i = 0; i < plain.size(); ++i) other += in_node[i] != plain[i] ? 1 : 0;
  EXPECT_LT(other, 20u * 400);
}

TEST_F(NodeFileTest, FilesAreMadeRenamedReplacedAndRemoved) {
  const auto env = Writing();
  Write(env.get(), "run/rank0/a", "one");
  EXPECT_EQ(env->CreateExclusive("run/rank0/a", 0600).status().code(), StatusCode::kAlreadyExists);
  Write(env.get(), "run/rank0/b", "two");
  ASSERT_TRUE(env->Rename("run/rank0/b", "run/rank0/a").ok());
  const auto reader = Reading();
  EXPECT_EQ(Text(reader.get(), "run/rank0/a"), "two");
  EXPECT_THAT(*reader->List("run/rank0"), ElementsAre("a"));
  EXPECT_EQ(env->Rename("run/rank0/none", "run/rank0/c").code(), StatusCode::kNotFound);
  ASSERT_TRUE(env->Remove("run/rank0/a").ok());
  EXPECT_EQ(env->Remove("run/rank0/a").code(), StatusCode::kNotFound);
  EXPECT_EQ(reader->OpenRead("run/rank0/a").status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(reader->Stat("run/rank0").ok());
  EXPECT_THAT(*reader->List("run"), ElementsAre(kNodeFile));
}

TEST_F(NodeFileTest, AReaderThatLivesOnSeesWhatIsAdded) {
  const auto env = Writing();
  const auto reader = Reading();
  auto file = env->CreateExclusive("run/rank0/log", 0600);
  ASSERT_TRUE(file.ok());
  std::string expected;
  for (int i = 0; i < 5; ++i) {
    const std::string text(50'000, static_cast<char>('a' + i));
    ASSERT_TRUE((*file)->Append(std::as_bytes(std::span(text))).ok());
    expected += text;
    EXPECT_EQ(reader->Stat("run/rank0/log")->bytes, expected.size());
    EXPECT_TRUE(Text(reader.get(), "run/rank0/log") == expected);
  }
  Write(env.get(), "run/rank1/log", "x");
  EXPECT_TRUE(reader->Stat("run/rank1")->is_directory);
  EXPECT_THAT(*reader->List("run/rank1"), ElementsAre("log"));
  Write(env.get(), "run/rank1/more", "x");
  EXPECT_THAT(*reader->List("run/rank1"), ElementsAre("log", "more"));
  EXPECT_THAT(*reader->List("run"), ElementsAre(kNodeFile, "rank0", "rank1"));
}

// As a manifest is synced: through a second one, while entries come.
TEST_F(NodeFileTest, ASecondHandleGivesNothingBack) {
  const auto env = Writing();
  auto first = env->CreateExclusive("run/rank0/log", 0600);
  ASSERT_TRUE(first.ok());
  const std::string some(100, 'a');
  ASSERT_TRUE((*first)->Append(std::as_bytes(std::span(some))).ok());
  auto second = env->OpenAppend("run/rank0/log", 0600);
  ASSERT_TRUE(second.ok());
  const std::string more(20'000, 'b');
  ASSERT_TRUE((*first)->Append(std::as_bytes(std::span(more))).ok());
  ASSERT_TRUE((*second)->Sync().ok());
  ASSERT_TRUE((*second)->Close().ok());
  EXPECT_TRUE(Text(Reading().get(), "run/rank0/log") == some + more);
}

// A process that is killed between the two names leaves the new file under the old name.
TEST_F(NodeFileTest, OfTwoOfOneNameTheLaterOneCounts) {
  const auto env = Writing();
  Write(env.get(), "run/rank0/a", "one");
  Write(env.get(), "run/rank0/b", "two");
  uint64_t writes = 0;
  const auto faulty =
      NewFaultyEnv(memory_.get(), [&](uint64_t, std::string_view call, auto) -> int {
        return call == "write" && ++writes > 2 ? EIO : 0;
      });
  EXPECT_FALSE(
      NodeWriter(faulty.get(), JoinPath("run", kNodeFile)).Rename("rank0/b", "rank0/a").ok());
  EXPECT_EQ(Text(Reading().get(), "run/rank0/a"), "two");
}

// Says that it cannot make holes.
class NoHoles final : public test::ForwardingEnv {
 public:
  using ForwardingEnv::ForwardingEnv;
  Result<std::unique_ptr<WritableFile>> OpenShared(Path path, int mode) override {
    TDUMP_ASSIGN_OR_RETURN(auto file, base_->OpenShared(path, mode));
    return std::unique_ptr<WritableFile>(new File(std::move(file)));
  }

 private:
  struct File final : test::ForwardingFile {
    using ForwardingFile::ForwardingFile;
    Status Discard(uint64_t, uint64_t) override { return Unsupported("no holes here"); }
  };
};

TEST(NodeFileRing, TakesNothingAwayWhereThatGivesNoRoom) {
  NoHoles disk(NewMemoryEnv());
  ASSERT_TRUE(disk.MakeDirs("run", 0700).ok());
  const auto env = NewNodeEnv(&disk, "run", kNodeFile);
  constexpr uint64_t kLimit = 2 << 20;
  SinkRig rig({.arena_bytes = 4 << 20,
               .thread = false,
               .disk_limit_bytes = kLimit,
               .min_free_bytes = 0,
               .files = {.single_files = 0, .ring = true, .ring_bytes = kLimit}},
              env.get(), "run/rank0_pid7");
  RecordPasses(&rig, 60, kRecords, Values);
  rig.sink.reset();
  const auto reading = NewNodeEnv(&disk);
  const auto store = PassStore::Open(reading.get(), "run");
  ASSERT_TRUE(store.ok()) << store.status().message();
  const ProcessEntry& process = (*store)->processes().front();
  EXPECT_GT(process.passes.size(), 10u);
  EXPECT_THAT(process.overwritten, IsEmpty());
}

// What a tool writes of a run that has ended goes beside the rest.
TEST_F(NodeFileTest, AToolWritesWhereTheProcessDid) {
  Write(Writing().get(), "run/rank0/manifest.tdm", "m");
  const auto tool = Reading();
  ASSERT_TRUE(WriteFileAtomically(tool.get(), "run/rank0/steps.tdm", "numbers", 0600).ok());
  ASSERT_TRUE(WriteFileAtomically(tool.get(), "run/rank0/steps.tdm", "others", 0600).ok());
  EXPECT_EQ(Text(tool.get(), "run/rank0/steps.tdm"), "others");
  EXPECT_THAT(*memory_->List("run"), ElementsAre(kNodeFile));
  ASSERT_TRUE(WriteFileAtomically(tool.get(), "run/manifest.tdm", "merged", 0600).ok());
  EXPECT_EQ(Text(memory_.get(), "run/manifest.tdm"), "merged");
}

TEST_F(NodeFileTest, ARingGivesItsBlocksBack) {
  const auto env = Writing();
  constexpr uint64_t kLimit = 2 << 20;
  SinkRig rig({.arena_bytes = 4 << 20,
               .thread = false,
               .disk_limit_bytes = kLimit,
               .min_free_bytes = 0,
               .files = {.single_files = 0, .ring = true, .ring_bytes = kLimit}},
              env.get(), "run/rank0_pid7");
  RecordPasses(&rig, 60, kRecords, Values);
  rig.sink.reset();
  const auto reader = Reading();
  const auto store = PassStore::Open(reader.get(), "run");
  ASSERT_TRUE(store.ok()) << store.status().message();
  const ProcessEntry& process = (*store)->processes().front();
  EXPECT_THAT(process.damage, IsEmpty());
  EXPECT_GT(process.overwritten.size(), 20u);
  EXPECT_EQ(process.passes.back().info.ordinal, 59u);
  const std::string bytes = Text(memory_.get(), JoinPath("run", kNodeFile));
  const auto written = std::count_if(bytes.begin(), bytes.end(), [](char c) { return c != 0; });
  EXPECT_LT(written, static_cast<ptrdiff_t>(kLimit));
}

class NodeFileOnDisk : public ::testing::Test {
 protected:
  NodeFileOnDisk() { std::filesystem::create_directories(run_); }
  ~NodeFileOnDisk() override { std::filesystem::remove_all(run_); }

  const std::filesystem::path run_ =
      std::filesystem::path(testing::TempDir()) / ("tdump_node_" + std::to_string(::getpid()));
};

// Also where they lie behind all that was written (ext4 gives nothing back there by itself).
TEST_F(NodeFileOnDisk, WhatWasReservedAndNotUsedIsGivenBack) {
  constexpr size_t kBytes = 3 << 20, kRanks = 3, kPage = 4096;
  for (size_t rank = 0; rank < kRanks; ++rank) {
    const auto env = NewNodeEnv(Env::Posix(), run_, kNodeFile);
    auto file = env->CreateExclusive(run_ / fmt::format("rank{}", rank) / "pack", 0600);
    ASSERT_TRUE(file.ok()) << file.status().message();
    ASSERT_TRUE((*file)->Append(Bytes(kBytes, static_cast<uint8_t>(rank))).ok());
    const Status reserved = (*file)->Preallocate(kBytes, 20 << 20, false);
    if (reserved.code() == StatusCode::kUnsupported) GTEST_SKIP() << reserved.message();
    ASSERT_TRUE(reserved.ok()) << reserved.message();
    ASSERT_TRUE((*file)->Sync().ok());  // blocks that are not there yet are not counted
    ASSERT_TRUE((*file)->Close().ok());
  }
  struct stat info {};
  ASSERT_EQ(::stat((run_ / kNodeFile).c_str(), &info), 0);
  EXPECT_GE(info.st_blocks * 512, static_cast<int64_t>(kRanks * kBytes));
  EXPECT_LE(info.st_blocks * 512, static_cast<int64_t>(kRanks * kBytes + 30 * kPage));
}

// Of the files that a ring removes no page stays each; what lies between them is untouched.
TEST_F(NodeFileOnDisk, RemovedFilesThatLieSideBySideLeaveOnePage) {
  constexpr size_t kFiles = 200, kKept = 3, kPage = 4096;
  const auto env = NewNodeEnv(Env::Posix(), run_, kNodeFile);
  const auto path = [&](size_t i) { return run_ / "rank0" / fmt::format("f{}", i); };
  const auto bytes = [](size_t i) { return Bytes(10'000, static_cast<uint8_t>(i)); };
  for (size_t i = 0; i < kFiles; ++i) {
    auto file = env->CreateExclusive(path(i), 0600);
    ASSERT_TRUE(file.ok()) << file.status().message();
    ASSERT_TRUE((*file)->Append(bytes(i)).ok());
    ASSERT_TRUE((*file)->Sync().ok());
    ASSERT_TRUE((*file)->Close().ok());
    if (i < kKept || i == 100 + kKept) continue;  // that one stays in the middle
    const Status removed = env->Remove(path(i - kKept));
    if (removed.code() == StatusCode::kUnsupported) GTEST_SKIP() << removed.message();
    ASSERT_TRUE(removed.ok()) << removed.message();
  }
  const auto contents = ReadNodeFile(Env::Posix(), run_ / kNodeFile);
  ASSERT_TRUE(contents.ok()) << contents.status().message();
  EXPECT_FALSE(contents->damaged);
  EXPECT_EQ(contents->free.size(), 2u);  // before and behind the one in the middle
  ASSERT_EQ(contents->members.size(), kKept + 1);
  for (const size_t i : {size_t{100}, kFiles - 3, kFiles - 2, kFiles - 1}) {
    const std::string text = Text(RunEnv(), path(i));
    const auto expected = bytes(i);
    ASSERT_EQ(text.size(), expected.size());
    EXPECT_EQ(std::memcmp(text.data(), expected.data(), text.size()), 0) << i;
  }
  struct stat info {};
  ASSERT_EQ(::stat((run_ / kNodeFile).c_str(), &info), 0);
  EXPECT_LE(info.st_blocks * 512,
            static_cast<int64_t>((kKept + 1) * (10'000 + 4 * kPage) + 8 * kPage));
}

// Threads stand for processes: each has its own descriptors and locks.
TEST_F(NodeFileOnDisk, ManyWritersAtOnceLoseNothing) {
  constexpr int kWriters = 8;
  std::vector<std::thread> writers;
  for (int rank = 0; rank < kWriters; ++rank) {
    writers.emplace_back([&, rank] {
      const auto env = NewNodeEnv(Env::Posix(), run_, kNodeFile);
      for (int i = 0; i < 3; ++i) {
        auto file =
            env->CreateExclusive(run_ / fmt::format("rank{}", rank) / fmt::format("f{}", i), 0600);
        ASSERT_TRUE(file.ok()) << file.status().message();
        for (int n = 0; n < 40; ++n) {
          const auto bytes = Bytes(10'000, static_cast<uint8_t>(rank * 40 + i * 7 + n));
          ASSERT_TRUE((*file)->Append(bytes).ok());
        }
        ASSERT_TRUE((*file)->Close().ok());
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  const auto contents = ReadNodeFile(Env::Posix(), run_ / kNodeFile);
  ASSERT_TRUE(contents.ok()) << contents.status().message();
  EXPECT_FALSE(contents->damaged);
  EXPECT_EQ(contents->members.size(), 3u * kWriters);
  for (int rank = 0; rank < kWriters; ++rank) {
    for (int i = 0; i < 3; ++i) {
      const std::string text =
          Text(RunEnv(), run_ / fmt::format("rank{}", rank) / fmt::format("f{}", i));
      ASSERT_EQ(text.size(), 400'000u);
      for (int n = 0; n < 40; ++n) {
        const auto bytes = Bytes(10'000, static_cast<uint8_t>(rank * 40 + i * 7 + n));
        EXPECT_EQ(std::memcmp(text.data() + n * 10'000, bytes.data(), bytes.size()), 0);
      }
    }
  }
}

// A byte of the file is changed, or it is cut there: what is read is right or an error, and what
// the change does not touch is still there.
class DamagedNodeFile : public NodeFileTest {
 protected:
  DamagedNodeFile() {
    for (int rank = 0; rank < 2; ++rank) {
      const auto env = Writing();
      SinkRig rig({.thread = false, .files = {.single_files = 0}}, env.get(),
                  "run/rank" + std::to_string(rank) + "_pid7");
      RecordPasses(&rig, 2, kRecords, Values);
      rig.sink.reset();
    }
    image_ = Text(memory_.get(), JoinPath("run", kNodeFile));
  }

  // Passes that are acknowledged and right; wrong values fail the test.
  size_t Right(const std::string& image, bool* told) {
    auto memory = NewMemoryEnv();
    EXPECT_TRUE(memory->MakeDirs("run", 0700).ok());
    EXPECT_TRUE(WriteFileAtomically(memory.get(), JoinPath("run", kNodeFile), image, 0600).ok());
    const auto env = NewNodeEnv(memory.get());
    const auto store = PassStore::Open(env.get(), "run");
    *told = !store.ok() || (*store)->processes().empty();
    if (!store.ok()) return 0;
    size_t right = 0;
    for (const ProcessEntry& process : (*store)->processes()) {
      *told = *told || !process.damage.empty() || !process.close;
      for (const PassEntry& pass : process.passes) {
        const auto reader = (*store)->OpenPass(process, pass);
        if (!reader.ok()) continue;
        std::vector<Damage> damage;
        if (!(*reader)->Verify(&damage).ok() || !damage.empty() || !pass.listed) continue;
        right += RightRecords(reader->get(), pass.info.ordinal, Values) == kRecords ? 1 : 0;
      }
    }
    return right;
  }

  std::string image_;
};

TEST_F(DamagedNodeFile, EveryByteOfEveryHead) {
  const auto contents = ReadNodeFile(memory_.get(), JoinPath("run", kNodeFile));
  ASSERT_TRUE(contents.ok());
  std::vector<size_t> bytes;
  const auto add = [&](size_t from, size_t count) {
    for (size_t i = 0; i < count; ++i) bytes.push_back(from + i);
  };
  add(0, sizeof(FileHeader));
  add(kNodeStateAt, sizeof(NodeState));
  for (const NodeMember& member : contents->members) {
    for (const NodeExtent& extent : member.extents) add(extent.at, sizeof(ExtentHeader));
    const size_t first = member.extents.front().at;
    add(first + kExtentNameAt, 8 + member.name.size() + 1);
    add(first + kExtentNameAt + offsetof(ExtentName, checksum), 8);
    add(first + kMemberSizeAt, sizeof(MemberSize));
  }
  bool told = false;
  EXPECT_EQ(Right(image_, &told), 4u);
  size_t least = 4;
  for (const size_t at : bytes) {
    std::string image = image_;
    image[at] = static_cast<char>(image[at] ^ (1 << (at % 8)));
    SCOPED_TRACE(at);
    const size_t right = Right(image, &told);
    EXPECT_TRUE(told || right == 4);
    if (at >= kExtentPage) least = std::min(least, right);
  }
  EXPECT_EQ(least, 2u);  // what damages one process leaves the other alone
}

TEST_F(DamagedNodeFile, CutAnywhere) {
  bool told = false;
  for (size_t length = 0; length < image_.size(); length += 1 + length / 60) {
    SCOPED_TRACE(length);
    const size_t right = Right(image_.substr(0, length), &told);
    EXPECT_TRUE(told || right == 4);
  }
}

// As a machine of the other byte order would have written it: the heads swapped, what is in the
// members is theirs.
TEST_F(DamagedNodeFile, OfTheOtherByteOrderIsReadAsTheSame) {
  const std::string path = JoinPath("run", kNodeFile);
  const auto before = ReadNodeFile(memory_.get(), path);
  ASSERT_TRUE(before.ok());
  std::string image = image_;
  // Fields of these widths from `at` on, the last one a checksum of those before it.
  const auto swap = [&](size_t at, std::vector<size_t> widths) {
    const size_t begin = at;
    for (size_t i = 0; i < widths.size(); ++i) {
      if (i + 1 == widths.size()) {
        const uint64_t checksum = Checksum(image.data() + begin, at - begin);
        std::memcpy(image.data() + at, &checksum, sizeof checksum);
      }
      std::reverse(image.data() + at, image.data() + at + widths[i]);
      at += widths[i];
    }
  };
  const auto swap_name = [&](size_t at) {
    std::reverse(image.data() + at, image.data() + at + 8);
    const uint64_t checksum = Checksum(image.data() + at, offsetof(ExtentName, checksum));
    char* stored = image.data() + at + offsetof(ExtentName, checksum);
    std::memcpy(stored, &checksum, sizeof checksum);
    std::reverse(stored, stored + 8);
  };
  swap(0, {8, 4, 2, 2, 8, 4, 4, 8, 8, 8, 8});
  swap(kNodeStateAt, {8, 8, 8, 8});
  for (const NodeMember& member : before->members) {
    for (const NodeExtent& extent : member.extents) swap(extent.at, {8, 8, 8, 8, 8, 8, 8, 8});
    swap_name(member.extents.front().at + kExtentNameAt);
    swap(member.extents.front().at + kMemberSizeAt, {8, 8});
  }
  ASSERT_TRUE(WriteFileAtomically(memory_.get(), path, image, 0600).ok());
  const auto after = ReadNodeFile(memory_.get(), path);
  ASSERT_TRUE(after.ok()) << after.status().message();
  EXPECT_FALSE(after->damaged);
  ASSERT_EQ(after->members.size(), before->members.size());
  for (size_t i = 0; i < after->members.size(); ++i) {
    EXPECT_EQ(after->members[i].name, before->members[i].name);
    EXPECT_EQ(after->members[i].bytes, before->members[i].bytes);
    EXPECT_EQ(after->members[i].extents.size(), before->members[i].extents.size());
  }
  bool told = false;
  EXPECT_EQ(Right(image, &told), 4u);
  const auto refused = Writing()->CreateExclusive("run/rank9/a", 0600);
  EXPECT_THAT(refused.status().message(), HasSubstr("a machine of the other byte order"));
}

TEST_F(DamagedNodeFile, WhatIsNoneIsNamed) {
  ASSERT_TRUE(
      WriteFileAtomically(memory_.get(), "run/node_b_0.tdn", std::string(5000, 'x'), 0600).ok());
  const auto env = Reading();
  const auto store = PassStore::Open(env.get(), "run");
  ASSERT_TRUE(store.ok());
  ASSERT_EQ((*store)->processes().front().damage.size(), 1u);
  EXPECT_THAT((*store)->processes().front().damage.front().what,
              HasSubstr("not a tdump node file"));
  ASSERT_TRUE(memory_->Remove(JoinPath("run", kNodeFile)).ok());
  EXPECT_THAT(PassStore::Open(Reading().get(), "run").status().message(),
              HasSubstr("node_b_0.tdn"));
}

TEST(NodeFileNames, AreThoseOfFiles) {
  EXPECT_EQ(NodeFileName("node042", "1f2e"), "node_node042_1f2e.tdn");
  EXPECT_EQ(NodeFileName("a/b c", "0"), "node_a_b_c_0.tdn");
  EXPECT_TRUE(IsNodeFileName("node_a_0.tdn"));
  EXPECT_FALSE(IsNodeFileName("node_a_0.tdp"));
}

}  // namespace
}  // namespace tdump::io
