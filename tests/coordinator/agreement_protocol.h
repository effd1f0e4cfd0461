// The protocol suite of the agreement: what ranks that talk over any transport must come to. One
// body per case, run once for every rank of a job of four: as threads over slot files in memory
// (agreement_test.cc), as processes over MPI (mpi_agreement_test.cc).
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "coordinator/agreement.h"
#include "io/manifest_reader.h"
#include "io/pass_store.h"

namespace tdump::coordinator::protocol {

inline constexpr int32_t kWorld = 4;
inline constexpr int64_t kSecondNs = 1'000'000'000;
inline constexpr int64_t kSilenceNs = 30 * kSecondNs;
inline constexpr int64_t kStepNs = 100'000'000;
inline constexpr uint64_t kTrain = 11, kEval = 12;

// One rank of the job.
class Peer {
 public:
  virtual ~Peer() = default;
  virtual void Barrier() = 0;

  int32_t rank = 0;
  int64_t offset_ns = 0;  // added to the steady clock that the agreement sees
  std::unique_ptr<Env> env = NewMemoryEnv();
  std::unique_ptr<io::ManifestWriter> manifest;
  std::unique_ptr<SlotWriter> slots;
  std::unique_ptr<Agreement> agreement;

  int64_t Now() const {
    return offset_ns + std::chrono::steady_clock::now().time_since_epoch().count();
  }
  // Makes the agreement. `slots` and the transport are the caller's.
  void Start(std::unique_ptr<AgreementTransport> transport, bool lockstep) {
    io::FileHeader header;
    header.magic = io::kManifestMagic;
    manifest = std::move(*io::ManifestWriter::Create(env.get(), "/manifest.tdm", header));
    agreement = std::make_unique<Agreement>(AgreementOptions{.rank = rank,
                                                             .world = kWorld,
                                                             .lockstep = lockstep,
                                                             .silence_ns = kSilenceNs,
                                                             .pace_ns = 0,
                                                             .now_ns = [this] { return Now(); }},
                                            std::move(transport), slots.get(), manifest.get());
  }
  void Step(uint64_t local, uint64_t shape = kTrain, int64_t began_ns = 0) {
    agreement->Ended({.local = local,
                      .mode = shape == kEval ? StepMode::kEval : StepMode::kTrain,
                      .shape = shape,
                      .began_ns = began_ns,
                      .recorded = true});
  }
  // Polls until `done`, at most 20 s of real time.
  bool PollUntil(const std::function<bool()>& done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (true) {
      agreement->Poll();
      if (done()) return true;
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::yield();
    }
  }
  bool Settled(uint64_t steps) {
    return PollUntil([this, steps] { return agreement->settled() >= steps; });
  }
  // What the manifest says: "0 1 2x 2 3?" is global numbers in local order, x extra, ? unagreed.
  std::string Map() {
    io::ProcessEntry entry;
    io::ReadManifest(env.get(), "/manifest.tdm", &entry);
    std::string text;
    for (const io::StepMapSection& step : entry.steps) {
      text += (text.empty() ? "" : " ") + std::to_string(step.global_step) +
              ((step.flags & 2) != 0 ? "x" : "") + ((step.flags & 1) == 0 ? "?" : "");
    }
    return text;
  }
  io::AgreementSection Closing() {
    io::ProcessEntry entry;
    io::ReadManifest(env.get(), "/manifest.tdm", &entry);
    return entry.agreements.empty() ? io::AgreementSection{} : entry.agreements.back();
  }
};

inline void EqualSteps(Peer& peer) {
  for (uint64_t local = 0; local < 6; ++local) peer.Step(local);
  EXPECT_TRUE(peer.Settled(6));
  for (uint64_t local = 0; local < 7; ++local) EXPECT_EQ(peer.agreement->NumberOf(local), local);
  peer.Barrier();
  peer.agreement->Close();
  EXPECT_EQ(peer.Map(), "0 1 2 3 4 5");
  EXPECT_TRUE(peer.Closing().lost.empty());
}

// Rank 2 runs an evaluation between its training steps 2 and 3.
inline void ExtraStepInAnotherMode(Peer& peer) {
  uint64_t local = 0;
  for (int step = 0; step < 6; ++step) {
    peer.Step(local++);
    if (peer.rank == 2 && step == 2) peer.Step(local++, kEval);
  }
  EXPECT_TRUE(peer.Settled(6));
  EXPECT_EQ(peer.agreement->NumberOf(local), 6u);
  peer.Barrier();
  peer.agreement->Close();
  EXPECT_EQ(peer.Map(), peer.rank == 2 ? "0 1 2 3x 3 4 5" : "0 1 2 3 4 5");
}

// The same with a step of the same shape: only its begin time tells.
inline void ExtraStepOfTheSameShape(Peer& peer) {
  uint64_t local = 0;
  int64_t time = 1'000 * kSecondNs;
  for (int step = 0; step < 6; ++step) {
    peer.Step(local++, kTrain, time + peer.rank * 1'000'000);
    time += kStepNs;
    if (step != 2) continue;
    if (peer.rank == 2) peer.Step(local++, kTrain, time + peer.rank * 1'000'000);
    time += kStepNs;  // the others wait for rank 2
  }
  EXPECT_TRUE(peer.Settled(6));
  peer.Barrier();
  peer.agreement->Close();
  EXPECT_EQ(peer.Map(), peer.rank == 2 ? "0 1 2 3x 3 4 5" : "0 1 2 3 4 5");
}

inline void AnEarlyLeaver(Peer& peer, int32_t leaver) {
  for (uint64_t local = 0; local < 2; ++local) peer.Step(local);
  EXPECT_TRUE(peer.Settled(2));
  peer.Barrier();
  if (peer.rank == leaver) {
    peer.agreement->Close();
  } else {
    for (uint64_t local = 2; local < 6; ++local) peer.Step(local);
    EXPECT_TRUE(peer.Settled(6)) << "rank " << peer.rank;
  }
  peer.Barrier();
  if (peer.rank != leaver) peer.agreement->Close();
  EXPECT_EQ(peer.Map(), peer.rank == leaver ? "0 1" : "0 1 2 3 4 5");
  EXPECT_TRUE(peer.Closing().lost.empty());
}

inline void ARankLeavesEarly(Peer& peer) { AnEarlyLeaver(peer, 3); }
inline void AnInnerRankLeavesEarly(Peer& peer) { AnEarlyLeaver(peer, 1); }
inline void TheDecidingRankLeavesEarly(Peer& peer) { AnEarlyLeaver(peer, 0); }

// Rank 1 falls silent after two steps, and speaks again much later.
inline void ASilentRank(Peer& peer) {
  for (uint64_t local = 0; local < 2; ++local) peer.Step(local);
  EXPECT_TRUE(peer.Settled(2));
  peer.Barrier();
  if (peer.rank != 1) {
    for (uint64_t local = 2; local < 5; ++local) peer.Step(local);
  }
  peer.Barrier();
  if (peer.rank == 0) {
    // The others' reports come in before the clock is turned on.
    for (int i = 0; i < 20; ++i) {
      peer.agreement->Poll();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(peer.agreement->settled(), 2u);
    peer.offset_ns += 2 * kSilenceNs;
    EXPECT_TRUE(peer.Settled(5));
  }
  peer.Barrier();
  if (peer.rank == 1) {
    for (uint64_t local = 2; local < 5; ++local) peer.Step(local);
  } else {
    EXPECT_TRUE(peer.Settled(5));
  }
  peer.Barrier();
  peer.Step(5);
  EXPECT_TRUE(peer.Settled(6));
  peer.Barrier();
  peer.agreement->Close();
  EXPECT_EQ(peer.Map(), "0 1 2 3 4 5");
  if (peer.rank == 0) {
    EXPECT_EQ(peer.Closing().lost, std::vector<int32_t>{1});
  }
}

// Rank 0, which decides, does nothing at all: the others go on with their own numbers.
inline void NobodyWaits(Peer& peer) {
  if (peer.rank != 0) {
    for (uint64_t local = 0; local < 100; ++local) {
      peer.Step(local);
      EXPECT_EQ(peer.agreement->NumberOf(local + 1), local + 1);
    }
    EXPECT_EQ(peer.agreement->settled(), 0u);
    peer.agreement->Close();
    EXPECT_TRUE(peer.Map().starts_with("0? 1? 2?")) << peer.Map();
  }
  peer.Barrier();
  if (peer.rank == 0) peer.agreement->Close();
}

// The answer is used from the next step on and its lag is recorded.
inline void TheLagIsRecorded(Peer& peer) {
  for (uint64_t local = 0; local < 4; ++local) {
    peer.Step(local);
    peer.Barrier();
    if (local % 2 == 1) {
      EXPECT_TRUE(peer.Settled(local + 1));
    }
    peer.Barrier();
  }
  peer.agreement->Close();
  EXPECT_EQ(peer.Map(), "0 1 2 3");
  EXPECT_LE(peer.Closing().max_lag, 1u);
}

struct Case {
  const char* name;
  void (*body)(Peer&);
  bool lockstep = false;
};

inline const std::vector<Case>& Cases() {
  static const std::vector<Case> cases = {
      {"EqualSteps", EqualSteps},
      {"ExtraStepInAnotherMode", ExtraStepInAnotherMode},
      {"ExtraStepOfTheSameShape", ExtraStepOfTheSameShape, true},
      {"ARankLeavesEarly", ARankLeavesEarly},
      {"AnInnerRankLeavesEarly", AnInnerRankLeavesEarly},
      {"TheDecidingRankLeavesEarly", TheDecidingRankLeavesEarly},
      {"ASilentRank", ASilentRank},
      {"NobodyWaits", NobodyWaits},
      {"TheLagIsRecorded", TheLagIsRecorded},
  };
  return cases;
}

inline std::string NameOf(const testing::TestParamInfo<Case>& info) { return info.param.name; }
inline void PrintTo(const Case& value, std::ostream* out) { *out << value.name; }

}  // namespace tdump::coordinator::protocol
