// safetensors, made byte by byte, and the JSON it and msprobe are written in.
#include "compare/foreign/safetensors_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compare/foreign/foreign_file.h"
#include "compare/foreign/json_reader.h"
#include "tests/compare/foreign/bytes.h"

namespace tdump::compare::foreign::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string Why(const std::string& header, const std::string& data) {
  const auto file = ReadForeignFile(FromText("a.safetensors", Safetensors(header, data)));
  return file.ok() ? "" : file.status().message();
}

TEST(Safetensors, TensorsByName) {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2,1],"data_offsets":[4,12]},)"
      R"("a":{"dtype":"F8_E5M2","shape":[4],"data_offsets":[0,4]},)"
      R"("e":{"shape":[0,3],"dtype":"BF16","data_offsets":[12,12]}}   )";
  const auto file = ReadForeignFile(
      FromText("a.safetensors", Safetensors(header, "wxyz" + RawAll<float>({1.5, -2}))));
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_EQ(file->tensors.size(), 3u);
  EXPECT_THAT(file->tensors[0].place, ElementsAre("b"));
  EXPECT_THAT(Values<float>(file->tensors[0]), ElementsAre(1.5, -2));
  EXPECT_EQ(file->tensors[1].dtype.view(), "float8_e5m2");
  EXPECT_EQ(Payload(file->tensors[1]), "wxyz");
  EXPECT_THAT(file->tensors[2].sizes, ElementsAre(0, 3));
}

TEST(Safetensors, PackedElementsAreCountedInUnits) {
  const auto file = ReadForeignFile(FromText(
      "a", Safetensors(R"({"p":{"dtype":"F4","shape":[2,4],"data_offsets":[0,4]}})", "abcd")));
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->tensors[0].dtype.view(), "float4_e2m1fn_x2");
  EXPECT_THAT(file->tensors[0].sizes, ElementsAre(2, 2));
}

TEST(Safetensors, AnUnknownDTypeIsSkippedByName) {
  const auto file = ReadForeignFile(FromText(
      "a", Safetensors(R"({"p":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]}})", "abc")));
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_TRUE(file->tensors.empty());
  EXPECT_THAT(file->skipped, ElementsAre(HasSubstr("'p': dtype F6_E2M3")));
}

TEST(Safetensors, WhatCannotBeTrueIsRefused) {
  const auto one = [](const std::string& dtype, const std::string& shape, const std::string& at) {
    return R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + at +
           "}}";
  };
  EXPECT_EQ(Why(one("F32", "[1]", "[0,4]"), "1234"), "");
  EXPECT_THAT(Why(one("F32", "[1]", "[0,8]"), "12345678"), HasSubstr("do not need"));
  EXPECT_THAT(Why(one("F32", "[2]", "[0,8]"), "1234"), HasSubstr("beyond the end"));
  EXPECT_THAT(Why(one("F32", "[1]", "[4,0]"), "1234"), HasSubstr("[begin, end]"));
  EXPECT_THAT(Why(one("F32", "[-1]", "[0,4]"), "1234"), HasSubstr("negative"));
  EXPECT_THAT(Why(one("F32", "[1.5]", "[0,4]"), "1234"), HasSubstr("not a whole number"));
  EXPECT_THAT(Why(one("F32", "[4294967296,4294967296,4294967296]", "[0,4]"), "1234"),
              HasSubstr("do not need"));
  EXPECT_THAT(Why(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                  R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                  "abc"),
              HasSubstr("overlap"));
  EXPECT_THAT(Why(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                  R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                  "ab"),
              HasSubstr("two tensors are named 'a'"));
  EXPECT_THAT(Why(R"({"a":{"dtype":"U8","shape":[1],"shape":[1],"data_offsets":[0,1]}})", "a"),
              HasSubstr("'shape' of 'a' a second time"));
  EXPECT_THAT(Why(R"({"a":{}})", ""), HasSubstr("no dtype"));
  EXPECT_THAT(Why(R"({"a":1})", ""), HasSubstr("expected '{'"));
  EXPECT_THAT(Why("{", ""), HasSubstr("expected"));
  EXPECT_THAT(Why("{} x", ""), HasSubstr("after the end"));
  // A header longer than the file, or than the format allows.
  const auto huge = ReadSafetensors(FromText("a", Raw(~uint64_t{0}) + "{}"));
  ASSERT_FALSE(huge.ok());
  EXPECT_THAT(huge.status().message(), HasSubstr("a header of 18446744073709551615 bytes"));
}

std::string JsonError(const std::string& text) {
  JsonReader json(FromText("a.json", text));
  Status status = json.Skip();
  if (status.ok()) status = json.ExpectEnd();
  return status.message();
}

TEST(JsonReader, TakesWhatPythonWrites) {
  EXPECT_EQ(JsonError(R"({"a": [1, -2.5e-3, NaN, Infinity, -Infinity, true, false, null, "x"]})"),
            "");
  JsonReader json(FromText("a.json", R"("\u00e9\ud83d\ude00\n\"")"));
  EXPECT_EQ(*json.ReadText(), "\xc3\xa9\xf0\x9f\x98\x80\n\"");
}

TEST(JsonReader, MistakesAreErrorsWithTheOffset) {
  EXPECT_THAT(JsonError("[1,]"), HasSubstr("offset 3"));
  EXPECT_THAT(JsonError("[1 2]"), HasSubstr("expected ']'"));
  EXPECT_THAT(JsonError(R"({"a" 1})"), HasSubstr("expected ':'"));
  EXPECT_THAT(JsonError(R"(")"), HasSubstr("0 are left"));
  EXPECT_THAT(JsonError(R"("\ud83dxx")"), HasSubstr("surrogate"));
  EXPECT_THAT(JsonError(R"("\x41")"), HasSubstr("unknown escape"));
  EXPECT_THAT(JsonError("truth"), HasSubstr("'truth' is no value"));
  EXPECT_THAT(JsonError(std::string(100'000, '[')), HasSubstr("nested deeper than 64"));
  EXPECT_THAT(JsonError("\"" + std::string(2'000'000, 'a') + "\""),
              HasSubstr("a text of more than"));
}

}  // namespace
}  // namespace tdump::compare::foreign::test
