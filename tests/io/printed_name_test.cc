#include "io/printed_name.h"

#include <gtest/gtest.h>

namespace tdump::io {
namespace {

Record RecordOf(const std::string& path, Role role, const std::string& arg) {
  Record record;
  record.key = {.path = path, .role = role, .arg = arg};
  return record;
}

TEST(PrintedName, OfAParameterItIsItsOwn) {
  EXPECT_EQ(PrintedName(RecordOf("a.fc", Role::kOutput, "")), "a.fc");
  EXPECT_EQ(PrintedName(RecordOf("a.fc", Role::kParam, "weight")), "a.fc.weight");
  EXPECT_EQ(PrintedName(RecordOf("a.bn", Role::kState, "running_mean")), "a.bn.running_mean");
  EXPECT_EQ(PrintedName(RecordOf("a.fc", Role::kParamGrad, "weight")), "a.fc");
  EXPECT_EQ(PrintedName(RecordOf(".", Role::kParam, "pos")), "pos");
}

TEST(NameMatchesPrinted, TakesWhatReportsPrint) {
  const Record grad = RecordOf("layers.0.fc", Role::kGradInput, "0");
  for (const char* name : {"layers.0.fc", "layers.0.fc@grad_input#0", "layers.0.fc, grad_input 0",
                           "lay….fc, grad_input 0"})
    EXPECT_TRUE(NameMatchesPrinted(name, grad)) << name;
  for (const char* name : {"layers.0.fc, grad_input 1", "layers.0.fc, grad_input", "layers.0",
                           "lay….gc, grad_input 0"})
    EXPECT_FALSE(NameMatchesPrinted(name, grad)) << name;
  const Record weight = RecordOf("layers.0.fc", Role::kParam, "weight");
  for (const char* name : {"layers.0.fc.weight", "layers.0.fc.weight, param weight",
                           "layers.0.fc, param weight", "layers.0.fc@param#weight"})
    EXPECT_TRUE(NameMatchesPrinted(name, weight)) << name;
  EXPECT_FALSE(NameMatchesPrinted("layers.0.fc.weight", grad));
  EXPECT_TRUE(NameMatchesPrinted("the whole model, output", RecordOf(".", Role::kOutput, "")));
}

}  // namespace
}  // namespace tdump::io
