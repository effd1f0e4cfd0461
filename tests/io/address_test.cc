#include "io/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tdump::io {
namespace {

using ::testing::HasSubstr;

class AddressTest : public ::testing::Test {
 protected:
  AddressTest() {
    for (const char* directory : {"outputs/tdump_a/rank0_pid1", "outputs/latest/rank0_pid1",
                                  "runs/x:1/rank0_pid1", "empty"}) {
      EXPECT_TRUE(env_->MakeDirs(directory, 0700).ok());
    }
    EXPECT_TRUE(
        WriteFileAtomically(env_.get(), "outputs/tdump_a/rank0_pid1/pass00000.tdp", "x", 0600)
            .ok());
  }
  RunRef Run(std::string_view text) {
    auto run = ResolveRun(env_.get(), text);
    EXPECT_TRUE(run.ok()) << run.status().message();
    return run.ok() ? *run : RunRef{};
  }
  Address At(std::string_view text) {
    auto address = ResolveAddress(env_.get(), text);
    EXPECT_TRUE(address.ok()) << address.status().message();
    return address.ok() ? *address : Address{};
  }

  std::unique_ptr<Env> env_ = NewMemoryEnv();
};

TEST_F(AddressTest, RunsAreDirectoriesLatestGenerationsRanksAndFiles) {
  EXPECT_EQ(Run("outputs/tdump_a/").path, "outputs/tdump_a");
  EXPECT_EQ(Run("latest").path, "outputs/latest");
  EXPECT_EQ(Run("latest@2").path, "outputs/latest");
  EXPECT_EQ(Run("latest@2").generation, 2u);
  EXPECT_EQ(Run("outputs/tdump_a/rank3").path, "outputs/tdump_a");
  EXPECT_EQ(Run("outputs/tdump_a/rank3").rank, 3);
  EXPECT_EQ(Run("outputs/tdump_a@1/rank3").generation, 1u);
  EXPECT_EQ(Run("latest/rank0").rank, 0);
  EXPECT_EQ(Run("outputs/tdump_a/rank0_pid1").path, "outputs/tdump_a/rank0_pid1");
  EXPECT_EQ(Run("outputs/tdump_a/rank0_pid1/pass00000.tdp").path,
            "outputs/tdump_a/rank0_pid1/pass00000.tdp");
}

TEST_F(AddressTest, AMissingRunNamesTheOnesThatAreThere) {
  const Status status = ResolveRun(env_.get(), "outputs/tdump_b").status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("runs here: outputs/tdump_a"));
  EXPECT_THAT(ResolveRun(env_.get(), "empty").status().message(),
              HasSubstr("'empty': holds no run"));
  EXPECT_EQ(ResolveRun(env_.get(), "").status().code(), StatusCode::kInvalidArgument);
}

TEST_F(AddressTest, ANameThatBreaksLinesIsListedInOne) {
  ASSERT_TRUE(env_->MakeDirs("more/a\nb/rank0_pid1", 0700).ok());
  EXPECT_EQ(ResolveRun(env_.get(), "more/x\ny").status().message().substr(0, 68),
            "'more/x\\x0ay': no such directory; runs here: more/a\\x0ab");
}

TEST_F(AddressTest, AddressesHaveStepRankAndName) {
  const Address whole = At("latest:41232/417/decoder.layers.44.mlp/aten::div");
  EXPECT_EQ(whole.run.path, "outputs/latest");
  EXPECT_EQ(whole.step, 41232u);
  EXPECT_EQ(whole.rank, 417);
  EXPECT_EQ(whole.name, "decoder.layers.44.mlp/aten::div");
  EXPECT_EQ(At("latest:9007199254740993").step, 9007199254740993u);
  EXPECT_EQ(At("latest@1:4/0").run.generation, 1u);
  EXPECT_EQ(At("latest/rank2:4").rank, 2);
  EXPECT_EQ(At("runs/x:1").step, std::nullopt);  // a directory with a colon in its name
  EXPECT_EQ(At("runs/x:1:5/0/a").run.path, "runs/x:1");
  EXPECT_THAT(ResolveAddress(env_.get(), "nowhere:1/2/a").status().message(),
              HasSubstr("'nowhere': no such directory"));
}

TEST(NameMatches, PartsMayBeLeftOut) {
  Key key;
  key.path = "encoder.mlp";
  key.op = "aten::mm";
  key.role = Role::kInput;
  key.arg = "1";
  EXPECT_TRUE(NameMatches("encoder.mlp/aten::mm", key));
  EXPECT_TRUE(NameMatches("encoder.mlp/aten::mm#1", key));
  EXPECT_TRUE(NameMatches("encoder.mlp/aten::mm@input", key));
  EXPECT_TRUE(NameMatches("encoder.mlp/aten::mm@input#1", key));
  EXPECT_TRUE(NameMatches(ToText(key), key));
  EXPECT_FALSE(NameMatches("encoder.mlp/aten::mm#0", key));
  EXPECT_FALSE(NameMatches("encoder.mlp/aten::mm@output", key));
  EXPECT_FALSE(NameMatches("encoder.mlp", key));
  EXPECT_FALSE(NameMatches("encoder.mlp/aten::mm::call1", key));
  key.call = 1;
  EXPECT_FALSE(NameMatches("encoder.mlp/aten::mm", key));
  EXPECT_TRUE(NameMatches("encoder.mlp/aten::mm::call1#1", key));
}

TEST(NameMatches, MarksMayBeLeftOut) {
  Key key{.path = "head", .role = Role::kGradOutput};
  key.phase = Phase::kBackward;
  key.micro = 2;
  for (const char* name : {"head", "head~m2.b", "head@grad_output~m2.b", "head@grad_output#~m2.b"})
    EXPECT_TRUE(NameMatches(name, key)) << name;
  for (const char* other :
       {"head~b", "head~m1.b", "head~m2", "head~", "hea~m2.b", "head@output~m2.b"})
    EXPECT_FALSE(NameMatches(other, key)) << other;
  EXPECT_FALSE(NameMatches("head~b", Key{.path = "head"}));
  EXPECT_TRUE(NameMatches("a~b", Key{.path = "a~b"}));
}

TEST(NameMatches, RootsAndOddCharacters) {
  Key key;
  key.root = "Critic#1";
  key.path = "fc";
  EXPECT_TRUE(NameMatches("Critic#1.fc", key));
  EXPECT_TRUE(NameMatches("Critic%231:fc", key));
  Key odd;
  odd.path = "a/b:0";
  odd.arg = "x";
  EXPECT_TRUE(NameMatches("a/b:0#x", odd));
  EXPECT_TRUE(NameMatches("a%2Fb%3A0#x", odd));
}

}  // namespace
}  // namespace tdump::io
