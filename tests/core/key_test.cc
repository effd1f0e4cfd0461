#include "core/key.h"

#include <gtest/gtest.h>

#include <set>

namespace tdump {
namespace {

Key Full() {
  Key key;
  key.root = "Critic#1";
  key.path = "layers.0.a/b";
  key.op = "aten::mm";
  key.role = Role::kGradInput;
  key.arg = "kwargs.mask";
  key.call = 3;
  key.micro = 1;
  key.chunk = 2;
  key.lane = 4;
  key.phase = Phase::kBackward;
  key.recompute = true;
  return key;
}

TEST(KeyTest, PlainModuleOutput) {
  Key key;
  key.path = "encoder.layer.0";
  key.arg = "0";
  EXPECT_EQ(ToText(key), "encoder.layer.0@output#0");
}

TEST(KeyTest, EveryFieldInOrder) {
  EXPECT_EQ(ToText(Full()),
            "Critic%231:layers.0.a%2Fb/aten%3A%3Amm::call3@grad_input#kwargs.mask~m1.c2.l4.b.r");
}

TEST(KeyTest, TextReadsBackToTheSameKey) {
  Key odd;
  odd.path = "a%b~c\n\x01\x7f";
  odd.arg = "@#:/";
  for (const Key& key : {Full(), Key{}, odd}) {
    const Result<Key> read = ParseKey(ToText(key));
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(*read, key) << ToText(key);
  }
}

TEST(KeyTest, GradientsAreOfTheBackwardPhase) {
  const Result<Key> key = ParseKey("head@param_grad#weight~m2");
  ASSERT_TRUE(key.ok());
  EXPECT_EQ(key->phase, Phase::kBackward);
  EXPECT_EQ(ToText(*key), "head@param_grad#weight~m2.b");
}

TEST(KeyTest, OperatorMayBeWrittenWithoutEscapes) {
  const Result<Key> key = ParseKey("encoder.layer.0/aten::mm::call1@output#0");
  ASSERT_TRUE(key.ok()) << key.status().message();
  EXPECT_EQ(key->root, "");
  EXPECT_EQ(key->path, "encoder.layer.0");
  EXPECT_EQ(key->op, "aten::mm");
  EXPECT_EQ(key->call, 1u);
}

TEST(KeyTest, BadTextsSayWhatWasExpected) {
  for (const char* text :
       {"", "a", "a@output", "a#0@output", "a@outptu#0", "a::callx@output#0", "a@output#0~z1",
        "a@output#0~m", "a@output#0~m-1", "a%4@output#0", "a%zz@output#0"}) {
    const Result<Key> key = ParseKey(text);
    ASSERT_FALSE(key.ok()) << text;
    EXPECT_NE(key.status().message().find("expected"), std::string::npos) << key.status().message();
  }
}

TEST(KeyTest, EscapesSeparatorsAndControlBytesOnly) {
  EXPECT_EQ(EscapeField("a/b:0"), "a%2Fb%3A0");
  EXPECT_EQ(EscapeField("%@#~\n\x7f"), "%25%40%23%7E%0A%7F");
  EXPECT_EQ(EscapeField("\xC3\xA9\xFF .-_"), "\xC3\xA9\xFF .-_");
  EXPECT_EQ(UnescapeField("%2f%41").value(), "/A");
}

TEST(KeyTest, PlainNames) {
  EXPECT_EQ(PlainName("", "a.b", ""), "a.b");
  EXPECT_EQ(PlainName("", ".", ""), ".");
  EXPECT_EQ(PlainName("", "a.b", "aten::mm"), "a.b/aten::mm");
  EXPECT_EQ(PlainName("", ".", "tap"), "./tap");
  EXPECT_EQ(PlainName("Critic#1", "a.b", ""), "Critic#1.a.b");
  EXPECT_EQ(PlainName("Critic#1", ".", ""), "Critic#1");
  EXPECT_EQ(PlainName("Critic#1", ".", "aten::mm"), "Critic#1/aten::mm");
}

TEST(FileNameTest, LegalNamesStay) {
  EXPECT_EQ(PortableFileName("encoder.layer.0", ".npy"), "encoder.layer.0.npy");
  EXPECT_EQ(PortableFileName("a-b_c+d=e,f", ""), "a-b_c+d=e,f");
}

TEST(FileNameTest, DifferentNamesGiveFilesThatDifferEvenWithoutCaseOrNormalForm) {
  const std::vector<std::string> names = {"a/b",
                                          "a_b",
                                          "a:b",
                                          "a b",
                                          "A",
                                          "a",
                                          "t_a",
                                          "\xC3\xA9",
                                          "e\xCC\x81",
                                          "e",
                                          "..",
                                          ".",
                                          "",
                                          "con",
                                          "con.x",
                                          "a.",
                                          "a",
                                          std::string(300, 'x'),
                                          std::string(300, 'x') + "y",
                                          "\xFF",
                                          "\xC0\x80",
                                          "-a"};
  std::set<std::string> distinct(names.begin(), names.end()), files;
  for (const std::string& name : distinct) {
    std::string file = PortableFileName(name, ".npy");
    for (char& c : file) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    EXPECT_TRUE(files.insert(file).second) << name << " -> " << file;
    EXPECT_LE(file.size(), 200u);
    EXPECT_EQ(file.find_first_of("/\\:*?\"<>| "), std::string::npos) << file;
    EXPECT_NE(file[0], '.');
  }
}

TEST(FileNameTest, CutsDoNotSplitCharactersAndBadUtf8IsReplaced) {
  std::string name;
  for (int i = 0; i < 200; ++i) name += "\xE2\x82\xAC";  // the euro sign, three bytes
  const std::string file = PortableFileName(name, ".npy");
  // "t_" + whole characters + "-" + 16 hex digits + ".npy"
  EXPECT_EQ((file.size() - 2 - 17 - 4) % 3, 0u);
  EXPECT_EQ(PortableFileName("\xED\xA0\x80", "").find('\xED'), std::string::npos);  // a surrogate
}

}  // namespace
}  // namespace tdump
