// Sums over ranks that were inferred: which of them are a forgotten all-reduce.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compare/diff.h"
#include "core/status.h"
#include "io/pass_store.h"
#include "tests/compare/job_runs.h"

namespace tdump::compare {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const Tensor kHalf = Matrix(2, 4, {0, 1, 1, 2, 2, 3, 3, 4});
const Tensor kRest = Matrix(2, 4, {1, 1, 2, 2, 3, 3, 4, 4});  // of kWhole
const Tensor kNorm = Matrix(2, 4, {-3, 1, -1, 3, 2, -4, 5, 7});
const Tensor kNormOfHalf = Matrix(2, 4, {9, -1, 4, 3, -8, 4, 2, 1});
const Tensor kNormOfRest = Matrix(2, 4, {-6, 7, 2, 2, 7, -7, 1, 3});

struct Output {
  std::string path;
  Tensor whole, rank0, rank1;
};
Output Whole(const std::string& path) { return {path, kWhole, kWhole, kWhole}; }
Output Sum(const std::string& path) { return {path, kWhole, kHalf, kRest}; }

// Row-parallel linear layers, whose input both sides split.
void AddLinear(const Output& output, PassBuilder* one, PassBuilder* zero, PassBuilder* other) {
  one->Module(output.path, kWhole, output.whole);
  zero->Module(output.path, kLeft, output.rank0);
  other->Module(output.path, kRight, output.rank1);
}

DiffReport DiffOutputs(const std::vector<Output>& outputs, bool with_hashes = true) {
  FakeRun one(1), two(2);
  PassBuilder whole = one.Pass(0, 0), zero = two.Pass(0, 0), other = two.Pass(1, 0);
  for (const Output& output : outputs) AddLinear(output, &whole, &zero, &other);
  for (PassBuilder* pass : {&whole, &zero, &other}) {
    for (io::Record& record : *pass->records()) {
      if (!with_hashes) record.hash.reset();
    }
  }
  return DiffOk(one, two);
}

TEST(PartialSums, OneAmongLayersThatAreWholeIsAFault) {
  for (const size_t at : {0, 1, 2}) {
    std::vector<Output> outputs = {Whole("l.0.down"), Whole("l.1.down"), Whole("l.2.down")};
    outputs[at] = Sum(outputs[at].path);
    const DiffReport report = DiffOutputs(outputs);
    EXPECT_EQ(report.overall, Overall::kDiffers) << at;
    ASSERT_TRUE(report.origin);
    EXPECT_EQ(report.origin->name, outputs[at].path);
    EXPECT_EQ(report.origin->row->key.role, Role::kOutput);
    EXPECT_THAT(Joined(Text(report, 1, 2)),
                HasSubstr("each rank of B holds a partial sum, and the sum alone agrees; an "
                          "all-reduce is missing? (the same of 2 other layers is whole on every "
                          "rank) (2 pairs), first " +
                          outputs[at].path + "@output"));
  }
}

// As in dumps of other tools.
TEST(PartialSums, WithoutHashesTheBytesTellWhatIsWhole) {
  for (const size_t at : {0, 2}) {
    std::vector<Output> outputs = {Whole("l.0.down"), Whole("l.1.down"), Whole("l.2.down")};
    outputs[at] = Sum(outputs[at].path);
    const DiffReport report = DiffOutputs(outputs, /*with_hashes=*/false);
    EXPECT_EQ(report.overall, Overall::kDiffers) << at;
    ASSERT_TRUE(report.origin);
    EXPECT_EQ(report.origin->name, outputs[at].path);
  }
}

TEST(PartialSums, OfTheFirstSideTheyAreFaultsToo) {
  FakeRun one(1), two(2);
  PassBuilder whole = one.Pass(0, 0), zero = two.Pass(0, 0), other = two.Pass(1, 0);
  AddLinear(Whole("l.0.down"), &whole, &zero, &other);
  AddLinear(Sum("l.1.down"), &whole, &zero, &other);
  const DiffReport report = DiffOk(two, one);
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_THAT(Joined(Text(report, 2, 1)), HasSubstr("each rank of A holds a partial sum"));
}

TEST(PartialSums, OfEveryLayerTheyAreAsTheyShouldBe) {
  const DiffReport report = DiffOutputs({Sum("l.0.down"), Sum("l.1.down"), Sum("l.2.down")});
  EXPECT_EQ(report.overall, Overall::kSame);
  EXPECT_THAT(report.notes, IsEmpty());
  // Layers of which most leave the reduction to what comes after.
  EXPECT_EQ(DiffOutputs({Sum("l.0.down"), Sum("l.1.down"), Whole("l.2.down")}).overall,
            Overall::kSame);
  EXPECT_EQ(DiffOutputs({Whole("l.0.up"), Sum("l.1.down"), Whole("l.2.up")}).overall,
            Overall::kSame);
}

// Modules that a list numbers, which are not alike.
TEST(PartialSums, OperatorsWithOtherInputsAreNoneOfThese) {
  FakeRun one(1), two(2);
  PassBuilder whole = one.Pass(0, 0), zero = two.Pass(0, 0), other = two.Pass(1, 0);
  whole.Module("mlp.0", kInput, kWhole);
  zero.Module("mlp.0", kInput, kWhole);
  other.Module("mlp.0", kInput, kWhole);
  AddLinear(Sum("mlp.1"), &whole, &zero, &other);
  EXPECT_EQ(DiffOk(one, two).overall, Overall::kSame);
}

TEST(PartialSums, DimsThatSomebodyGaveAreTaken) {
  FakeRun one(1), two(2);
  PassBuilder whole = one.Pass(0, 0), zero = two.Pass(0, 0), other = two.Pass(1, 0);
  AddLinear(Whole("l.0.down"), &whole, &zero, &other);
  AddLinear(Sum("l.1.down"), &whole, &zero, &other);
  EXPECT_EQ(DiffOk(one, two, WithDims("l.1.down@output", "x y partial[rank]")).overall,
            Overall::kSame);
}

// What takes the sum: a norm, or what adds the summands up.
FakeRun Taken(const std::vector<Tensor>& sums, const std::vector<Tensor>& outs) {
  FakeRun run(static_cast<int32_t>(sums.size()));
  for (size_t rank = 0; rank < sums.size(); ++rank) {
    PassBuilder pass = run.Pass(static_cast<int32_t>(rank), 0);
    const std::vector<Tensor> in =
        sums.size() == 1 ? std::vector<Tensor>{kWhole} : std::vector<Tensor>{kLeft, kRight};
    pass.Module("down", in[rank], sums[rank]).Module("norm", sums[rank], outs[rank]);
  }
  return run;
}

TEST(PartialSums, WhatTakesThemTells) {
  const FakeRun one = Taken({kWhole}, {kNorm});
  const DiffReport missing = DiffOk(one, Taken({kHalf, kRest}, {kNormOfHalf, kNormOfRest}));
  EXPECT_EQ(missing.overall, Overall::kDiffers);
  ASSERT_TRUE(missing.origin);
  EXPECT_EQ(missing.origin->name, "down");
  EXPECT_THAT(Joined(Text(missing, 1, 2)), HasSubstr("(what takes it, norm, does not agree)"));
  EXPECT_EQ(DiffOk(one, Taken({kHalf, kRest}, {kNorm, kNorm})).overall, Overall::kSame);
  // One that adds them up, and then errs.
  const DiffReport wrong = DiffOk(one, Taken({kHalf, kRest}, {kNormOfHalf, kNormOfHalf}));
  ASSERT_TRUE(wrong.origin);
  EXPECT_EQ(wrong.origin->name, "norm");
}

// The linear layer inside one that adds the summands up holds a sum in every layer.
TEST(PartialSums, TheOperatorThatShouldAddThemUpIsNamed) {
  FakeRun one(1), two(2);
  PassBuilder whole = one.Pass(0, 0), zero = two.Pass(0, 0), other = two.Pass(1, 0);
  for (const std::string layer : {"l.0", "l.1", "l.2"}) {
    const bool bad = layer == "l.1";
    const auto add = [&](PassBuilder* pass, const Tensor& in, const Tensor& sum, const Tensor& out,
                         const Tensor& norm) {
      const uint64_t call = pass->Begin(layer + ".down", "", {{"0", in}});
      pass->Module(layer + ".down.linear", in, sum);
      pass->End(call, layer + ".down", "", {{"", out}});
      pass->Module(layer + ".norm", out, norm);
    };
    add(&whole, kWhole, kWhole, kWhole, kNorm);
    add(&zero, kLeft, kHalf, bad ? kHalf : kWhole, bad ? kNormOfHalf : kNorm);
    add(&other, kRight, kRest, bad ? kRest : kWhole, bad ? kNormOfRest : kNorm);
  }
  const DiffReport report = DiffOk(one, two);
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->name, "l.1.down");
}

// A row-parallel layer in each of three blocks, whose output is added to what went into the block
// before a norm: that sum was not recorded. `next0`, `next1`: what the norm of each is given on the
// two ranks.
FakeRun Residual(bool whole, const Tensor& next0, const Tensor& next1, bool has_hashes = true) {
  FakeRun run(whole ? 1 : 2);
  for (const int32_t rank : {0, 1}) {
    if (whole && rank == 1) break;
    PassBuilder pass = run.Pass(rank, 0);
    const Tensor& in = whole ? kWhole : rank == 0 ? kLeft : kRight;
    const Tensor& sum = whole ? kWhole : rank == 0 ? kHalf : kRest;
    const Tensor& next = rank == 0 ? next0 : next1;
    for (const std::string layer : {"l.0", "l.1", "l.2"}) {
      pass.Module(layer + ".down", in, sum);
      pass.Module(layer + ".norm", next, rank == 0 ? kNormOfHalf : kNormOfRest);
    }
    for (io::Record& record : *pass.records()) {
      if (!has_hashes) record.hash.reset();
    }
  }
  return run;
}

// kNorm goes past the layer.
const Tensor kNextWhole = Matrix(2, 4, {-2, 3, 2, 7, 7, 2, 12, 15});
const Tensor kNextHalf = Matrix(2, 4, {-3, 2, 0, 5, 4, -1, 8, 11});
const Tensor kNextRest = Matrix(2, 4, {-2, 2, 1, 5, 5, -1, 9, 11});

TEST(PartialSums, OfEveryLayerTheyAreFaultsWhereWhatComesNextLacksThem) {
  for (const bool has_hashes : {true, false}) {
    const FakeRun one = Residual(true, kNextWhole, kNextWhole, has_hashes);
    const DiffReport report = DiffOk(one, Residual(false, kNextHalf, kNextRest, has_hashes));
    EXPECT_EQ(report.overall, Overall::kDiffers);
    ASSERT_TRUE(report.origin);
    EXPECT_EQ(report.origin->kind, OriginKind::kOperator);
    EXPECT_EQ(report.origin->name, "l.0.down");
    EXPECT_EQ(report.origin->row->key.role, Role::kOutput);
    EXPECT_THAT(
        Joined(Text(report, 1, 2)),
        HasSubstr("an all-reduce is missing? (what comes next, l.0.norm, lacks what the other "
                  "ranks hold)"));
  }
}

// Added up, and then off in another way, on one rank or on both.
TEST(PartialSums, WhatComesNextMayBeWrongByItself) {
  const FakeRun one = Residual(true, kNextWhole, kNextWhole);
  const Tensor off = Matrix(2, 4, {-2, 3, 2, 7, 7, 2, 12, 19}),
               zeros = Matrix(2, 4, {0, 3, 0, 7, 0, 2, 0, 15});
  for (const auto& [next0, next1] : {std::pair(kNextWhole, off), {off, kNextWhole}, {off, zeros}}) {
    const DiffReport report = DiffOk(one, Residual(false, next0, next1));
    EXPECT_EQ(report.overall, Overall::kDiffers);
    ASSERT_TRUE(report.origin);
    EXPECT_EQ(report.origin->name, "l.0.norm");
    EXPECT_THAT(Joined(Text(report, 1, 2)), Not(HasSubstr("all-reduce")));
  }
}

// A run of which each payload that is mapped, or a piece that is read, is counted.
class CountingRun : public io::PassStore {
 public:
  explicit CountingRun(FakeRun* run) : run_(run) {}

  CapturedRun side() const { return CapturedRun(this, run_->index(), std::nullopt, "run"); }
  size_t reads() const { return reads_; }

  const std::string& run() const override { return run_->run(); }
  const std::vector<io::ProcessEntry>& processes() const override { return run_->processes(); }
  Result<std::unique_ptr<io::PassReader>> OpenPass(const io::ProcessEntry& process,
                                                   const io::PassEntry& pass) const override {
    TDUMP_ASSIGN_OR_RETURN(auto reader, run_->OpenPass(process, pass));
    return std::unique_ptr<io::PassReader>(new Reader(std::move(reader), &reads_));
  }

 private:
  class Reader : public io::PassReader {
   public:
    Reader(std::unique_ptr<io::PassReader> reader, std::atomic<size_t>* reads)
        : reader_(std::move(reader)), reads_(reads) {}

    const std::string& path() const override { return reader_->path(); }
    const io::PassInfo& info() const override { return reader_->info(); }
    bool complete() const override { return reader_->complete(); }
    uint64_t record_count() const override { return reader_->record_count(); }
    const std::vector<io::Damage>& damage() const override { return reader_->damage(); }
    Status ForEachRecord(const std::function<bool(const io::Record&)>& visit) const override {
      return reader_->ForEachRecord(visit);
    }
    Status ForEachCall(const std::function<bool(const io::CallRecord&)>& visit) const override {
      return reader_->ForEachCall(visit);
    }
    Result<io::Record> Find(const Key& key) const override { return reader_->Find(key); }
    Result<io::Record> Get(uint64_t record) const override { return reader_->Get(record); }
    Status ReadPayload(const io::Record& record, uint64_t offset, std::span<std::byte> out,
                       bool verify) const override {
      ++*reads_;
      return reader_->ReadPayload(record, offset, out, verify);
    }
    Result<std::span<const std::byte>> MapPayload(const io::Record& record) const override {
      ++*reads_;
      return reader_->MapPayload(record);
    }
    Status Verify(std::vector<io::Damage>* damage) const override {
      return reader_->Verify(damage);
    }

   private:
    const std::unique_ptr<io::PassReader> reader_;
    std::atomic<size_t>* const reads_;
  };

  FakeRun* const run_;
  mutable std::atomic<size_t> reads_ = 0;
};

// Of each sum nothing but sums and equal copies comes behind; nothing has a hash.
size_t ReadsOfHealthyJob(int layers) {
  FakeRun one(1), two(2);
  PassBuilder whole = one.Pass(0, 0), zero = two.Pass(0, 0), other = two.Pass(1, 0);
  for (int i = 0; i < layers; ++i) {
    const std::string layer = "l." + std::to_string(i);
    AddLinear(Sum(layer + ".down"), &whole, &zero, &other);
    AddLinear(Whole(layer + ".norm"), &whole, &zero, &other);
  }
  for (PassBuilder* const pass : {&whole, &zero, &other}) {
    for (io::Record& record : *pass->records()) record.hash.reset();
  }
  const CountingRun counting(&two);
  const auto report = Diff(one.side(), counting.side(), {});
  EXPECT_TRUE(report.ok() && report->overall == Overall::kSame);
  return counting.reads();
}

TEST(PartialSums, WhatComesNextIsReadOnceForAllSums) {
  const size_t few = ReadsOfHealthyJob(8), many = ReadsOfHealthyJob(16);
  EXPECT_GT(few, 0u);
  EXPECT_LE(many, 2 * few);
}

// Where what takes it adds the summands up, other layers say nothing.
TEST(PartialSums, WhatAddsThemUpMayBeThereInOneLayerAlone) {
  FakeRun one(1), two(2);
  PassBuilder whole = one.Pass(0, 0), zero = two.Pass(0, 0), other = two.Pass(1, 0);
  AddLinear(Whole("l.0.down"), &whole, &zero, &other);
  AddLinear(Sum("l.1.down"), &whole, &zero, &other);
  whole.Module("norm", kWhole, kNorm);
  zero.Module("norm", kHalf, kNorm);
  other.Module("norm", kRest, kNorm);
  EXPECT_EQ(DiffOk(one, two).overall, Overall::kSame);
}

// A model that returns two numbers, of ranks at these places.
struct Counted {
  std::vector<std::string> places = {"", ""};
  bool same_inputs = true;
  bool has_hashes = true;
};
DiffReport DiffCounts(const Counted& of) {
  const auto counts = [](float hits, float of) { return Vector<float>("float32", {hits, of}); };
  const Tensor batch = MakeTensor<int64_t>("int64", {4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const Tensor first = MakeTensor<int64_t>("int64", {2, 2}, {1, 2, 3, 4});
  const Tensor second = MakeTensor<int64_t>("int64", {2, 2}, {5, 6, 7, 8});
  FakeRun one(1), two(2);
  const auto add = [&](PassBuilder pass, const Tensor& in, const Tensor& out) {
    pass.Module(".", in, out);
    for (io::Record& record : *pass.records()) {
      if (!of.has_hashes) record.hash.reset();
    }
  };
  add(one.Pass(0, 0), batch, counts(5, 8));
  add(two.Pass(0, 0), of.same_inputs ? batch : first, counts(2, 4));
  add(two.Pass(1, 0), of.same_inputs ? batch : second, counts(3, 4));
  for (int32_t rank : {0, 1}) two.Place(rank, of.places[static_cast<size_t>(rank)]);
  return DiffOk(one, two);
}

TEST(PartialSums, TheModelsOwnOutputIsNoneWhereRanksShareItsInputs) {
  for (const std::vector<std::string>& places :
       {std::vector<std::string>{"", ""}, {"tp=0", "tp=1"}, {"mp=0", "mp=1"}}) {
    const DiffReport report = DiffCounts({.places = places});
    EXPECT_EQ(report.overall, Overall::kDiffers) << places.front();
    ASSERT_TRUE(report.origin);
    EXPECT_EQ(report.origin->name, ".");
    EXPECT_THAT(Joined(Text(report, 1, 2)), HasSubstr("(it is the model's own output)"));
  }
}

TEST(PartialSums, InputsWithoutHashesAreFoundToBeTheSame) {
  EXPECT_EQ(DiffCounts({.has_hashes = false}).overall, Overall::kDiffers);
  EXPECT_EQ(DiffCounts({.same_inputs = false, .has_hashes = false}).overall, Overall::kSame);
}

// Two ranks of each part of the batch, in which each holds a summand.
TEST(PartialSums, RanksOfOneAxisMayShareInputsThatAnotherSplits) {
  const auto pair = [](float x, float y) { return Vector<float>("float32", {x, y}); };
  const Tensor batch = MakeTensor<int64_t>("int64", {4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const Tensor first = MakeTensor<int64_t>("int64", {2, 2}, {1, 2, 3, 4});
  const Tensor second = MakeTensor<int64_t>("int64", {2, 2}, {5, 6, 7, 8});
  const Tensor whole = Vector<float>("float32", {5, 8, 11, 17});
  FakeRun one(1), four(4);
  one.Pass(0, 0).Module(".", batch, whole);
  const Tensor outs[] = {pair(2, 5), pair(3, 3), pair(4, 9), pair(7, 8)};
  for (int32_t rank : {0, 1, 2, 3}) {
    four.Pass(rank, 0).Module(".", rank < 2 ? first : second, outs[rank]);
    four.Place(rank, "dp=" + std::to_string(rank / 2) + ",mp=" + std::to_string(rank % 2));
  }
  const DiffReport report = DiffOk(one, four);
  EXPECT_EQ(report.overall, Overall::kDiffers) << Text(report, 1, 4);
}

TEST(PartialSums, OfRanksWithOtherDataItIsOne) {
  for (const std::vector<std::string>& places :
       {std::vector<std::string>{"", ""}, {"dp=0", "dp=1"}}) {
    const DiffReport report = DiffCounts({.places = places, .same_inputs = false});
    EXPECT_EQ(report.overall, Overall::kSame) << Text(report, 1, 2);
  }
}

TEST(PartialSums, WhatHoldsTheSameAsTheModelsOutputIsNoneEither) {
  FakeRun one(1), two(2);
  PassBuilder whole = one.Pass(0, 0), zero = two.Pass(0, 0), other = two.Pass(1, 0);
  AddLinear(Sum("down"), &whole, &zero, &other);
  whole.Module(".", kInput, kWhole);
  zero.Module(".", kInput, kHalf);
  other.Module(".", kInput, kRest);
  const DiffReport report = DiffOk(one, two);
  EXPECT_EQ(report.overall, Overall::kDiffers);
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->name, "down");
}

// A loss of each rank's part of a batch.
TEST(PartialSums, ASingleNumberOfTheModelIsOne) {
  const auto number = [](float value) { return MakeTensor<float>("float32", {}, {value}); };
  EXPECT_EQ(DiffOutputs({{".", number(5), number(2), number(3)}}).overall, Overall::kSame);
}

}  // namespace
}  // namespace tdump::compare
