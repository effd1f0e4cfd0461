#include "filters/predicate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace tdump::filters {
namespace {

using ::testing::HasSubstr;
using Kind = PredicateSpec::Kind;

TEST(Predicate, ThreeForms) {
  const std::tuple<const char*, Kind, const char*, const char*> kCases[] = {
      {"pkg.mod:fn", Kind::kPythonModule, "pkg.mod", "fn"},
      {"/path/f.py:fn", Kind::kPythonFile, "/path/f.py", "fn"},
      {"f.py:fn", Kind::kPythonFile, "f.py", "fn"},
      {"/a:b/f.py:fn", Kind::kPythonFile, "/a:b/f.py", "fn"},
      {"/path/l.so:fn", Kind::kSharedObject, "/path/l.so", "fn"},
      {"l.so.1:fn", Kind::kSharedObject, "./l.so.1", "fn"}};
  for (const auto& [text, kind, where, function] : kCases) {
    const auto spec = ParsePredicate(text);
    ASSERT_TRUE(spec.ok()) << text << spec.status().message();
    EXPECT_EQ(spec->kind, kind) << text;
    EXPECT_EQ(spec->where, where);
    EXPECT_EQ(spec->function, function);
  }
}

TEST(Predicate, WhatIsNone) {
  for (const char* text :
       {"", "fn", "mod:", ":fn", "mod:2fn", "a b:fn", "/path/f.txt:fn", "mod:fn()", "a..b:fn"}) {
    const auto spec = ParsePredicate(text);
    EXPECT_FALSE(spec.ok()) << text;
    EXPECT_THAT(spec.status().message(), HasSubstr("pkg.mod:fn, /path/f.py:fn or /path/l.so:fn"));
  }
}

TEST(Predicate, FilesMustBeThere) {
  EXPECT_THAT(CheckPredicate("/no/such.py:fn").message(), HasSubstr("cannot read '/no/such.py'"));
  EXPECT_TRUE(CheckPredicate("any.module:fn").ok());  // found by Python, later
  const std::string path =
      ::testing::TempDir() + "predicate_test_" + std::to_string(::getpid()) + ".py";
  std::ofstream(path) << "def fn(name, module): return True\n";
  EXPECT_TRUE(CheckPredicate(path + ":fn").ok());
}

TEST(SharedObjectPredicates, AMissingFunctionIsAnErrorNotACrash) {
  const auto answer = SharedObjectPredicates()->Evaluate("/no/such.so:fn", {}, nullptr);
  EXPECT_FALSE(answer.ok());
  EXPECT_THAT(answer.status().message(), HasSubstr("/no/such.so"));
  const auto libc = SharedObjectPredicates()->Evaluate(
      "/lib/x86_64-linux-gnu/libc.so.6:no_such_function", {}, nullptr);
  EXPECT_FALSE(libc.ok());
}

TEST(SharedObjectPredicates, AreCalledWithNameAndClass) {
  // strcmp(name, class): non-zero unless they are equal.
  const std::string libc = "/lib/x86_64-linux-gnu/libc.so.6";
  if (!std::filesystem::exists(libc)) GTEST_SKIP() << "no libc at " << libc;
  const std::string spec = libc + ":strcasecmp";
  OperatorInfo info{.path = "a.b", .cls = "A.B"};
  auto answer = SharedObjectPredicates()->Evaluate(spec, info, nullptr);
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  EXPECT_FALSE(*answer);
  info.cls = "other";
  EXPECT_TRUE(*SharedObjectPredicates()->Evaluate(spec, info, nullptr));
}

}  // namespace
}  // namespace tdump::filters
