// Writing YAML: what is written reads back as the same text.
#include <gtest/gtest.h>

#include "settings/yaml_tree.h"

namespace tdump::settings {
namespace {

std::string ReadBack(const std::string& text) {
  Mistakes mistakes("c");
  const YamlPtr root = ParseYaml("k: " + YamlScalar(text) + "\n", &mistakes);
  if (root == nullptr || !root->is_map() || !root->entries[0].value->is_text())
    return "unreadable: " + YamlScalar(text) + " " + mistakes.ToStatus().message();
  return root->entries[0].value->text;
}

std::string ReadBackAsKey(const std::string& text) {
  Mistakes mistakes("c");
  const YamlPtr root = ParseYaml("{" + YamlScalar(text) + ": 1}", &mistakes);
  return root != nullptr && root->entries.size() == 1 ? root->entries[0].key : "unreadable";
}

TEST(YamlScalar, OddNames) {  // K09
  for (const std::string text : {"\\",
                                 "\"",
                                 "'",
                                 "#",
                                 "a: b",
                                 "- x",
                                 "[",
                                 "]",
                                 "{",
                                 " leading",
                                 "trailing ",
                                 "a #b",
                                 "&a",
                                 "*a",
                                 "!t",
                                 "%d",
                                 "@x",
                                 "`x",
                                 "|",
                                 ">",
                                 "?",
                                 ":",
                                 "-",
                                 ",",
                                 "a,b",
                                 "~",
                                 "null",
                                 "no",
                                 "on",
                                 "Yes",
                                 "1e3",
                                 "0x1F",
                                 "012",
                                 "=",
                                 "<<",
                                 "...",
                                 "---",
                                 "a\nb",
                                 "\t",
                                 "a\tb",
                                 "\x01\x1f\x7f",
                                 "\xc3\xa9",
                                 "\xe2\x80\xa8",
                                 "\xef\xbb\xbf",
                                 "\xf0\x9f\x98\x80",
                                 "\xc2\x85",
                                 "2024-01-01",
                                 ".inf",
                                 "layers\\.\\d+",
                                 "^(a|b)$"}) {
    EXPECT_EQ(ReadBack(text), text);
    EXPECT_EQ(ReadBackAsKey(text), text);
  }
}

TEST(YamlScalar, EveryAsciiCharacterAloneAndInside) {
  for (int c = 1; c < 128; ++c) {
    for (const std::string& text :
         {std::string(1, static_cast<char>(c)), "a" + std::string(1, static_cast<char>(c)) + "b"})
      EXPECT_EQ(ReadBack(text), text) << c;
  }
}

TEST(YamlScalar, PlainWhereThatIsSafe) {
  EXPECT_EQ(YamlScalar("encoder.layer.0"), "encoder.layer.0");
  EXPECT_EQ(YamlScalar("runs/a-b"), "runs/a-b");
  EXPECT_EQ(YamlScalar("off"), "'off'");
  EXPECT_EQ(YamlScalar(""), "''");
}

TEST(YamlScalar, WhatIsNotUtf8BecomesTheReplacementCharacter) {
  EXPECT_EQ(ReadBack("a\xff"), "a\xef\xbf\xbd");
}

}  // namespace
}  // namespace tdump::settings
