#include "compare/record_patterns.h"

#include <gtest/gtest.h>

#include "tests/compare/diff_runs.h"

namespace tdump::compare {
namespace {

io::Record Gradient() {
  io::Record record;
  record.key = {.path = "layers.0.output", .role = Role::kGradOutput, .arg = "0"};
  record.key.phase = Phase::kBackward;
  return record;
}

TEST(RecordPatterns, NamesAreOfAllRecordsOfAModule) {
  EXPECT_TRUE(RecordPatterns(Named("output")).Match(Gradient()));
  EXPECT_FALSE(RecordPatterns(Named("grad_output")).Match(Gradient()));
  EXPECT_FALSE(RecordPatterns());
  EXPECT_FALSE(RecordPatterns().Match(Gradient()));
}

TEST(RecordPatterns, OfOneRecordWhatIsPrinted) {
  for (const char* printed :
       {"@grad_output", "layers.0.output@grad_output#0~b", "layers.0.output, grad_output 0"})
    EXPECT_TRUE(RecordPatterns({}, Named(printed)).Match(Gradient())) << printed;
  for (const char* other : {"@output", "layers.0.output@grad_output#1", "output, output"})
    EXPECT_FALSE(RecordPatterns({}, Named(other)).Match(Gradient())) << other;
}

TEST(RecordPatterns, ATitleHasTheCall) {
  io::Record record = Gradient();
  EXPECT_EQ(ObservationText(record.key), "grad_output 0");
  record.key.call = 2;
  record.key.arg = "";
  EXPECT_EQ(ObservationText(record.key), "grad_output of call 2");
}

}  // namespace
}  // namespace tdump::compare
