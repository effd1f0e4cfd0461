// Whole diffs of runs made by hand.
#include "compare/diff.h"

#include <gmock/gmock.h>

#include <gtest/gtest.h>
#include <sstream>

#include <functional>

#include "core/utf8.h"
#include "tests/compare/diff_chain.h"

namespace tdump::compare {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Diff, EqualRunsAreTheSame) {
  FakeRun a(2), b(2);
  for (FakeRun* run : {&a, &b}) {
    for (int32_t rank : {0, 1}) Chain(run, rank, 0, {kGood, kGood, kGood});
  }
  const DiffReport report = DiffOk(a, b);
  EXPECT_EQ(report.overall, Overall::kSame);
  EXPECT_EQ(report.counts.paired, 12u);
  EXPECT_EQ(report.counts.bits_equal, 12u);
  EXPECT_EQ(report.counts.equal_by_hash, 12u);
  EXPECT_EQ(report.counts.read, 0u);
  EXPECT_FALSE(report.origin || report.first_bits);
  EXPECT_THAT(Text(report), HasSubstr("SAME  12 of 12 bit for bit"));
  EXPECT_THAT(Text(report), HasSubstr("12 equal by hash, 0 read"));
}

TEST(Diff, TheLargestRelativeErrorIsShownWhereItIsElsewhere) {
  const auto text = [](const std::vector<float>& a, const std::vector<float>& b) {
    FakeRun left(1), right(1);
    left.Pass(0, 0).Module("fc", kInput, Vector<float>("float32", a));
    right.Pass(0, 0).Module("fc", kInput, Vector<float>("float32", b));
    return Text(DiffOk(left, right));
  };
  EXPECT_THAT(text({1000, 1, 2e-6f}, {1010, 1, 1e-6f}),
              HasSubstr("worst element [0]   A 1000   B 1010\n"
                        "          max rel 0.5 at [2]   A 2e-06   B 1e-06\n"));
  EXPECT_THAT(text({1000, 1}, {1010, 1}), testing::Not(HasSubstr(" at [")));
}

// D15: also beside elements so large that the bound takes any subnormal number for zero.
TEST(Diff, SignsOfFlushedNumbersAreTold) {
  const auto notes = [](const std::vector<float>& a, const std::vector<float>& b) {
    FakeRun left(1), right(1);
    left.Pass(0, 0).Module("fc", kInput, Vector<float>("float32", a));
    right.Pass(0, 0).Module("fc", kInput, Vector<float>("float32", b));
    std::vector<std::string> rows;
    DiffOptions options;
    options.on_row = [&](const Row& row) {
      for (const std::string& note : row.comparison.notes) rows.push_back(note);
    };
    EXPECT_EQ(DiffOk(left, right, options).overall, Overall::kSame);
    return rows;
  };
  const std::string none =
                        "subnormal numbers are zero on one side: 1 elements, 0 of the other sign",
                    one = "subnormal numbers are zero on one side: 1 elements, 1 of the other sign";
  EXPECT_THAT(notes({9e-45f}, {0.0f}), ElementsAre(none));
  EXPECT_THAT(notes({9e-45f}, {-0.0f}), ElementsAre(one));
  EXPECT_THAT(notes({-0.0f}, {9e-45f}), ElementsAre(one));
  EXPECT_THAT(notes({1, 9e-45f, 1000}, {1, 0.0f, 1000}), ElementsAre(none));
  EXPECT_THAT(notes({1, 9e-45f, 1000}, {1, -0.0f, 1000}), ElementsAre(one));
  EXPECT_THAT(
      notes({1, 1e-38f, -1e-38f, 9e-45f}, {1, -0.0f, 0.0f, 0.0f}),
      ElementsAre("subnormal numbers are zero on one side: 3 elements, 2 of the other sign"));
  // Subnormal on both sides: nothing was flushed.
  EXPECT_THAT(notes({1, 9e-45f}, {1, 8e-45f}), IsEmpty());
}

TEST(Diff, BitsDecideOnlyWhenRequired) {
  FakeRun a(1), b(1);
  Chain(&a, 0, 0, {kGood, kGood});
  Chain(&b, 0, 0, {kNear, kNear});
  const DiffReport within = DiffOk(a, b);
  EXPECT_EQ(within.overall, Overall::kSame);
  EXPECT_EQ(within.counts.bits, 3u);
  EXPECT_FALSE(within.origin);
  ASSERT_TRUE(within.first_bits);
  EXPECT_EQ(within.first_bits->name, "first");
  EXPECT_THAT(Text(within), HasSubstr("SAME  4 of 4 within bounds (bitwise 1)"));

  DiffOptions options;
  options.pass.require_bits = true;
  const DiffReport exact = DiffOk(a, b, options);
  EXPECT_EQ(exact.overall, Overall::kDiffers);
  EXPECT_EQ(exact.origin->name, "first");
  EXPECT_EQ(exact.counts.failing, 3u);
}

TEST(Diff, WeightsKnownByHashDecideOnlyAlone) {
  FakeRun a(1), b(1);
  a.Pass(0, 0).Param("first", "weight", kGood).Module("first", kInput, kGood);
  b.Pass(0, 0).Param("first", "weight", kNear).Module("first", kInput, kGood);
  const DiffReport report = DiffOk(a, b);
  EXPECT_EQ(report.overall, Overall::kSame);
  EXPECT_THAT(Text(report),
              HasSubstr("SAME  2 of 3 within bounds (bitwise 2); 1 parameter differs by hash"));
  DiffOptions only;
  only.pass.select = Named("weight");
  const DiffReport weights = DiffOk(a, b, only);
  EXPECT_EQ(weights.overall, Overall::kDiffers);
  EXPECT_EQ(weights.origin->parameter, "first.weight");
  EXPECT_THAT(Text(weights),
              HasSubstr("DIFFERS  in 1 parameter by hash, which does not say by how much\n"));
}

TEST(Diff, ShapesAreNotBroadcast) {
  FakeRun a(1), b(1);
  const std::vector<float> three(3, 3.0f);
  a.Pass(0, 0).Module("x", kInput, MakeTensor<float>("float32", {3}, three));
  b.Pass(0, 0).Module("x", kInput, MakeTensor<float>("float32", {3, 1}, three));
  const DiffReport report = DiffOk(a, b);
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_EQ(report.counts.shape, 1u);
  EXPECT_EQ(report.counts.tolerance, 0u);
  EXPECT_THAT(Text(report), HasSubstr("shape [3] against [3, 1]"));
  EXPECT_THAT(Text(report), testing::Not(HasSubstr("max abs 0")));
}

// D18, and its kind: rows of padding, at the end of any dimension, on either side.
TEST(Diff, PaddingIsAShapeMismatchWithAHintUnlessItIsAligned) {
  const auto matrix = [](int64_t rows, int64_t columns, float beyond) {
    std::vector<float> values;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j)
        values.push_back(i < 5 && j < 4 ? static_cast<float>(i * 4 + j) : beyond);
    }
    return MakeTensor<float>("float32", {rows, columns}, values);
  };
  struct Case {
    Tensor a, b;
    std::string hint;
  };
  const Case cases[] = {{matrix(5, 4, 0), matrix(6, 4, 0), "leading 5 rows"},
                        {matrix(8, 4, 7), matrix(5, 4, 0), "leading 5 rows"},
                        {matrix(5, 4, 0), matrix(5, 6, 0), "leading [5, 4]"},
                        {matrix(7, 4, 1), matrix(5, 6, 2), "leading [5, 4]"}};
  for (const Case& c : cases) {
    FakeRun a(1), b(1);
    a.Pass(0, 0).Module("x", kInput, c.a);
    b.Pass(0, 0).Module("x", kInput, c.b);
    const DiffReport report = DiffOk(a, b);
    EXPECT_EQ(report.overall, Overall::kDiffers);
    EXPECT_EQ(report.counts.shape, 1u);
    EXPECT_EQ(report.counts.read, 0u);
    EXPECT_THAT(report.notes, ElementsAre(HasSubstr(c.hint + " identical")));
    DiffOptions options;
    options.pass.align = Named("x");
    const DiffReport aligned = DiffOk(a, b, options);
    EXPECT_EQ(aligned.overall, Overall::kSame);
    EXPECT_EQ(aligned.counts.bits_equal, 2u);
    EXPECT_THAT(Text(aligned), HasSubstr("note      aligned by --align, " + c.hint + " compared"));
    options.pass.align = Named("y");
    EXPECT_EQ(DiffOk(a, b, options).overall, Overall::kDiffers);
  }
}

TEST(Diff, AlignedPartsThatDifferStillDiffer) {
  FakeRun a(1), b(1);
  a.Pass(0, 0).Module("x", kInput, Vector<float>("float32", {1, 2, 3}));
  b.Pass(0, 0).Module("x", kInput, Vector<float>("float32", {1, 5, 3, 0}));
  DiffOptions options;
  options.pass.align = Named("x");
  const DiffReport report = DiffOk(a, b, options);
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_EQ(report.counts.tolerance, 1u);
  EXPECT_EQ(report.counts.shape, 0u);
  EXPECT_THAT(DiffOk(a, b).notes, IsEmpty());  // nothing in common: no hint
}

TEST(Diff, UnpairedRecordsDiffer) {
  FakeRun a(1), b(1);
  Chain(&a, 0, 0, {kGood, kGood, kGood});
  Chain(&b, 0, 0, {kGood, kGood});
  std::vector<std::string> seen;
  DiffOptions options;
  options.on_unpaired = [&](const Unpaired& unpaired) { seen.push_back(unpaired.key); };
  const DiffReport report = DiffOk(a, b, options);
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_EQ(report.counts.unpaired_a, 2u);
  EXPECT_THAT(seen, ElementsAre("third@input#0", "third@output#"));
  EXPECT_THAT(Text(report), HasSubstr("DIFFERS  2 records without a partner; the 4 pairs agree"));
  EXPECT_THAT(Text(report), HasSubstr("  only in A   rank 0, step 0: third@input#0\n"));

  options.allow_unpaired = Named("third");
  EXPECT_EQ(DiffOk(a, b, options).overall, Overall::kSame);
  options.allow_unpaired = Named("second");
  EXPECT_EQ(DiffOk(a, b, options).overall, Overall::kDiffers);
}

TEST(Diff, AStepThatOneSideLacksIsNamedWithItsReason) {
  FakeRun a(2), b(2);
  for (int32_t rank : {0, 1}) {
    for (uint64_t step : {0, 1}) Chain(&a, rank, step, {kGood});
  }
  Chain(&b, 0, 0, {kGood});
  Chain(&b, 0, 1, {kGood});
  Chain(&b, 1, 0, {kGood});
  io::RankState& state = b.index()->ranks[1];
  state.closed = false;
  state.how = "killed";
  state.last_step = 1;
  const DiffReport report = DiffOk(a, b);
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_EQ(report.counts.paired, 6u);
  EXPECT_EQ(report.counts.unpaired_a, 2u);
  EXPECT_THAT(Text(report), HasSubstr("  only in A   rank 1, step 1: the whole step (2 records); "
                                      "rank 1: killed, last step 1\n"));
  DiffOptions options;
  options.allow_unpaired = Named("first");
  EXPECT_EQ(DiffOk(a, b, options).overall, Overall::kSame);
  options = {};
  options.pass.select = Named("nothing is called so");
  const DiffReport nothing = DiffOk(a, b, options);
  EXPECT_EQ(nothing.counts.unpaired_a, 0u);
  EXPECT_EQ(nothing.overall, Overall::kNotComparable);
  EXPECT_THAT(nothing.why_not, HasSubstr("is --select right?"));
}

TEST(Diff, TheReportFitsATerminal) {
  FakeRun a(1), b(1);
  const std::string path =
      "model.decoder.layers.17.transformer_block.self_attention.core_attention";
  a.Pass(0, 0).Module(path + ".left_out", kInput, kGood).Module(path, kInput, kGood);
  b.Pass(0, 0).Module(path, kInput, kBad);
  DiffReport report = DiffOk(a, b);
  report.inputs.compared = 1;
  report.inputs.first_differing_step = 0;
  report.inputs.differing.assign(12, "kwargs.some_argument");
  report.notes.push_back(std::string(30, 'x') + " " + std::string(90, 'y'));
  std::istringstream lines(Text(report));
  for (std::string line; std::getline(lines, line);) {
    // A name is never broken, and a command can be copied.
    EXPECT_TRUE(line.find(path) != std::string::npos || CharactersIn(line) <= 100) << line;
  }
  EXPECT_THAT(Text(report), HasSubstr("attention, output"));
  EXPECT_THAT(Text(report), HasSubstr("\nlook closer: tdump-view 'b@0:0/0/" + path +
                                      "@output#' --values 8 --at 1\n"));
}

TEST(Diff, AllowedFailuresAreListedAndDoNotCount) {
  FakeRun a(1), b(1);
  Chain(&a, 0, 0, {kGood});
  Chain(&b, 0, 0, {kBad});
  EXPECT_EQ(DiffOk(a, b).overall, Overall::kDiffers);
  DiffOptions options;
  options.pass.allow_failed = Named("first");
  const DiffReport report = DiffOk(a, b, options);
  EXPECT_EQ(report.overall, Overall::kSame);
  EXPECT_EQ(report.counts.allowed, 1u);
  EXPECT_FALSE(report.origin);
  EXPECT_THAT(Text(report), HasSubstr("1 outside, allowed"));
  EXPECT_THAT(Text(report), HasSubstr("tolerance (allowed)"));
}

TEST(Diff, DamageIsNeverADifference) {
  FakeRun a(1), b(1);
  Chain(&a, 0, 0, {kGood, kGood});
  PassBuilder pass = b.Pass(0, 0);
  pass.Module("first", kInput, kBad);
  pass.Damage(pass.last()->id);
  pass.Module("second", kGood, kGood);
  const DiffReport report = DiffOk(a, b);
  EXPECT_EQ(report.overall, Overall::kDamaged);
  EXPECT_EQ(report.counts.unreadable, 1u);
  EXPECT_EQ(report.counts.failing, 0u);
  EXPECT_EQ(report.counts.bits, 0u);
  EXPECT_FALSE(report.origin || report.first_bits);
  ASSERT_EQ(report.damage.size(), 1u);
  EXPECT_THAT(report.damage[0].what, HasSubstr("pass.tdp: offset 4096"));
  EXPECT_THAT(
      Text(report),
      HasSubstr("DAMAGED  1 place could not be read; of 3 pairs that could be, 0 differ\n"));
}

TEST(Diff, DamageOfRanksThatAreNotComparedDoesNotCount) {
  FakeRun a(2), b(2);
  for (FakeRun* run : {&a, &b}) {
    for (int32_t rank : {0, 1}) Chain(run, rank, 0, {kGood});
  }
  b.damage(1)->push_back({"rank1/manifest.tdm", 99, "checksum"});
  EXPECT_EQ(DiffOk(a, b).overall, Overall::kDamaged);
  DiffOptions options;
  options.pairing.ranks = *Spec::Parse("0");
  EXPECT_EQ(DiffOk(a, b, options).overall, Overall::kSame);
}

TEST(Diff, ShapesAndDtypesAloneProveNothing) {
  FakeRun a(1), b(1);
  for (FakeRun* run : {&a, &b}) {
    PassBuilder pass = run->Pass(0, 0);
    pass.Module("x", kInput, kGood);
    for (uint64_t back : {0, 1}) {
      io::Record* record = pass.last() - back;
      record->hash.reset();
      record->payload.reset();
    }
  }
  const DiffReport report = DiffOk(a, b);
  EXPECT_EQ(report.overall, Overall::kNotComparable);
  EXPECT_THAT(report.why_not, HasSubstr("nothing but shape and dtype was kept"));
  EXPECT_THAT(report.why_not, HasSubstr("capture with level hash or full"));
}

TEST(Diff, WeightsWithoutValuesSayWhatToCapture) {
  FakeRun a(1), b(1);
  for (FakeRun* run : {&a, &b}) {
    PassBuilder pass = run->Pass(0, 0);
    pass.Param("x", "weight", kGood);
    pass.last()->hash.reset();
  }
  EXPECT_THAT(DiffOk(a, b).why_not, HasSubstr("{role: [param, state], level: full}"));
}

TEST(Diff, OtherNamesAreNotComparable) {
  FakeRun a(1), b(1);
  a.Pass(0, 0).Module("model.layers.0", kInput, kGood);
  b.Pass(0, 0).Module("decoder.layers.0", kInput, kGood);
  const DiffReport report = DiffOk(a, b);
  EXPECT_EQ(report.overall, Overall::kNotComparable);
  EXPECT_EQ(report.why_not,
            "0 of 2 paired: A has names like model.layers.0, B like decoder.layers.0");
}

TEST(Diff, HashesThatDifferWithoutValuesFail) {
  FakeRun a(1), b(1);
  for (FakeRun* run : {&a, &b}) {
    PassBuilder pass = run->Pass(0, 0);
    pass.Module("x", kInput, run == &a ? kGood : kNear);
    pass.last()->payload.reset();
  }
  const DiffReport report = DiffOk(a, b);
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_THAT(Text(report), HasSubstr("bits differ (hash; values were not kept)"));
  EXPECT_EQ(RenderVerdict(report, false),
            "DIFFERS  1 of 2 by hash, which does not say by how much");
  for (FakeRun* run : {&a, &b}) run->Pass(0, 1).Module("x", kInput, run == &a ? kGood : kBad);
  EXPECT_EQ(RenderVerdict(DiffOk(a, b), false),
            "DIFFERS  2 of 4: 1 outside their bound, 1 by hash, which does not say by how much");
}

// What the operators return tells more.
TEST(Diff, WeightsThatDifferByHashAreToldAsThat) {
  // No other record has these bytes.
  const Tensor own = Vector<float>("float32", {7, 8}),
               near = Vector<float>("float32", {7, 8.0f + 0x1p-20f});
  const auto verdict = [&](const Tensor& first, const Tensor& second, const Tensor& kept) {
    FakeRun a(1), b(1);
    for (FakeRun* run : {&a, &b}) {
      PassBuilder pass = run->Pass(0, 0);
      pass.Param("fc", "weight", run == &a ? own : first);
      pass.Param("fc", "bias", run == &a ? kGood : second);
      pass.last()->payload = kGood.record.payload;
      pass.Module("fc", kInput, kGood);
      pass.Param("fc", "weight.exp_avg", run == &a ? kGood : kept);
      pass.last()->key.role = Role::kState;
    }
    const DiffReport report = DiffOk(a, b);
    EXPECT_EQ(report.overall, Overall::kSame);
    const std::string told = "\n          by hash, which does not say by how much\n";
    EXPECT_EQ(report.parameters.by_hash == 1 && report.parameters.differing_names == 1,
              Text(report).find(told) != std::string::npos);
    return RenderVerdict(report, false);
  };
  EXPECT_EQ(verdict(own, kGood, kGood), "SAME  5 of 5 bit for bit");
  EXPECT_EQ(verdict(near, kGood, kGood),
            "SAME  4 of 5 within bounds (bitwise 4); 1 parameter differs by hash, which does not "
            "say by how much");
  EXPECT_EQ(verdict(near, kNear, kGood),
            "SAME  4 of 5 within bounds (bitwise 3); 2 parameters differ in bits, 1 of them by "
            "hash alone");
  EXPECT_EQ(verdict(own, kGood, kNear),
            "SAME  4 of 5 within bounds (bitwise 4); 1 pair of what the optimizer keeps differs "
            "by hash, which does not say by how much");
}

TEST(Diff, WhereNothingElseTellsWhatAnOptimizerKeepsDecides) {
  FakeRun a(1), b(1);
  for (FakeRun* run : {&a, &b}) {
    PassBuilder pass = run->Pass(0, 0);
    for (const char* name : {"weight.exp_avg", "bias.exp_avg"}) {
      pass.Param("fc", name, run == &b && name[0] == 'w' ? kNear : kGood);
      pass.last()->key.role = Role::kState;
    }
  }
  const DiffReport report = DiffOk(a, b);
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_EQ(RenderVerdict(report, false),
            "DIFFERS  in 1 pair of what the optimizer keeps, by hash, which does not say by how "
            "much");
  EXPECT_EQ(DiffOk(a, a).overall, Overall::kSame);
}

TEST(Diff, TheSameAnswerOnAnyNumberOfThreads) {
  FakeRun a(1), b(1);
  PassBuilder left = a.Pass(0, 0), right = b.Pass(0, 0);
  for (int i = 0; i < 64; ++i) {
    const std::string name = "m" + std::to_string(i);
    left.Module(name, kInput, kGood);
    right.Module(name, kInput, i == 40 ? kBad : i > 50 ? kNear : kGood);
  }
  const auto summary = [&](unsigned threads) {
    DiffOptions options;
    options.pass.threads = threads;
    return Text(DiffOk(a, b, options));
  };
  EXPECT_EQ(summary(1), summary(8));
  EXPECT_THAT(summary(3), HasSubstr("ORIGIN    rank 0, step 0, m40, output"));
}

}  // namespace
}  // namespace tdump::compare
