// The protocol suite over slot files, four ranks as threads in one memory file system, and what is
// particular to this transport.
#include <barrier>

#include "coordinator/transport_file.h"
#include "tests/coordinator/agreement_protocol.h"

namespace tdump::coordinator {
namespace {

using protocol::kWorld;

class ThreadPeer final : public protocol::Peer {
 public:
  ThreadPeer(int32_t number, Env* shared, std::barrier<>* barrier, bool lockstep)
      : barrier_(barrier) {
    rank = number;
    Identity identity;
    identity.rank = number;
    identity.world = kWorld;
    identity.pid = 100 + number;
    const std::string path = "/clock/rank" + std::to_string(number) + ".slot";
    slots = std::make_unique<SlotWriter>(shared, *shared->CreateExclusive(path, 0600),
                                         MakeSlotHeader(identity, 0, number));
    Start(NewFileTransport(
              shared, "/clock",
              {.rank = number, .world = kWorld, .pace_ns = 0, .now_ns = [this] { return Now(); }}),
          lockstep);
  }
  void Barrier() override { barrier_->arrive_and_wait(); }

 private:
  std::barrier<>* barrier_;
};

class FileAgreement : public testing::TestWithParam<protocol::Case> {
 protected:
  void Run(const protocol::Case& value) {
    ASSERT_TRUE(env->MakeDirs("/clock", 0700).ok());
    std::barrier<> barrier(kWorld);
    std::vector<std::unique_ptr<ThreadPeer>> peers;
    for (int32_t rank = 0; rank < kWorld; ++rank)
      peers.push_back(std::make_unique<ThreadPeer>(rank, env.get(), &barrier, value.lockstep));
    std::vector<std::thread> threads;
    for (auto& peer : peers) threads.emplace_back([&] { value.body(*peer); });
    for (std::thread& thread : threads) thread.join();
  }
  std::unique_ptr<Env> env = NewMemoryEnv();
};

TEST_P(FileAgreement, Protocol) { Run(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Suite, FileAgreement, testing::ValuesIn(protocol::Cases()),
                         protocol::NameOf);

// Over files a deciding rank may die without a word.
void TheDecidingRankDies(protocol::Peer& peer) {
  for (uint64_t local = 0; local < 2; ++local) peer.Step(local);
  EXPECT_TRUE(peer.Settled(2));
  peer.Barrier();
  if (peer.rank == 0) return peer.Barrier();
  for (uint64_t local = 2; local < 6; ++local) peer.Step(local);
  peer.offset_ns += 2 * protocol::kSilenceNs;
  EXPECT_TRUE(peer.Settled(6));
  peer.Barrier();
  peer.agreement->Close();
  EXPECT_EQ(peer.Map(), "0 1 2 3 4 5");
  EXPECT_EQ(peer.Closing().lost, std::vector<int32_t>{0});
}

TEST_F(FileAgreement, ADecidingRankThatDiesIsPassedOver) {
  Run({"TheDecidingRankDies", TheDecidingRankDies});
}

TEST(LoneAgreement, SettlesEveryStepAtOnce) {
  auto env = NewMemoryEnv();
  io::FileHeader header;
  header.magic = io::kManifestMagic;
  auto manifest = std::move(*io::ManifestWriter::Create(env.get(), "/manifest.tdm", header));
  Agreement agreement({}, nullptr, nullptr, manifest.get());
  for (uint64_t local = 0; local < 3; ++local) agreement.Ended({.local = local, .recorded = true});
  EXPECT_EQ(agreement.settled(), 3u);
  agreement.Close();
  io::ProcessEntry entry;
  io::ReadManifest(env.get(), "/manifest.tdm", &entry);
  ASSERT_EQ(entry.steps.size(), 3u);
  EXPECT_EQ(entry.steps[2].global_step, 2u);
  EXPECT_EQ(entry.steps[2].flags, 1 | 4);
  EXPECT_EQ(entry.steps[2].lag, 0u);
  ASSERT_EQ(entry.agreements.size(), 1u);
  EXPECT_EQ(entry.agreements[0].transport, "none");
}

// What a lone process tells costs system calls, and nobody waits for it.
TEST(LoneAgreement, TellsOnceASecondHowFarItIs) {
  auto env = NewMemoryEnv();
  SlotWriter slots(env.get(), *env->CreateExclusive("/slot", 0600), MakeSlotHeader({}, 0, 1));
  int64_t now = 1;
  Agreement agreement({.now_ns = [&now] { return now; }}, nullptr, &slots, nullptr);
  auto reader = *SlotReader::Open(env.get(), "/slot");
  const auto told = [&reader] {
    EXPECT_TRUE(reader.Refresh().ok());
    return reader.pulse().steps;
  };
  agreement.Ended({.local = 0});
  EXPECT_EQ(told(), 1u);
  now += 900'000'000;
  agreement.Ended({.local = 1});
  EXPECT_EQ(told(), 1u);
  now += 100'000'000;
  agreement.Ended({.local = 2});
  EXPECT_EQ(told(), 3u);
  agreement.Ended({.local = 3});
  agreement.Close();
  EXPECT_EQ(told(), 4u);
}

}  // namespace
}  // namespace tdump::coordinator
