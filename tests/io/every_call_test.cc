// A whole capture of several passes, in which one system call after the other fails: the job's side
// never does, and what the manifest acknowledges is readable and right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "io/node_env.h"
#include "io/pass_store.h"
#include "tests/io/recorded_passes.h"

namespace tdump::io {
namespace {

// One thread does all of it: a thread sanitizer, which takes minutes for every call, sees nothing.
#if defined(__SANITIZE_THREAD__)
constexpr uint64_t kEvery = 20;
#else
constexpr uint64_t kEvery = 1;
#endif

constexpr uint64_t kPasses = 3;
constexpr size_t kSizes[] = {5000, 10, 300 << 10, 100};

// The first is the same in every pass; one is long enough for room to be reserved ahead
// and for a write past the page cache.
std::vector<std::byte> Values(uint64_t pass, size_t i) {
  const size_t size = pass == 1 && i == 3 ? 1300 << 10 : kSizes[i];
  return Bytes(size, static_cast<uint8_t>(i == 0 ? 9 : 17 * pass + i), 3);
}

// Passes that the manifest lists without an error: whole, and all that was asked for is right.
size_t CheckAcknowledged(Env* env) {
  const auto store = PassStore::Open(env, "run");
  EXPECT_TRUE(store.ok()) << store.status().message();
  if (!store.ok()) return 0;
  size_t whole = 0;
  for (const ProcessEntry& process : (*store)->processes()) {
    for (const PassEntry& pass : process.passes) {
      const auto reader = (*store)->OpenPass(process, pass);
      const bool acknowledged = pass.listed && pass.error.empty();
      EXPECT_TRUE(reader.ok() || !acknowledged) << reader.status().message();
      if (!reader.ok()) continue;
      const size_t right = RightRecords(reader->get(), pass.info.ordinal, Values);
      if (!acknowledged) continue;
      uint64_t lost = 0;
      for (const ReasonCount& count : pass.not_kept) lost += count.count;
      EXPECT_EQ(right + lost, std::size(kSizes));
      ExpectWhole(reader->get());
      whole += lost == 0 ? 1 : 0;
    }
  }
  return whole;
}

struct Fault {
  const char* name;
  int error;
  bool for_good;  // every later call too
  bool harmless;  // retried inside: nothing is lost
};

enum class Layout { kPass, kPacked, kNode };

const char* NameOf(Layout layout) {
  return layout == Layout::kPass ? "Pass" : layout == Layout::kPacked ? "Packed" : "Node";
}

class EveryCall : public ::testing::TestWithParam<std::tuple<Layout, Fault>> {};

TEST_P(EveryCall, MayFail) {
  const auto [layout, fault] = GetParam();
  bool hit = true, past_the_cache = false;
  // A short write of every call costs many calls: then every third is enough.
  const uint64_t stride = (fault.for_good ? 3 : 1) * kEvery;
  uint64_t victim = 1;
  for (; hit; victim += stride) {
    hit = false;
    auto memory = NewMemoryEnv();
    uint64_t calls = 0;
    bool armed = false;
    auto faulty =
        NewFaultyEnv(memory.get(), [&](uint64_t, std::string_view call, std::string_view) -> int {
          if (!armed) return 0;
          ++calls;
          past_the_cache = past_the_cache || call == "write_direct";
          if (fault.for_good ? calls < victim : calls != victim) return 0;
          hit = true;
          if (fault.error == kShortWrite && !call.starts_with("write")) return 0;
          // For good means every other: a call that is interrupted each time never ends.
          return fault.harmless && fault.for_good && calls % 2 == 0 ? 0 : fault.error;
        });
    SCOPED_TRACE(testing::Message() << "call " << victim << ": " << fault.name);
    ASSERT_TRUE(memory->MakeDirs("run", 0700).ok());
    const auto env = NewNodeEnv(faulty.get(), "run", layout == Layout::kNode ? "node_a_0.tdn" : "");
    SinkRig rig({.arena_bytes = 8 << 20,
                 .thread = false,
                 .files = {.single_files = layout == Layout::kPass ? ~uint64_t{0} : 0,
                           .durability = Durability::kPass}},
                env.get());
    armed = true;
    RecordPasses(&rig, kPasses, std::size(kSizes), Values);
    armed = false;
    const size_t whole = CheckAcknowledged(NewNodeEnv(memory.get()).get());
    if (fault.harmless) EXPECT_EQ(whole, kPasses);
    if (!fault.for_good) EXPECT_GE(whole, kPasses - 1);
    rig.sink.reset();
    rig.manifest.reset();
    if (HasFailure()) return;
  }
  EXPECT_TRUE(past_the_cache);
  EXPECT_GT(victim, 40u);  // opens, writes, room, syncs, closes, renames, look-backs
}

INSTANTIATE_TEST_SUITE_P(
    Faults, EveryCall,
    ::testing::Combine(::testing::Values(Layout::kPass, Layout::kPacked, Layout::kNode),
                       ::testing::Values(Fault{"Enospc", ENOSPC, false, false},
                                         Fault{"Eio", EIO, false, false},
                                         Fault{"Eintr", EINTR, false, true},
                                         Fault{"ShortWrite", kShortWrite, false, true},
                                         Fault{"EnospcForGood", ENOSPC, true, false},
                                         Fault{"EioForGood", EIO, true, false},
                                         Fault{"EintrForGood", EINTR, true, true})),
    [](const auto& info) {
      return std::string(NameOf(std::get<0>(info.param))) + std::get<1>(info.param).name;
    });

}  // namespace
}  // namespace tdump::io
