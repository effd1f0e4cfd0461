#include "coordinator/slot_file.h"

#include <gtest/gtest.h>

#include <cstring>

namespace tdump::coordinator {
namespace {

constexpr const char* kPath = "/clock/rank3_pid7.slot";

class SlotFileTest : public testing::Test {
 protected:
  SlotFileTest() {
    EXPECT_TRUE(env->MakeDirs("/clock", 0700).ok());
    Identity identity;
    identity.rank = 3;
    identity.world = 4;
    identity.pid = 7;
    identity.host = "node042";
    identity.job_key = "job";
    header = MakeSlotHeader(identity, 2, 12345);
    writer = std::make_unique<SlotWriter>(env.get(), *env->CreateExclusive(kPath, 0600), header);
  }
  void Add(uint64_t local) {
    writer->Add({.kind = AgreementMessage::Kind::kReport, .rank = 3, .local = local});
  }
  std::vector<uint64_t> Read(SlotReader* reader) {
    std::vector<AgreementMessage> messages;
    EXPECT_TRUE(reader->Read(&messages).ok());
    std::vector<uint64_t> locals;
    for (const AgreementMessage& message : messages) locals.push_back(message.local);
    return locals;
  }
  void Damage(uint64_t offset) {
    auto file = *env->OpenAppend(kPath, 0600);
    const std::byte bad{0xa5};
    ASSERT_TRUE(file->WriteAt(offset, {&bad, 1}).ok());
  }

  std::unique_ptr<Env> env = NewMemoryEnv();
  SlotHeader header;
  std::unique_ptr<SlotWriter> writer;
};

using Locals = std::vector<uint64_t>;

TEST_F(SlotFileTest, AReaderSeesWhoAndHowFar) {
  auto reader = SlotReader::Open(env.get(), kPath);
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  EXPECT_EQ(reader->header().rank, 3);
  EXPECT_EQ(reader->header().world, 4);
  EXPECT_EQ(reader->header().generation, 2u);
  EXPECT_EQ(reader->header().pid, 7);
  EXPECT_STREQ(reader->header().host, "node042");
  EXPECT_EQ(reader->pulse().state, SlotState::kRunning);
  Add((uint64_t{1} << 53) + 1);
  ASSERT_TRUE(writer->Flush(11, 10).ok());
  ASSERT_TRUE(writer->SetState(SlotState::kClosed).ok());
  EXPECT_EQ(Read(&*reader), (Locals{(uint64_t{1} << 53) + 1}));
  EXPECT_EQ(reader->pulse().steps, 11u);
  EXPECT_EQ(reader->pulse().settled, 10u);
  EXPECT_EQ(reader->pulse().state, SlotState::kClosed);
}

TEST_F(SlotFileTest, EveryMessageComesOnce) {
  auto reader = *SlotReader::Open(env.get(), kPath);
  for (uint64_t local = 0; local < 3; ++local) Add(local);
  EXPECT_EQ(Read(&reader), Locals{});  // not flushed
  ASSERT_TRUE(writer->Flush(3, 0).ok());
  EXPECT_EQ(Read(&reader), (Locals{0, 1, 2}));
  Add(3);
  ASSERT_TRUE(writer->Flush(4, 0).ok());
  EXPECT_EQ(Read(&reader), (Locals{3}));
  EXPECT_EQ(Read(&reader), Locals{});
}

TEST_F(SlotFileTest, ASlowReaderFindsTheLatest1024) {
  auto reader = *SlotReader::Open(env.get(), kPath);
  for (uint64_t local = 0; local < 3000; ++local) {
    Add(local);
    if (local % 700 == 0) {
      ASSERT_TRUE(writer->Flush(local, 0).ok());
    }
  }
  ASSERT_TRUE(writer->Flush(3000, 0).ok());
  const Locals seen = Read(&reader);
  ASSERT_EQ(seen.size(), 1024u);
  EXPECT_EQ(seen.front(), 1976u);
  EXPECT_EQ(seen.back(), 2999u);
}

TEST_F(SlotFileTest, ATornSlotIsLostAlone) {
  auto reader = *SlotReader::Open(env.get(), kPath);
  for (uint64_t local = 0; local < 3; ++local) Add(local);
  ASSERT_TRUE(writer->Flush(3, 0).ok());
  Damage(256 + 64 + 16);  // inside the second slot
  EXPECT_EQ(Read(&reader), (Locals{0, 2}));
}

TEST_F(SlotFileTest, ATornPulseLeavesTheOldOne) {
  auto reader = *SlotReader::Open(env.get(), kPath);
  ASSERT_TRUE(writer->Flush(5, 0).ok());
  ASSERT_TRUE(reader.Refresh().ok());
  ASSERT_TRUE(writer->Flush(6, 0).ok());
  Damage(192 + 8);
  ASSERT_TRUE(reader.Refresh().ok());
  EXPECT_EQ(reader.pulse().steps, 5u);
}

TEST_F(SlotFileTest, AnythingElseIsNoSlotFile) {
  Damage(40);
  const auto reader = SlotReader::Open(env.get(), kPath);
  EXPECT_EQ(reader.status().code(), StatusCode::kCorrupt);
  EXPECT_NE(reader.status().message().find(kPath), std::string::npos);
  EXPECT_FALSE(SlotReader::Open(env.get(), "/clock/none.slot").ok());
  auto empty = *env->CreateExclusive("/clock/empty.slot", 0600);
  EXPECT_FALSE(SlotReader::Open(env.get(), "/clock/empty.slot").ok());
}

}  // namespace
}  // namespace tdump::coordinator
