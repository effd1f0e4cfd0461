// Passes of known values, recorded and read back: for tests in which the disk fails in between.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/io/sink_fixture.h"

namespace tdump::io {

// The bytes of a pass's record; "0", "1", ... are the arguments' names.
using PassValues = std::function<std::vector<std::byte>(uint64_t pass, size_t record)>;

// Every call of the job's side comes back, whatever the disk does.
inline void RecordPasses(SinkRig* rig, uint64_t passes, size_t records, const PassValues& values) {
  for (uint64_t pass = 0; pass < passes; ++pass) {
    rig->Open(pass);
    for (size_t i = 0; i < records; ++i) {
      const Call call = rig->NewCall(rig->Op("layer." + std::to_string(i)));
      rig->Keep(call, std::to_string(i), values(pass, i));
      rig->sink->end_call(call, {}, {});
    }
    rig->sink->close_pass();
  }
  EXPECT_TRUE(rig->sink->Drain(20'000));
}

// Records whose values are there and right; wrong ones, and those that are not there without a
// reason, are failures of the test.
inline size_t RightRecords(PassReader* reader, uint64_t pass, const PassValues& values) {
  size_t right = 0;
  const auto check = [&](const Record& record) {
    if (!record.payload) {
      EXPECT_NE(record.reason, SkipReason::kNone);
      return true;
    }
    std::vector<std::byte> found(record.payload->logical_bytes);
    EXPECT_TRUE(reader->ReadPayload(record, 0, found).ok());
    EXPECT_EQ(found, values(pass, std::stoul(record.key.arg)));
    return ++right, true;
  };
  EXPECT_TRUE(reader->ForEachRecord(check).ok());
  return right;
}

inline void ExpectWhole(PassReader* reader) {
  EXPECT_TRUE(reader->complete());
  std::vector<Damage> damage;
  EXPECT_TRUE(reader->Verify(&damage).ok());
  for (const Damage& item : damage) ADD_FAILURE() << item.file << ": " << item.what;
}

}  // namespace tdump::io
