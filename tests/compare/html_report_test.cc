// What the HTML report holds. That it shows it is checked in a browser
// (tests/e2e/test_html_report.py).
#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <map>

#include "compare/html/embedded_json.h"
#include "compare/html/grid_collector.h"
#include "compare/html/layer_map.h"
#include "compare/html/page.h"
#include "compare/html/page_data.h"
#include "tests/compare/fake_run.h"

namespace tdump::compare::html {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A pair whose values were read. `sqnr`: infinite for equal bits.
Row Read(const std::string& path, uint64_t step, int32_t rank, double sqnr, bool fails,
         Role role = Role::kOutput) {
  Row row;
  row.step_a = row.step_b = step;
  row.rank_a = row.rank_b = rank;
  row.name = row.key.path = path;
  row.key.role = role;
  row.dtype_a = row.dtype_b = "float32";
  row.shape_a = row.shape_b = {4};
  row.fails = fails;
  row.bound = "4e-06 of |x|";
  Comparison& c = row.comparison;
  c.evidence = Evidence::kPayload;
  Metrics metrics;
  metrics.elements = 4;
  metrics.within = fails ? 1 : 4;
  metrics.sqnr_db = sqnr;
  c.metrics = metrics;
  const bool equal = std::isinf(sqnr);
  c.verdict = {.shape = Answer::kSame,
               .dtype = Answer::kSame,
               .bitwise = equal ? Answer::kSame : Answer::kDiffers,
               .tolerance = fails ? Answer::kDiffers : Answer::kSame,
               .special = Answer::kSame};
  return row;
}

// A pair of which the hash alone was kept.
Row Hashed(const std::string& path, uint64_t step, int32_t rank, bool equal,
           Role role = Role::kOutput, const std::string& arg = "") {
  Row row = Read(path, step, rank, equal ? kInfinity : 60, false, role);
  row.key.arg = arg;
  Comparison& c = row.comparison;
  c.evidence = Evidence::kHash;
  c.metrics = {};
  if (!equal) c.verdict.tolerance = c.verdict.special = Answer::kNotJudged;
  return row;
}

TEST(HtmlLayers, EachCellIsTheWorstFoundThere) {
  LayerMap map;
  EXPECT_EQ(map.Add("embed", 1, 0, Level::kEqual), 0u);
  EXPECT_EQ(map.Add("layers.0.a", 0, 0, Level::kWithin), 1u);
  EXPECT_EQ(map.Add("layers.0.b", 0, 7, Level::kOutside), 1u);
  EXPECT_EQ(map.Add("layers.0.c", 0, 7, Level::kEqual), 1u);
  EXPECT_THAT(map.layers(), ElementsAre("embed", "layers.0"));
  const LayerMap::Axis ranks = map.ByRank(), steps = map.ByStep();
  EXPECT_THAT(ranks.columns, ElementsAre("0", "1"));  // in order, not as they appeared
  EXPECT_THAT(ranks.cells, ElementsAre("02", "50"));
  EXPECT_THAT(steps.columns, ElementsAre("0", "7"));
  EXPECT_THAT(steps.cells, ElementsAre("20", "35"));
}

TEST(HtmlLayers, TooManyRanksShareColumnsAndTooManyLayersALine) {
  LayerMap map;
  const int32_t ranks = 2 * LayerMap::kMostColumns + 1;
  for (int32_t rank = 0; rank < ranks; ++rank)
    map.Add("x", rank, 0, rank == 5 ? Level::kOutside : Level::kEqual);
  const LayerMap::Axis axis = map.ByRank();
  ASSERT_EQ(axis.columns.size(), 2731u);  // three ranks each, 8,193 in all
  EXPECT_EQ(axis.cells[0].size(), axis.columns.size());
  EXPECT_EQ(axis.columns[1], "3");
  EXPECT_EQ(axis.cells[0].substr(0, 3), "252");
  for (size_t i = 0; i < 2 * LayerMap::kMostLayers; ++i)
    map.Add("l." + std::to_string(i), 0, 0, Level::kEqual);
  EXPECT_EQ(map.layers().size(), LayerMap::kMostLayers + 1);
  EXPECT_EQ(map.layers().back(), "others");
}

TEST(HtmlData, AnObservationHasTheNumbersOfItsWorstPair) {
  PageData data;
  data.Add(Read("a", 0, 0, kInfinity, false));
  data.Add(Read("b", 0, 0, 60, false));
  data.Add(Read("a", 0, 1, 40, false));
  data.Add(Read("a", 1, 0, 30, true));
  data.Add(Read("a", 1, 1, 20, true));
  data.Add(Read("a", 2, 1, 25, true));
  ASSERT_EQ(data.observations().size(), 2u);
  const Observation& a = data.observations()[0];
  EXPECT_EQ(a.pairs, 5u);
  EXPECT_EQ(a.failing, 3u);
  EXPECT_EQ(a.level, Level::kOutside);
  EXPECT_EQ(a.worst.step_b, 1u);
  EXPECT_EQ(a.worst.rank_b, 1);
  EXPECT_THAT(a.by_step, ElementsAre(40, 20, 25));  // the worst rank of each step
  EXPECT_THAT(a.places, ElementsAre(Pair(1, 0), Pair(1, 1), Pair(2, 1)));
  EXPECT_EQ(data.observations()[1].level, Level::kWithin);
  EXPECT_THAT(data.steps(), ElementsAre(0, 1, 2));
}

TEST(HtmlData, BitsThatDifferByHashAreWorseThanEqualOnesAndThanNear) {
  PageData data;
  data.Add(Hashed("a", 0, 0, true));
  data.Add(Hashed("a", 1, 0, true));
  data.Add(Hashed("a", 1, 1, false));
  data.Add(Hashed("a", 2, 0, true));
  data.Add(Read("a", 2, 1, 90, false));
  const Observation& a = data.observations()[0];
  EXPECT_EQ(a.level, Level::kBits);
  EXPECT_EQ(a.worst.step_b, 1u);
  EXPECT_EQ(a.worst.rank_b, 1);
  EXPECT_EQ(a.failing, 0u);
  EXPECT_THAT(a.by_step, ElementsAre(kInfinity, kUnknownSqnr, 90));
  EXPECT_THAT(data.map().ByRank().cells, ElementsAre("24"));
  EXPECT_THAT(data.map().ByStep().cells, ElementsAre("243"));
  data.Add(Read("a", 3, 0, 30, true));
  EXPECT_EQ(a.level, Level::kOutside);
  EXPECT_EQ(a.worst.step_b, 3u);
}

TEST(HtmlData, WhatAnOptimizerKeepsIsOnTheCurveAndBuffersAreNot) {
  PageData data;
  data.Add(Hashed("fc", 0, 0, false, Role::kState, "weight.exp_avg"));
  data.Add(Hashed("fc", 0, 0, false, Role::kState, "mean"));
  EXPECT_THAT(data.observations()[0].by_step, ElementsAre(kUnknownSqnr));
  EXPECT_THAT(data.observations()[1].by_step, IsEmpty());
}

TEST(HtmlData, AllowedFailuresAreNotShownAsFailures) {
  PageData data;
  Row row = Read("a", 0, 0, 20, true);
  row.allowed = true;
  data.Add(row);
  EXPECT_TRUE(data.observations()[0].all_allowed);
  EXPECT_THAT(data.map().ByRank().cells, ElementsAre("3"));
}

TEST(HtmlData, MemoryIsBoundedAndFailuresComeFirst) {
  PageData data;
  for (size_t i = 0; i < PageData::kMostObservations + 10; ++i)
    data.Add(Read("m" + std::to_string(i), 0, 0, 50, false));
  data.Add(Read("wrong", 0, 0, 5, true));
  EXPECT_EQ(data.observations().size(), PageData::kMostObservations + 1);
  EXPECT_EQ(data.observations().back().key, "wrong@output#");
  EXPECT_EQ(data.left_out(), 10u);
}

// Each rank fails in more places than there are heat maps; rank 1 begins at another one.
TEST(HtmlData, TheOriginHasAHeatMapHoweverMuchFails) {
  const Tensor good = Vector<float>("float32", {1, 2}), bad = Vector<float>("float32", {1, 4});
  FakeRun a(2), b(2);
  for (FakeRun* run : {&a, &b}) {
    for (const int32_t rank : {0, 1}) {
      PassBuilder pass = run->Pass(rank, 0);
      if (rank == 1) pass.Module("only.here", good, run == &a ? good : bad);
      for (size_t i = 0; i < 2 * GridCollector::kMostGrids; ++i)
        pass.Module("m." + std::to_string(i), good, run == &a ? good : bad);
    }
  }
  GridCollector grids;
  DiffOptions options;
  options.on_pass = [&](const PassDiff& pass, const PassPair& pair) { grids.AddPass(pass, pair); };
  ASSERT_TRUE(Diff(a.side(), b.side(), options).ok());
  EXPECT_EQ(grids.OnePerKey().size(), GridCollector::kMostGrids + 1);
  const PlacedGrid* origin = grids.Find("only.here@output#", 0, 1);
  ASSERT_NE(origin, nullptr);
  EXPECT_THAT(origin->grid.max_abs, ElementsAre(0, 2));
  EXPECT_NE(grids.Find("m.0@output#", 0, 0), nullptr);
  EXPECT_EQ(grids.Find("m.0@output#", 0, 1), nullptr);
  EXPECT_EQ(grids.Find("m.127@output#", 0, 0), nullptr);
}

TEST(HtmlJson, NothingEndsTheScriptElement) {
  const std::string hostile = "</script><!--\xE2\x80\xA8 &amp; \x01\"\\ \xFF";
  const std::string text = EmbeddedJson(Json(hostile));
  EXPECT_THAT(text, Not(HasSubstr("<")));
  EXPECT_THAT(text, Not(HasSubstr(">")));
  EXPECT_THAT(text, Not(HasSubstr("\xE2\x80\xA8")));
  EXPECT_EQ(Json::parse(text).get<std::string>(),
            "</script><!--\xE2\x80\xA8 &amp; \x01\"\\ \xEF\xBF\xBD");
  // What people read cannot be reordered either.
  EXPECT_EQ(ShownText("a\xE2\x80\xAE\x1b[31m").get<std::string>(), "a\\xe2\\x80\\xae\\x1b[31m");
  EXPECT_EQ(ShownNumber(kInfinity), "inf");
  EXPECT_EQ(ShownNumber(0.12345678), 0.123457);
}

struct Page {
  std::string text;
  Json data;
};

Page PageOf(const PageData& data, const DiffReport& report) {
  Page page;
  WritePage(
      {.data = &data, .report = &report, .a = {.label = "runs/a@0"}, .b = {.label = "runs/b@0"}},
      [&](std::string_view piece) { page.text += piece; });
  const std::string mark = "<script type=\"application/json\" id=\"data\">";
  const size_t begin = page.text.find(mark) + mark.size();
  page.data = Json::parse(page.text.substr(begin, page.text.find("</script>", begin) - begin));
  return page;
}

TEST(HtmlPage, RowsHoldWhatTheColumnsSay) {
  PageData data;
  Row row = Read("layers.3.mlp", 9'007'199'254'740'993u, 2, 12.5, true);
  Metrics measured = row.comparison.metrics;
  measured.ulp[0] = 1;
  measured.ulp[7] = 3;
  measured.has_worst = true;
  measured.worst = {{3}, "1", "nan"};
  measured.worst_relative = Worst{{5}, "1e-9", "2e-9"};
  row.comparison.metrics = measured;
  data.Add(row);
  DiffReport report;
  report.overall = Overall::kDiffers;
  report.counts.paired = report.counts.failing = 1;
  Origin origin;
  origin.name = "layers.3.mlp";
  origin.step = row.step_b;
  origin.row = row;
  report.origin = origin;
  const Page page = PageOf(data, report);

  const Json& observations = page.data["observations"];
  ASSERT_EQ(observations["rows"].size(), 1u);
  const Json& values = observations["rows"][0];
  ASSERT_EQ(values.size(), observations["columns"].size());
  const auto value = [&](const std::string& column) {
    const auto& columns = observations["columns"];
    const auto at = std::find(columns.begin(), columns.end(), column);
    return at == columns.end() ? Json("no such column") : values[at - columns.begin()];
  };
  EXPECT_EQ(value("name"), "layers.3.mlp");
  EXPECT_EQ(value("key"), "layers.3.mlp@output#");
  EXPECT_EQ(value("step"), "9007199254740993");
  EXPECT_EQ(value("rank"), "2");
  EXPECT_EQ(value("verdicts"), "sssdd");
  EXPECT_EQ(value("places"), Json::parse(R"([["9007199254740993", "2"]])"));
  EXPECT_EQ(page.data["bounds"][value("bound").get<size_t>()], "4e-06 of |x|");
  const Json metrics = value("metrics");
  ASSERT_EQ(metrics.size(), observations["metrics"].size());
  EXPECT_EQ(metrics.back(), Json::parse("[[0, 1], [7, 3]]"));
  EXPECT_EQ(metrics[metrics.size() - 3], Json::parse(R"([[3], "1", "nan"])"));
  EXPECT_EQ(metrics[metrics.size() - 2], Json::parse(R"([[5], "1e-9", "2e-9"])"));

  EXPECT_EQ(page.data["origin"]["observation"], 0);
  EXPECT_EQ(page.data["map"]["layers"], Json::parse(R"(["layers.3"])"));
  EXPECT_EQ(data.IndexOf("layers.3.mlp@output#"), 0);
  EXPECT_EQ(data.IndexOf("layers.4.mlp@output#"), -1);
  EXPECT_THAT(page.data["summary"].get<std::string>(), HasSubstr("DIFFERS  1 of 1"));
}

// The page offers to print values where B kept some.
TEST(HtmlPage, ARowSaysWhetherItHasValues) {
  PageData data;
  Row row = Hashed("hash", 0, 0, false);
  for (const std::string kept : {"meta+hash", "meta+hash+payload", "meta+stats (memory limit)"}) {
    row.name = row.key.path = row.kept_b = kept;
    data.Add(row);
  }
  const Page page = PageOf(data, DiffReport());
  const Json& columns = page.data["observations"]["columns"];
  const auto at = std::find(columns.begin(), columns.end(), "has_values") - columns.begin();
  ASSERT_LT(static_cast<size_t>(at), columns.size());
  std::map<std::string, Json> of;
  for (const Json& values : page.data["observations"]["rows"])
    of[values[0].get<std::string>()] = values[at];
  EXPECT_EQ(of["meta+hash"], false);
  EXPECT_EQ(of["meta+hash+payload"], true);
  EXPECT_EQ(of["meta+stats (memory limit)"], false);
}

TEST(HtmlPage, TheCurveSaysThatBitsDiffer) {
  PageData data;
  data.Add(Hashed("fc", 0, 0, true));
  data.Add(Hashed("fc", 1, 0, false));
  const Page page = PageOf(data, DiffReport());
  const Json& columns = page.data["observations"]["columns"];
  const auto at = std::find(columns.begin(), columns.end(), "by_step") - columns.begin();
  EXPECT_EQ(page.data["observations"]["rows"][0][at], Json::parse(R"(["inf", "bits"])"));
}

TEST(HtmlPage, HostileNamesStayText) {
  PageData data;
  const std::string evil = "</script><img src=x onerror=alert(1)>\"'&\x1b\xFF";
  data.Add(Read(evil, 0, 0, 10, true));
  DiffReport report;
  report.notes = {evil};
  report.damage = {{evil, 1, evil}};
  const Page page = PageOf(data, report);
  EXPECT_THAT(page.text, Not(HasSubstr("<img")));
  const std::string shown = "</script><img src=x onerror=alert(1)>\"'&\\x1b\\xff";
  EXPECT_EQ(page.data["observations"]["rows"][0][0], shown);
  EXPECT_EQ(page.data["notes"][0], shown);
  // The template's own: styles, data, scripts.
  size_t scripts = 0;
  for (size_t at = 0; (at = page.text.find("</script>", at)) != std::string::npos; ++at) ++scripts;
  EXPECT_EQ(scripts, 2u);
}

TEST(HtmlPage, NothingIsLoadedFromAnywhere) {
  const Page page = PageOf(PageData(), DiffReport());
  for (const char* way :
       {" src=", "@import", "url(", "<link", "fetch(", "XMLHttpRequest", "import("})
    EXPECT_THAT(page.text, Not(HasSubstr(way))) << way;
  EXPECT_THAT(page.text, HasSubstr("default-src 'none'"));
  EXPECT_THAT(page.text, Not(HasSubstr("@CSS@")));
  EXPECT_THAT(page.text, Not(HasSubstr("@JS@")));
  EXPECT_THAT(page.data["observations"]["rows"], IsEmpty());
}

}  // namespace
}  // namespace tdump::compare::html
