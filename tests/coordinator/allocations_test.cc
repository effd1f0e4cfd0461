// What runs at the boundaries of a job of several ranks allocates nothing once it has run a few
// times.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <new>
#include <string>

#include "coordinator/step_aligner.h"
#include "coordinator/transport_file.h"

namespace {
thread_local size_t allocations = 0;
}  // namespace

[[gnu::noinline]] void* operator new(size_t bytes) {
  ++allocations;
  if (void* block = std::malloc(bytes)) return block;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* block) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, size_t) noexcept { std::free(block); }

namespace tdump::coordinator {
namespace {

constexpr uint64_t kSteps = 3000, kWarm = 16;  // the ring of slots is gone through more than once
constexpr int64_t kMs = 1'000'000;

TEST(Allocations, ReadingTheSlotFilesOfOthersTakesNone) {
  const std::filesystem::path clock =
      std::filesystem::path(testing::TempDir()) / ("tdump_clock_" + std::to_string(::getpid()));
  Env* const env = Env::Posix();
  ASSERT_TRUE(env->MakeDirs(clock.string(), 0700).ok());
  const auto make = [&](int32_t rank) {
    Identity identity;
    identity.rank = rank;
    const std::string path = clock / ("rank" + std::to_string(rank) + ".slot");
    return SlotWriter(env, *env->CreateExclusive(path, 0600), MakeSlotHeader(identity, 0, 1));
  };
  const SlotWriter own = make(0);  // so that all are there, and nobody looks for more
  SlotWriter slots = make(1);
  int64_t now = 1;
  const auto transport = NewFileTransport(
      env, clock.string(), {.rank = 0, .world = 2, .pace_ns = 0, .now_ns = [&] { return now; }});
  uint64_t heard = 0;
  const AgreementTransport::Take take = [&heard](const AgreementMessage&) { ++heard; };
  size_t before = 0;
  for (uint64_t step = 0; step < kSteps; ++step, now += kMs) {
    if (step == kWarm) before = allocations;
    for (int message = 0; message < 2; ++message)
      slots.Add({.kind = AgreementMessage::Kind::kReport, .rank = 1, .local = step});
    ASSERT_TRUE(slots.Flush(step + 1, step).ok());
    transport->Poll(0, false, take);
  }
  EXPECT_EQ(allocations - before, 0u);
  EXPECT_EQ(heard, 2 * kSteps);
  std::filesystem::remove_all(clock);
}

TEST(Allocations, AligningStepsByTimeTakesNone) {
  StepAligner aligner(3, {.by_time = true});
  size_t before = 0;
  for (uint64_t step = 0; step < kSteps; ++step) {
    if (step == kWarm) before = allocations;
    for (int32_t rank = 0; rank < 3; ++rank)
      aligner.Report(rank, {step, 1, static_cast<int64_t>(step) * 10 * kMs + rank * kMs}, 0);
    EXPECT_TRUE(aligner.Advance(0).extras.empty());
  }
  EXPECT_EQ(allocations - before, 0u);
  EXPECT_EQ(aligner.columns(), kSteps);
}

}  // namespace
}  // namespace tdump::coordinator
