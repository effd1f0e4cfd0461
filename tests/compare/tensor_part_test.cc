// Fused projections against NumPy (make_map_reference.py), and by hand.
#include "compare/tensor_part.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/compare/builders.h"

namespace tdump::compare {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Array {
  Shape shape;
  std::vector<int32_t> values;
};

// "2x3:1,2,3,4,5,6"
Array ParseArray(const std::string& text) {
  Array array;
  std::stringstream shape(text.substr(0, text.find(':'))), values(text.substr(text.find(':') + 1));
  for (std::string word; std::getline(shape, word, 'x');) array.shape.push_back(std::stoull(word));
  for (std::string word; std::getline(values, word, ',');) array.values.push_back(std::stoi(word));
  return array;
}

Source SourceOfArray(const Array& array) {
  std::vector<int64_t> sizes(array.shape.begin(), array.shape.end());
  const auto tensor =
      std::make_shared<const Tensor>(MakeTensor<int32_t>("int32", sizes, array.values));
  return SourceOf(tensor->record,
                  [tensor, read = FromMemory(tensor->payload)](
                      uint64_t offset, std::span<std::byte> out) { return read(offset, out); });
}

std::vector<int32_t> ValuesOf(TensorSource& source) {
  std::vector<int32_t> values(source.units());
  EXPECT_TRUE(source.Read(0, std::as_writable_bytes(std::span(values))).ok());
  return values;
}

Fusion FusionNamed(const std::string& name) {
  return name == "qkv" ? Fusion::kQkv : name == "equal" ? Fusion::kEqual : Fusion::kQkvGroups;
}

TEST(TensorPart, FusedProjectionsComeApartAsNumPyBuiltThem) {
  std::ifstream file(TDUMP_MAP_REFERENCE);
  size_t cases = 0;
  for (std::string line; std::getline(file, line); ++cases) {
    std::stringstream words(line);
    std::string rule, fused_text;
    size_t axis = 0;
    QkvLengths lengths;
    words >> rule >> axis >> lengths.q >> lengths.kv >> lengths.head >> fused_text;
    const Array fused = ParseArray(fused_text);
    std::vector<Array> wanted;
    for (std::string text; words >> text;) wanted.push_back(ParseArray(text));
    const auto parts = PartsOf(fused.shape, axis, FusionNamed(rule), wanted.size(), lengths);
    ASSERT_TRUE(parts.ok()) << line << "\n" << parts.status().message();
    for (size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_EQ((*parts)[i].shape, wanted[i].shape) << line;
      const auto part = OpenPart(SourceOfArray(fused), (*parts)[i]);
      ASSERT_TRUE(part.ok()) << part.status().message();
      EXPECT_EQ((*part)->shape(), wanted[i].shape) << line;
      EXPECT_EQ(ValuesOf(**part), wanted[i].values) << line;
    }
  }
  EXPECT_EQ(cases, 105u);
}

// Two groups of 2 queries + k + v, heads of 1, one column: q q k v q q k v.
TEST(TensorPart, AGroupIsItsQueriesThenKThenV) {
  const auto parts = PartsOf({8, 1}, 0, Fusion::kQkvGroups, 3, {.q = 4, .kv = 2, .head = 1});
  ASSERT_TRUE(parts.ok());
  EXPECT_THAT((*parts)[0].shape, ElementsAre(4, 1));
  EXPECT_THAT((*parts)[0].box, ElementsAre(2, 2, 1));
  EXPECT_THAT((*parts)[0].stride, ElementsAre(4, 1, 1));
  EXPECT_EQ((*parts)[0].offset, 0u);
  EXPECT_EQ((*parts)[1].offset, 2u);
  EXPECT_THAT((*parts)[2].box, ElementsAre(2, 1, 1));
  EXPECT_EQ((*parts)[2].offset, 3u);
}

TEST(TensorPart, ACopyIsTheWholeTensor) {
  const auto parts = PartsOf({2, 3}, 1, Fusion::kCopy, 3, {});
  ASSERT_TRUE(parts.ok());
  ASSERT_EQ(parts->size(), 3u);
  for (const TensorPart& part : *parts) {
    EXPECT_TRUE(part.whole);
    EXPECT_THAT(part.shape, ElementsAre(2, 3));
    EXPECT_EQ(ValuesOf(**OpenPart(SourceOfArray({{2, 3}, {1, 2, 3, 4, 5, 6}}), part)),
              (std::vector<int32_t>{1, 2, 3, 4, 5, 6}));
  }
}

std::string WhyNot(const Shape& shape, size_t axis, Fusion fusion, size_t count,
                   const QkvLengths& lengths) {
  return PartsOf(shape, axis, fusion, count, lengths).status().message();
}

TEST(TensorPart, WhatDoesNotFitIsAnErrorThatSaysTheLengths) {
  EXPECT_EQ(WhyNot({5, 2}, 0, Fusion::kEqual, 2, {}), "dimension 0 of [5, 2] is not 2 equal parts");
  EXPECT_EQ(WhyNot({9, 2}, 0, Fusion::kQkv, 3, {.q = 4, .kv = 2}),
            "dimension 0 of [9, 2] is not q, k, v of 4, 2 and 2");
  EXPECT_EQ(WhyNot({8}, 0, Fusion::kQkvGroups, 3, {.q = 4, .kv = 2, .head = 0}),
            "dimension 0 of [8] is not groups of heads of 0: q 4, k 2, v 2");
  EXPECT_THAT(WhyNot({9}, 0, Fusion::kQkvGroups, 3, {.q = 5, .kv = 2, .head = 1}),
              HasSubstr("is not groups of heads of 1: q 5, k 2, v 2"));  // 5 queries, 2 groups
  EXPECT_THAT(WhyNot({8}, 0, Fusion::kQkv, 3, {.q = ~uint64_t{0} - 7, .kv = 8}),
              HasSubstr("is shorter than"));
  EXPECT_EQ(WhyNot({8}, 1, Fusion::kEqual, 2, {}), "[8] has no dimension 1");
  EXPECT_EQ(WhyNot({8}, 0, Fusion::kQkv, 2, {.q = 4, .kv = 2}), "q, k and v are three names");
  EXPECT_EQ(WhyNot({uint64_t{1} << 40, uint64_t{1} << 40}, 0, Fusion::kEqual, 2, {}),
            "more units than 64 bits count");
}

TEST(TensorPart, EmptyTensorsComeApartToo) {
  const auto parts = PartsOf({0, 4}, 1, Fusion::kEqual, 2, {});
  ASSERT_TRUE(parts.ok());
  EXPECT_THAT((*parts)[1].shape, ElementsAre(0, 2));
  const auto part = OpenPart(SourceOfArray({{0, 4}, {}}), (*parts)[1]);
  ASSERT_TRUE(part.ok()) << part.status().message();
  EXPECT_EQ((*part)->units(), 0u);
}

}  // namespace
}  // namespace tdump::compare
