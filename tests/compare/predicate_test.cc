#include "compare/predicate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace tdump::compare {
namespace {

Metrics Sample() {
  Metrics m;
  m.elements = 200;
  m.within = 196;
  m.sqnr_db = 30;
  m.cosine = 0.5;
  m.max_abs = 0.25;
  m.max_rel = 2;
  m.mean_error = -0.125;
  m.nan_mismatch = 3;
  return m;
}

bool Holds(const std::string& text, const Metrics& metrics = Sample()) {
  PredicateMistake mistake;
  const auto predicate = Predicate::Parse(text, &mistake);
  EXPECT_TRUE(predicate) << text << ": " << mistake.what << " at " << mistake.offset;
  return predicate && predicate->Holds(metrics);
}

TEST(Predicate, ComparesMetricsWithNumbers) {
  EXPECT_TRUE(Holds("sqnr_db >= 30"));
  EXPECT_FALSE(Holds("sqnr_db > 30"));
  EXPECT_TRUE(Holds("sqnr_db<=30"));
  EXPECT_FALSE(Holds("sqnr_db < 30"));
  EXPECT_TRUE(Holds("nan_mismatch == 3"));
  EXPECT_FALSE(Holds("nan_mismatch != 3"));
  EXPECT_TRUE(Holds("max_abs <= 2.5e-1"));
  EXPECT_TRUE(Holds("max_abs < 1e+3"));
  EXPECT_TRUE(Holds("mean_error > -0.2"));
  EXPECT_TRUE(Holds("outside == 4"));
  EXPECT_TRUE(Holds("outside_share <= 2 %"));
  EXPECT_FALSE(Holds("outside_share <= 1.9%"));
  EXPECT_TRUE(Holds("max_abs < inf"));
}

TEST(Predicate, AndBindsTighterThanOr) {
  EXPECT_TRUE(Holds("sqnr_db >= 30 or sqnr_db >= 99 and sqnr_db >= 99"));
  EXPECT_FALSE(Holds("(sqnr_db >= 30 or sqnr_db >= 99) and sqnr_db >= 99"));
  EXPECT_FALSE(Holds("max_abs <= 1e-3 and nan_mismatch == 0"));
  EXPECT_TRUE(Holds("not max_abs <= 1e-3 and nan_mismatch == 3"));
  EXPECT_TRUE(Holds("not (max_abs <= 1e-3 or nan_mismatch == 0)"));
  EXPECT_TRUE(Holds("not not sqnr_db == 30"));
}

TEST(Predicate, WhatCannotBeMeasuredSatisfiesNothing) {
  Metrics none = Sample();
  none.cosine.reset();
  EXPECT_FALSE(Holds("cosine >= 0.9", none));
  EXPECT_FALSE(Holds("cosine < 0.9", none));
  EXPECT_FALSE(Holds("cosine != 0.9", none));
  EXPECT_FALSE(Holds("not cosine >= 0.9", none));
  EXPECT_TRUE(Holds("cosine >= 0.9 or sqnr_db >= 30", none));
  EXPECT_FALSE(Holds("cosine >= 0.9 and sqnr_db >= 30", none));
  none.max_abs = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(Holds("max_abs <= 1", none));
  EXPECT_FALSE(Holds("not max_abs <= 1", none));
  none.sqnr_db = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(Holds("sqnr_db >= 200", none));
}

struct Wrong {
  const char* text;
  size_t offset;
  const char* what;
};

TEST(Predicate, SaysWhereATextIsNone) {
  const Wrong cases[] = {
      {"", 0, "ends here"},
      {"sqnr_db", 7, "ends here"},
      {"sqnr_db >=", 10, "ends here"},
      {"sqnr_db >= x", 11, "unexpected 'x'"},
      {"sqnr_db >= nan", 11, "unexpected 'nan'"},
      {"sqnr_db => 3", 8, "unexpected '='"},
      {"sqnr_db >= 3 max_abs < 1", 13, "unexpected 'max_abs'"},
      {"snqr_db >= 3", 0, "'snqr_db' is no metric"},
      {"sqnr_db >= 3 and", 16, "ends here"},
      {"(sqnr_db >= 3", 13, "ends here"},
      {"sqnr_db >= 3)", 12, "unexpected ')'"},
      {"sqnr_db >= 3 && max_abs < 1", 13, "unexpected '&'"},
      {"__import__('os')", 0, "'__import__' is no metric"},
  };
  for (const Wrong& c : cases) {
    PredicateMistake mistake;
    EXPECT_FALSE(Predicate::Parse(c.text, &mistake)) << c.text;
    EXPECT_EQ(mistake.offset, c.offset) << c.text;
    EXPECT_THAT(mistake.what, testing::HasSubstr(c.what)) << c.text;
  }
  PredicateMistake mistake;
  EXPECT_FALSE(Predicate::Parse("snqr_db >= 3", &mistake));
  EXPECT_EQ(mistake.unknown_metric, "snqr_db");
}

TEST(Predicate, HostileTextsAreRefused) {
  PredicateMistake mistake;
  EXPECT_FALSE(Predicate::Parse(std::string(100'000, '('), &mistake));
  EXPECT_FALSE(Predicate::Parse(std::string(2000, '('), &mistake));
  EXPECT_THAT(mistake.what, testing::HasSubstr("nested"));
  std::string nots;
  for (int i = 0; i < 1000; ++i) nots += "not ";
  EXPECT_FALSE(Predicate::Parse(nots + "max_abs < 1", &mistake));
}

TEST(Predicate, TellsTheValuesItNames) {
  PredicateMistake mistake;
  const auto predicate = Predicate::Parse("sqnr_db > 40 and max_abs < 1 or sqnr_db > 50", &mistake);
  ASSERT_TRUE(predicate);
  EXPECT_EQ(predicate->ValuesText(Sample()), "sqnr_db 30, max_abs 0.25");
  EXPECT_TRUE(predicate->Names("max_abs"));
  EXPECT_FALSE(predicate->Names("nan_mismatch"));
  EXPECT_FALSE(predicate->needs_values());
  EXPECT_TRUE(Predicate::Parse("nan_b == 0", &mistake)->needs_values());
}

}  // namespace
}  // namespace tdump::compare
