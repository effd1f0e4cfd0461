#include "launch/tdump_run/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "filters/parse_config.h"
#include "tests/coordinator/run_image.h"

namespace tdump::launch {
namespace {

namespace fs = std::filesystem;
using coordinator::test::ProcessImage;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A run whose rules took two leaf modules.
class ExplainTest : public ::testing::Test {
 protected:
  void SetUp() override {
    run_ = (fs::path(::testing::TempDir()) /
            ::testing::UnitTest::GetInstance()->current_test_info()->name())
               .string();
    fs::remove_all(run_);
    ProcessImage(Env::Posix(), run_, {})
        .Expect("encoder.layer.0.dense", "torch.nn.modules.linear.Linear")
        .Expect("encoder.layer.0.norm")
        .Pass(0, {"encoder.layer.0.dense", "encoder.layer.0.norm"})
        .Exit(1);
  }
  void TearDown() override { fs::remove_all(run_); }

  Result<std::string> Explain(const std::string& rules, const std::string& name, bool from) const {
    auto config = filters::ParseConfig("capture: " + rules + "\n", "test");
    EXPECT_TRUE(config.ok()) << config.status().message();
    EffectiveConfig settings;
    settings.config = *config;
    Options options;
    options.explain = name;
    if (from) options.from = run_;
    return ExplainOperator(settings, options);
  }

  std::string run_;
};

TEST_F(ExplainTest, ANameThatTheRunDoesNotHaveIsAMistake) {
  const auto text = Explain("[{leaf: true}]", "encoder.layer.0.dens", true);
  ASSERT_FALSE(text.ok());
  EXPECT_THAT(
      text.status().message(),
      AllOf(HasSubstr("'encoder.layer.0.dens' is none of the 2 operators that the rules of"),
            HasSubstr(". Near: 'encoder.layer.0.dense'")));
}

// A name is what the model has: as it is, and as the tools print it.
TEST_F(ExplainTest, ANameIsTakenWhateverItIsMadeOf) {
  const std::string odd = "block\x01\n", long_name = "deep" + std::string(5000, 'x');
  fs::remove_all(run_);
  ProcessImage(Env::Posix(), run_, {})
      .Expect(odd + ".dense", "Dense")
      .Expect(long_name, "Deep")
      .Pass(0, {odd + ".dense", long_name})
      .Exit(1);
  for (const std::string& name :
       {odd + ".dense", std::string("block\\x01\\x0a.dense"), long_name}) {
    const auto text = Explain("[{class: [Dense, Deep], level: hash}]", name, true);
    ASSERT_TRUE(text.ok()) << text.status().message();
    EXPECT_THAT(*text, HasSubstr("output       forward   hash  rule 1\n"));
    EXPECT_THAT(*text, Not(HasSubstr("\x01")));
  }
  const auto parent = Explain("[{leaf: true}]", "block\\x01\\x0a", true);
  ASSERT_TRUE(parent.ok()) << parent.status().message();
  EXPECT_THAT(*parent, HasSubstr("block\\x01\\x0a: a module with child modules\n"));
  EXPECT_FALSE(Explain("[{leaf: true}]", "block\\x01", true).ok());
}

TEST_F(ExplainTest, OfANameThatItHasTheClassIsKnown) {
  const auto text = Explain("[{class: Linear, level: hash}]", "encoder.layer.0.dense", true);
  ASSERT_TRUE(text.ok()) << text.status().message();
  EXPECT_THAT(*text, AllOf(HasSubstr("output       forward   hash  rule 1\n"),
                           HasSubstr("class torch.nn.modules.linear.Linear\n")));
  const auto parent = Explain("[{leaf: true}]", "encoder.layer.0", true);
  ASSERT_TRUE(parent.ok()) << parent.status().message();
  EXPECT_THAT(*parent, HasSubstr("encoder.layer.0: a module with child modules\n"));
}

// A run that has the operator knows that it has no class.
TEST_F(ExplainTest, ARuleForAClassIsNotForAnOperatorWithoutOne) {
  const std::string rules = "[{class: Linear, level: hash}, {level: stats}]";
  fs::remove_all(run_);
  ProcessImage(Env::Posix(), run_, {})
      .Expect("encoder.layer.0.norm", "")
      .Tensors(0, {{.path = "encoder.layer.0.norm", .cls = ""}})
      .Exit(1);
  const auto text = Explain(rules, "encoder.layer.0.norm", true);
  ASSERT_TRUE(text.ok()) << text.status().message();
  EXPECT_THAT(
      *text, AllOf(HasSubstr("output       forward   stats rule 2\n"), Not(HasSubstr("if class"))));
  const auto unknown = Explain(rules, "encoder.layer.0.norm", false);
  ASSERT_TRUE(unknown.ok()) << unknown.status().message();
  EXPECT_THAT(*unknown, HasSubstr("hash  rule 1, if class: Linear\n"));
}

TEST_F(ExplainTest, WithoutARunItIsSaidThatNobodyLooked) {
  const auto text = Explain("[{leaf: true}]", "encoder.nowhere", false);
  ASSERT_TRUE(text.ok());
  EXPECT_THAT(*text, HasSubstr("not looked at: whether the model has 'encoder.nowhere'; --from"));
}

TEST_F(ExplainTest, StateBelongsToTheStep) {
  const auto text = Explain("[{role: [param, state, output]}]", "encoder.layer.0.dense", true);
  ASSERT_TRUE(text.ok());
  EXPECT_THAT(*text,
              AllOf(HasSubstr("param        step      full  rule 1   before its first forward\n"),
                    HasSubstr("state        step      full  rule 1   buffers before its first "
                              "forward, what an optimizer keeps after its update\n"),
                    HasSubstr("output       forward   full  rule 1\n"),
                    Not(HasSubstr("state        forward"))));
}

// Records say it.
TEST_F(ExplainTest, OfALeafOnlyThatHalfIsTold) {
  const auto text = Explain("[{leaf: true}]", "encoder.layer.0.dense", true);
  ASSERT_TRUE(text.ok()) << text.status().message();
  EXPECT_THAT(*text, AllOf(HasSubstr("encoder.layer.0.dense: a module without child modules\n"),
                           Not(HasSubstr("with child modules\n"))));
}

TEST_F(ExplainTest, WhatNamesARecordIsNoModule) {
  const auto text = Explain("[{leaf: true}]", "encoder.layer.0.dense@param", false);
  ASSERT_FALSE(text.ok());
  EXPECT_THAT(text.status().message(), HasSubstr("--explain encoder.layer.0.dense"));
  EXPECT_FALSE(Explain("[{leaf: true}]", "dense@output#0", false).ok());
  EXPECT_TRUE(Explain("[{leaf: true}]", "dense@home", false).ok());
}

}  // namespace
}  // namespace tdump::launch
