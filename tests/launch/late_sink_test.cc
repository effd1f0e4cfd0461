#include "launch/runtime/late_sink.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace tdump::launch {
namespace {

// Counts what arrives; hands out one fixed slot.
class CountingSink : public Sink {
 public:
  Slot reserve(const Call&, const Observation&, const Keep&, uint64_t bytes) noexcept override {
    ++reserved;
    return Slot{.data = room, .bytes = bytes, .record = reserved};
  }
  void commit(const Slot& slot) noexcept override { committed.push_back(slot.record); }
  void abandon(const Slot&, SkipReason) noexcept override {}
  uint64_t max_slot() const noexcept override { return ~uint64_t{0}; }
  void stream(const Call&, const Observation&, const Keep&, uint64_t,
              PieceSource*) noexcept override {}
  void when_ready(const Call&, const Observation&, const Keep&, uint64_t,
                  DeviceCopy* copy) noexcept override {
    copy->Release();
  }
  void refer(const Call&, const Observation&, const Keep&, uint64_t) noexcept override {}
  void skip(const Call&, const Observation&, const Keep&, SkipReason,
            std::string_view) noexcept override {}
  void end_call(const Call&, std::span<const std::byte>,
                std::span<const std::byte>) noexcept override {
    ++ended;
  }
  void expect(OperatorId op) noexcept override { expected.push_back(op); }
  void note(std::string_view text) noexcept override { notes.emplace_back(text); }

  std::byte room[64];
  uint64_t reserved = 0, ended = 0;
  std::vector<uint64_t> committed;
  std::vector<OperatorId> expected;
  std::vector<std::string> notes;
};

TEST(LateSink, HasNoRoomBeforeItIsAttached) {
  LateSink late;
  const Slot slot = late.reserve(Call{}, Observation{}, kLevelFull, 16);
  EXPECT_EQ(slot.data, nullptr);
  EXPECT_EQ(slot.record, 0u);
  late.commit(slot);
  late.end_call(Call{}, {}, {});
}

TEST(LateSink, HandsOnWhatWasToldBeforeOnceEach) {
  LateSink late;
  late.expect(7);
  late.expect(3);
  late.expect(7);
  late.note("torch.compile region not captured");
  late.note("torch.compile region not captured");
  EXPECT_TRUE(late.has_notes());
  CountingSink sink;
  late.Attach(&sink);
  EXPECT_EQ(sink.expected, (std::vector<OperatorId>{3, 7}));
  EXPECT_EQ(sink.notes, (std::vector<std::string>{"torch.compile region not captured"}));
  EXPECT_FALSE(late.has_notes());
  late.expect(9);
  EXPECT_EQ(sink.expected.back(), 9u);
}

TEST(LateSink, ForwardsWhenAttachedAndNothingWhenDetached) {
  LateSink late;
  CountingSink sink;
  late.Attach(&sink);
  const Slot slot = late.reserve(Call{}, Observation{}, kLevelFull, 16);
  EXPECT_EQ(slot.data, sink.room);
  late.commit(slot);
  EXPECT_EQ(sink.committed, (std::vector<uint64_t>{1}));
  late.Detach();
  EXPECT_EQ(late.reserve(Call{}, Observation{}, kLevelFull, 16).data, nullptr);
  late.commit(slot);
  EXPECT_EQ(sink.committed.size(), 1u);
}

TEST(LateSink, LosesNoExpectationThatRacesWithAttach) {
  for (int round = 0; round < 200; ++round) {
    LateSink late;
    CountingSink sink;
    std::thread teller([&] { late.expect(1); });
    late.Attach(&sink);
    teller.join();
    EXPECT_EQ(sink.expected, (std::vector<OperatorId>{1}));
  }
}

}  // namespace
}  // namespace tdump::launch
