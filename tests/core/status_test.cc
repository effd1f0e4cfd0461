#include "core/status.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

namespace tdump {
namespace {

Result<int> Half(int x) {
  if (x % 2 != 0) return InvalidArgument(std::to_string(x) + " is odd");
  return x / 2;
}

Result<int> Quarter(int x) {
  TDUMP_ASSIGN_OR_RETURN(const int half, Half(x));
  return Half(half);
}

Status CheckHalf(int x) {
  TDUMP_RETURN_IF_ERROR(Half(x).status());
  return Status::Ok();
}

TEST(StatusTest, OkCarriesNothing) {
  EXPECT_TRUE(Status().ok());
  EXPECT_EQ(Status().ToString(), "ok");
  EXPECT_EQ(Status().Annotate("reading").message(), "");
}

TEST(StatusTest, EachLayerAddsItsContext) {
  const Status status = Corrupt("length 9 of 4").Annotate("frame 3").Annotate("pass00000.tdp");
  EXPECT_EQ(status.message(), "pass00000.tdp: frame 3: length 9 of 4");
  EXPECT_EQ(status.ToString(), "damaged: pass00000.tdp: frame 3: length 9 of 4");
}

TEST(StatusTest, ErrnoBecomesACodeAndNamesThePath) {
  EXPECT_EQ(ErrnoStatus(ENOSPC, "write", "/x").code(), StatusCode::kNoSpace);
  EXPECT_EQ(ErrnoStatus(EDQUOT, "write", "/x").code(), StatusCode::kNoSpace);
  EXPECT_EQ(ErrnoStatus(ENOENT, "open", "/x").code(), StatusCode::kNotFound);
  EXPECT_EQ(ErrnoStatus(EEXIST, "open", "/x").code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(ErrnoStatus(EIO, "open", "/x").code(), StatusCode::kIo);
  EXPECT_EQ(ErrnoStatus(EIO, "read", "/x").message(), "read '/x': Input/output error (EIO)");
}

TEST(ResultTest, ValueOrStatus) {
  EXPECT_EQ(Quarter(8).value(), 2);
  EXPECT_EQ(Quarter(6).status().message(), "3 is odd");
  EXPECT_TRUE(CheckHalf(2).ok());
  EXPECT_EQ(CheckHalf(1).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(Quarter(8).status().ok());
}

TEST(ResultTest, MovesWhatCannotBeCopied) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(7));
  const std::unique_ptr<int> value = *std::move(result);
  EXPECT_EQ(*value, 7);
}

}  // namespace
}  // namespace tdump
