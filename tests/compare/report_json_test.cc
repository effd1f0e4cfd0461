// The document is written piece by piece and reads as if it were made at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "compare/report.h"

namespace tdump::compare {
namespace {

std::vector<std::string> Pieces(const DiffReport& report) {
  std::vector<std::string> pieces;
  WriteJson(report, {.label = "a@0"}, {.label = "b@0"}, false,
            [&](std::string_view piece) { pieces.emplace_back(piece); });
  return pieces;
}

// Precondition: UTF-8.
void ExpectAsMadeAtOnce(const DiffReport& report, size_t points) {
  const std::string text = RenderJson(report, {.label = "a@0"}, {.label = "b@0"}, false);
  const auto json = nlohmann::ordered_json::parse(text, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << text.substr(0, 1000);
  EXPECT_EQ(json.dump(2) + "\n", text);
  EXPECT_EQ(json["growth"]["points"].size(), points);
  std::string joined;
  for (const std::string& piece : Pieces(report)) joined += piece;
  EXPECT_EQ(joined, text);
}

DiffReport WithPoints(size_t count, const std::string& name) {
  DiffReport report;
  auto texts = std::make_shared<std::set<std::string, std::less<>>>();
  GrowthPoint point;
  point.name = *texts->insert(name).first;
  point.out_db = 30.5;
  report.growth.step = 7;
  report.growth.points.assign(count, point);
  report.growth.texts = std::move(texts);
  return report;
}

TEST(ReportJson, ReadsAsIfMadeAtOnce) {
  for (const size_t points : {0u, 1u, 2u, 1000u})
    ExpectAsMadeAtOnce(WithPoints(points, "a \"name\"\nof {two} [lines]"), points);
  const auto json = nlohmann::json::parse(RenderJson(WithPoints(1, "x"), {}, {}, false));
  EXPECT_EQ(json["growth"]["step"], 7);
  EXPECT_EQ(json["growth"]["points"][0]["out_db"], 30.5);
  EXPECT_EQ(json["growth"]["points"][0]["in_db"], nullptr);
}

TEST(ReportJson, BytesThatAreNoTextAreReplaced) {
  const std::string text = RenderJson(WithPoints(1, "\xFF!"), {}, {}, false);
  EXPECT_THAT(text, testing::HasSubstr("\"name\": \"\xEF\xBF\xBD!\""));
}

TEST(ReportJson, PiecesAreSmallHoweverManyPointsThereAre) {
  const std::vector<std::string> pieces = Pieces(WithPoints(10'000, "layers.0.mlp"));
  for (const std::string& piece : pieces) EXPECT_LT(piece.size(), 100'000u);
  EXPECT_GT(pieces.size(), 10u);
}

}  // namespace
}  // namespace tdump::compare
