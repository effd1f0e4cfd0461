#include "compare/infer_layout.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "io/hash.h"
#include "tests/compare/sources.h"

namespace tdump::compare {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::vector<float> Noise(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

Source Floats(Shape shape, std::vector<float> values) {
  return MakeSource<float>("float32", std::move(shape), std::move(values));
}

// The part [begin, begin + size) of a dimension of a row-major tensor.
std::vector<float> Part(const std::vector<float>& values, const Shape& shape, size_t dim,
                        uint64_t begin, uint64_t size) {
  uint64_t inner = 1;
  for (size_t i = dim + 1; i < shape.size(); ++i) inner *= shape[i];
  std::vector<float> part;
  for (uint64_t at = 0; at < values.size(); at += inner * shape[dim])
    part.insert(part.end(), values.begin() + static_cast<ptrdiff_t>(at + begin * inner),
                values.begin() + static_cast<ptrdiff_t>(at + (begin + size) * inner));
  return part;
}

// Shards of a job, and the tensor of the other side.
struct Question : LayoutQuestion {
  Question(std::string the_class, Role the_role, Source the_other) : other(std::move(the_other)) {
    cls = std::move(the_class);
    role = the_role;
    whole = other->shape();
  }
  Question& Add(Shape shape, const std::vector<float>& values) {
    hashes.push_back(io::HashPayload(std::as_bytes(std::span(values))));
    sources.push_back(Floats(std::move(shape), values));
    shards.push_back(
        {static_cast<int32_t>(shards.size()), sources.back()->dtype(), sources.back()->shape()});
    return *this;
  }
  std::optional<InferredLayout> Infer(std::string_view topology) const {
    const auto parsed = Topology::Parse(topology, static_cast<int32_t>(shards.size()));
    return InferLayout(LayoutCandidates(*this, *parsed),
                       [&](const LayoutCandidate& candidate) { return ErrorOf(candidate); });
  }
  Result<double> ErrorOf(const LayoutCandidate& candidate) const {
    auto opened =
        OpenCandidate(candidate, [&](size_t shard) { return Result<Source>(sources[shard]); });
    if (!opened.ok()) return std::move(opened).status();
    return SampledError(**opened, *other);
  }
  // "how", verified by the data.
  std::string How(std::string_view topology) const {
    const auto layout = Infer(topology);
    if (!layout) return "none";
    return (layout->verified ? "" : "not verified: ") + layout->candidate.how;
  }

  Source other;
  std::vector<Source> sources;
};

TEST(InferLayout, WeightsOfParallelLinearLayers) {
  const auto values = Noise(8 * 8, 1);
  Question column("ColumnParallelLinear", Role::kParam, Floats({8, 8}, values));
  Question row("RowParallelLinear", Role::kParam, Floats({8, 8}, values));
  for (uint64_t i = 0; i < 2; ++i) {
    column.Add({4, 8}, Part(values, {8, 8}, 0, 4 * i, 4));
    row.Add({8, 4}, Part(values, {8, 8}, 1, 4 * i, 4));
  }
  EXPECT_EQ(column.How("tp=2"), "concatenated on tp");
  EXPECT_EQ(column.Infer("tp=2")->candidate.dims.ToText(), "d0[tp] d1");
  EXPECT_EQ(row.How("tp=2"), "concatenated on tp");
  EXPECT_EQ(row.Infer("tp=2")->candidate.dims.ToText(), "d0 d1[tp]");
}

TEST(InferLayout, APartialSumIsToldFromReplicas) {
  const auto values = Noise(12, 2), summand = Noise(12, 3);
  std::vector<float> rest(12);
  for (size_t i = 0; i < 12; ++i) rest[i] = values[i] - summand[i];
  Question partial("RowParallelLinear", Role::kOutput, Floats({3, 4}, values));
  partial.Add({3, 4}, summand).Add({3, 4}, rest);
  EXPECT_EQ(partial.How("tp=2"), "sum of 2 partials on tp");
  Question replicated("RowParallelLinear", Role::kOutput, Floats({3, 4}, values));
  replicated.Add({3, 4}, values).Add({3, 4}, values);
  EXPECT_EQ(replicated.How("tp=2"), "replicated on 2 ranks");
}

TEST(InferLayout, AReplicaThatDiffersIsStillAReplica) {
  const auto values = Noise(12, 4);
  auto wrong = values;
  wrong[5] += 1;
  Question question("LayerNorm", Role::kParam, Floats({12}, values));
  question.Add({12}, values).Add({12}, wrong);
  EXPECT_EQ(question.How("tp=2"), "replicated on 2 ranks");
}

// What a job that divides once too often looks like; their sum would agree.
TEST(InferLayout, EqualCopiesAreNoSum) {
  const std::vector<float> whole = Noise(64, 3);
  std::vector<float> half = whole;
  for (float& value : half) value /= 2;
  Question question("Linear", Role::kParamGrad, Floats({8, 8}, whole));
  question.Add({8, 8}, half).Add({8, 8}, half);
  const auto layout = question.Infer("dp=2");
  ASSERT_TRUE(layout);
  EXPECT_LT(layout->candidate.plan.summands.size(), 2u) << layout->candidate.how;
  EXPECT_FALSE(layout->verified);
}

TEST(InferLayout, OnlyWhatIsComputedMayBeASum) {
  const std::vector<float> whole = Noise(64, 4), left = Noise(64, 5);
  std::vector<float> right = whole;
  for (size_t i = 0; i < right.size(); ++i) right[i] -= left[i];
  for (const auto& [role, sums] :
       {std::pair(Role::kParamGrad, true), {Role::kParam, false}, {Role::kState, false}}) {
    Question question("Linear", role, Floats({8, 8}, whole));
    question.Add({8, 8}, left).Add({8, 8}, right);
    const auto layout = question.Infer("dp=2");
    ASSERT_TRUE(layout);
    EXPECT_EQ(layout->verified, sums) << ToString(role) << ": " << layout->candidate.how;
  }
}

TEST(InferLayout, SequenceFirstAgainstBatchFirstAndTokens) {
  // [s 4, b 2, h 3] split over h; the other side is [b, s, h], or [(s b), h].
  const Shape shape = {4, 2, 6};
  const auto values = Noise(48, 5);
  std::vector<float> batch_first(48);
  for (uint64_t s = 0; s < 4; ++s)
    for (uint64_t b = 0; b < 2; ++b)
      for (uint64_t h = 0; h < 6; ++h)
        batch_first[(b * 4 + s) * 6 + h] = values[(s * 2 + b) * 6 + h];
  for (const auto& [other, how] : std::vector<std::pair<Source, std::string>>{
           {Floats({2, 4, 6}, batch_first), "concatenated on tp, [d0 d1 d2] as [d1 d0 d2]"},
           {Floats({8, 6}, values), "concatenated on tp, [d0 d1 d2] as [(d0 d1) d2]"},
           {Floats({8, 6}, batch_first), "concatenated on tp, [d0 d1 d2] as [(d1 d0) d2]"}}) {
    Question question("ColumnParallelLinear", Role::kOutput, other);
    for (uint64_t i = 0; i < 2; ++i) question.Add({4, 2, 3}, Part(values, shape, 2, 3 * i, 3));
    EXPECT_EQ(question.How("tp=2"), how);
  }
  // Tokens of the ranks against [b, s, h].
  Question tokens("Attention", Role::kOutput, Floats({2, 4, 6}, batch_first));
  for (uint64_t i = 0; i < 2; ++i) tokens.Add({4, 6}, Part(batch_first, {8, 6}, 0, 4 * i, 4));
  EXPECT_EQ(tokens.How("tp=2"), "concatenated on tp, [(d0 d1) d2] as [d0 d1 d2]");
}

TEST(InferLayout, ZigZagAndDataParallelBatches) {
  // [b 4, s 8, h 2], dp over b, cp folded over s.
  const Shape shape = {4, 8, 2};
  const auto values = Noise(64, 6);
  Question question("SelfAttention", Role::kOutput, Floats(shape, values));
  for (uint64_t dp = 0; dp < 2; ++dp) {
    for (uint64_t cp = 0; cp < 2; ++cp) {
      const auto batch = Part(values, shape, 0, 2 * dp, 2);
      std::vector<float> shard;
      const auto first = Part(batch, {2, 8, 2}, 1, 2 * cp, 2);
      const auto last = Part(batch, {2, 8, 2}, 1, 2 * (3 - cp), 2);
      for (size_t b = 0; b < 2; ++b) {
        shard.insert(shard.end(), first.begin() + 4 * b, first.begin() + 4 * b + 4);
        shard.insert(shard.end(), last.begin() + 4 * b, last.begin() + 4 * b + 4);
      }
      question.Add({2, 4, 2}, shard);
    }
  }
  EXPECT_EQ(question.How("cp=2 dp=2"), "concatenated on dp, cp (zig-zag)");
}

TEST(InferLayout, APaddedVocabulary) {
  const auto values = Noise(10 * 3, 7);
  auto padded = values;
  padded.resize(16 * 3, 0.25f);
  Question question("VocabParallelEmbedding", Role::kParam, Floats({10, 3}, values));
  for (uint64_t i = 0; i < 2; ++i) question.Add({8, 3}, Part(padded, {16, 3}, 0, 8 * i, 8));
  EXPECT_EQ(question.How("tp=2"), "concatenated on tp, 6 units of padding dropped from d0");
}

TEST(InferLayout, UnevenShards) {
  const auto values = Noise(5 * 4, 8);
  Question question("Linear", Role::kOutput, Floats({5, 4}, values));
  question.Add({3, 4}, Part(values, {5, 4}, 0, 0, 3)).Add({2, 4}, Part(values, {5, 4}, 0, 3, 2));
  EXPECT_EQ(question.How("tp=2"), "concatenated on tp");
}

TEST(InferLayout, DataThatAgreesWithNothingLeavesTheLikeliest) {
  Question question("ColumnParallelLinear", Role::kParam, Floats({8, 8}, Noise(64, 9)));
  question.Add({4, 8}, Noise(32, 10)).Add({4, 8}, Noise(32, 11));
  EXPECT_EQ(question.How("tp=2"), "not verified: concatenated on tp");
  Question impossible("Linear", Role::kParam, Floats({7}, Noise(7, 1)));
  impossible.Add({4}, Noise(4, 1)).Add({4}, Noise(4, 2));
  EXPECT_EQ(impossible.How("dp=2"),
            "not verified: concatenated on dp, 1 units of padding dropped from d0");
  Question hopeless("Linear", Role::kParam, Floats({70}, Noise(70, 1)));
  hopeless.Add({4}, Noise(4, 1)).Add({4}, Noise(4, 2));
  EXPECT_EQ(hopeless.How("dp=2"), "none");
}

TEST(InferLayout, TheFirstThatAgreesElseByFarTheLeastElseTheLikeliest) {
  const Topology topology = *Topology::Parse("tp=2", 2);
  Question question("Linear", Role::kOutput, Floats({2, 2}, Noise(4, 1)));
  question.Add({2, 2}, Noise(4, 2)).Add({2, 2}, Noise(4, 3));
  const auto candidates = LayoutCandidates(question, topology);
  ASSERT_GE(candidates.size(), 3u);
  const auto chosen = [&](std::vector<double> errors) {
    size_t next = 0;
    const auto layout = InferLayout(candidates, [&](const LayoutCandidate&) -> Result<double> {
      return next < errors.size() ? errors[next++] : 2.0;
    });
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (candidates[i].how == layout->candidate.how) return i;
    }
    return candidates.size();
  };
  EXPECT_EQ(chosen({1.4, 0.05, 0.0}), 1u);
  EXPECT_EQ(chosen({1.4, 1.3, 0.5}), 2u);
  EXPECT_EQ(chosen({1.4, 1.3, 1.2}), 0u);
  EXPECT_EQ(chosen({NAN, NAN}), 2u);
  EXPECT_FALSE(InferLayout({}, nullptr).has_value());
}

TEST(LayoutMemory, PutsWhatAnotherLayerHadFirst) {
  const Topology topology = *Topology::Parse("tp=2", 2);
  Question question("Linear", Role::kOutput, Floats({2, 2}, Noise(4, 1)));
  question.Add({2, 2}, Noise(4, 2)).Add({2, 2}, Noise(4, 3));
  question.name = "layers.3.fc";
  auto candidates = LayoutCandidates(question, topology);
  ASSERT_GE(candidates.size(), 2u);
  LayoutMemory memory;
  memory.Remember(question, {candidates[1], true, 0});
  question.name = "layers.17.fc";
  const std::string remembered = candidates[1].how;
  memory.Prefer(question, &candidates);
  EXPECT_EQ(candidates[0].how, remembered);
  question.name = "layers.17.norm";
  auto others = LayoutCandidates(question, topology);
  const std::string first = others[0].how;
  memory.Prefer(question, &others);
  EXPECT_EQ(others[0].how, first);
}

}  // namespace
}  // namespace tdump::compare
