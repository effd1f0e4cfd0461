#include "tools/text_export.h"

#include <gmock/gmock.h>

#include <cstring>
#include <limits>
#include <set>

#include "coordinator/merge.h"
#include "tests/coordinator/run_image.h"
#include "tests/tools/scratch.h"

namespace tdump::tools {
namespace {

using coordinator::test::BytesOf;
using coordinator::test::ProcessImage;
using coordinator::test::TensorImage;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class TextExportTest : public test::ScratchTest {
 protected:
  void Write(const std::vector<TensorImage>& tensors) {
    ProcessImage process(env_, Path("run"), {});
    process.Tensors(0, tensors).Exit(1);
    run_ = std::move(*LoadRun(Path("run")));
  }
  Status Export(const std::string& path) {
    TextExport out(path);
    TDUMP_RETURN_IF_ERROR(out.Open());
    Status status;
    ForEachRecord(
        run_, {},
        [&](const OpenPass& pass, const io::Record& record) {
          status = out.Add(pass, record);
          return status.ok();
        },
        [](const std::string& text) { ADD_FAILURE() << text; });
    TDUMP_RETURN_IF_ERROR(std::move(status));
    return out.Close();
  }
  std::set<std::string> Files(const std::string& directory) {
    const auto names = env_->List(directory);
    EXPECT_TRUE(names.ok());
    return {names->begin(), names->end()};
  }

  LoadedRun run_;
};

TEST_F(TextExportTest, EveryFloatReadsBackAsTheSameBits) {
  const std::vector<float> values = {0.1f,
                                     -0.0f,
                                     1e-45f,
                                     3.4028235e38f,
                                     std::numeric_limits<float>::infinity(),
                                     16777217.0f,
                                     0.333333343f,
                                     -1.17549435e-38f};
  Write({{.bytes = BytesOf(values), .dtype = "float32", .bits = 32, .sizes = {2, 4}}});
  ASSERT_TRUE(Export(Path("x.txt")).ok());
  std::istringstream text(Text(Path("x.txt")));
  std::string line;
  std::getline(text, line);
  EXPECT_EQ(line, "# tdump text 1");
  std::getline(text, line);
  EXPECT_EQ(line, "# key \"a@output#\"");
  std::getline(text, line);
  EXPECT_THAT(line, StartsWith("# step 0, rank 0, dtype float32, shape [2, 4], kept "
                               "meta+hash+payload, hash "));
  for (int row = 0; row < 2; ++row) {
    ASSERT_TRUE(std::getline(text, line));
    std::istringstream words(line);
    for (int column = 0; column < 4; ++column) {
      std::string word;
      words >> word;
      const float value = std::strtof(word.c_str(), nullptr);
      EXPECT_EQ(std::memcmp(&value, &values[row * 4 + column], 4), 0) << word;
    }
  }
  EXPECT_FALSE(std::getline(text, line));
}

// One file in the directory each, whatever the name; the name is in the file and in names.tsv.
TEST_F(TextExportTest, NamesOfTensorsMakeLegalDistinctFiles) {
  const std::string x254(254, 'x');
  std::vector<std::string> names = {"a/b:0",
                                    "../x",
                                    "/etc/y",
                                    "a\\b",
                                    "",
                                    ".",
                                    "x\n",
                                    "\xE9\xFF",
                                    "aux",
                                    "con",
                                    "nul.bin",
                                    "com1",
                                    "x.",
                                    "x ",
                                    "A",
                                    "a",
                                    "t_a",
                                    x254 + "xx" + "1",
                                    x254 + "xx" + "2"};
  std::string wide;
  for (int i = 0; i < 200; ++i) wide += "\xE4\xBD\xA0";
  names.push_back(wide);
  std::vector<TensorImage> tensors;
  for (const std::string& name : names) {
    TensorImage tensor;
    tensor.path = name;
    tensors.push_back(tensor);
  }
  Write(tensors);
  ASSERT_TRUE(Export(Path("deep/out/")).ok());
  const std::set<std::string> files = Files(Path("deep/out"));
  EXPECT_EQ(files.size(), names.size() + 1);
  std::set<std::string> folded;
  for (const std::string& file : files) {
    EXPECT_LE(file.size(), 255u);
    EXPECT_EQ(file.find_first_of("/\\:*?\"<>|\n "), std::string::npos) << file;
    std::string lower;
    for (const char c : file) lower += static_cast<char>(std::tolower(c));
    folded.insert(lower);
  }
  EXPECT_EQ(folded.size(), files.size());  // also where case is ignored
  const std::string list = Text(Path("deep/out/names.tsv"));
  EXPECT_EQ(std::count(list.begin(), list.end(), '\n'), static_cast<long>(names.size()) + 1);
  EXPECT_THAT(list, HasSubstr("\t0\t0\t\"a%2Fb%3A0@output#\""));
  EXPECT_THAT(list, HasSubstr("\"x%0A@output#\""));
  EXPECT_EQ(Files(path_), (std::set<std::string>{"deep", "run"}));
}

TEST_F(TextExportTest, WhatAKilledExportLeftGoesWithTheNext) {
  Write({{.path = "a"}});
  ASSERT_TRUE(env_->MakeDirs(Path("out"), 0700).ok());
  for (const char* name : {"x.txt.tdump-4711.part", "out/step0_rank0_a_r0p0.txt.tdump-4711.part",
                           "out/step9_rank0_b_r7p0.txt.tdump-4711.part", "out/steps.txt.3.part"})
    ASSERT_TRUE(WriteFileAtomically(env_, Path(name), "half", 0600).ok());
  ASSERT_TRUE(Export(Path("x.txt")).ok());
  ASSERT_TRUE(Export(Path("out/")).ok());
  EXPECT_EQ(Files(path_), (std::set<std::string>{"out", "run", "x.txt"}));
  const std::set<std::string> files = Files(Path("out"));
  EXPECT_EQ(files.size(), 3u);
  EXPECT_EQ(files.count("steps.txt.3.part") + files.count("names.tsv"), 2u);
}

TEST_F(TextExportTest, AFileThatCannotBeMadeIsToldAndLeavesNothing) {
  Write({{}});
  const Status status = Export(Path("nowhere/x.txt"));
  EXPECT_THAT(status.message(), HasSubstr(Path("nowhere/x.txt")));
  EXPECT_THAT(status.message(), HasSubstr("ENOENT"));
  EXPECT_EQ(Files(path_), (std::set<std::string>{"run"}));
}

}  // namespace
}  // namespace tdump::tools
