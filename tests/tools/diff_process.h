// tdump-diff as a process, on runs made with the writers: what its tests have in common.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/coordinator/run_image.h"
#include "tests/tools/scratch.h"

namespace tdump::tools {

using coordinator::test::BytesOf;
using coordinator::test::ProcessImage;
using coordinator::test::TensorImage;
using Json = nlohmann::json;

template <class T>
TensorImage Out(const std::string& path, const std::string& dtype, const std::vector<T>& values,
                std::vector<int64_t> sizes = {}) {
  if (sizes.empty()) sizes = {static_cast<int64_t>(values.size())};
  return {.path = path,
          .bytes = BytesOf(values),
          .dtype = dtype,
          .bits = 8 * static_cast<int>(sizeof(T)),
          .sizes = std::move(sizes)};
}

// Three modules of one output each, of step `step`.
inline std::vector<TensorImage> Model(float second = 2.0f) {
  return {Out<float>("first", "float32", {1, 1.5f}),
          Out<float>("second", "float32", {second, 2.5f}),
          Out<float>("third", "float32", {second, 3.5f})};
}

class DiffProcessTest : public test::ScratchTest {
 protected:
  // `step_values`: what "second" returns in each step, by rank.
  void MakeRun(const std::string& name, const std::vector<std::vector<float>>& step_values,
               uint64_t first_step = 0) {
    const auto world = static_cast<int32_t>(step_values.size());
    for (int32_t rank = 0; rank < world; ++rank) {
      ProcessImage process(env_, Path(name), {.rank = rank, .world = world});
      uint64_t step = first_step;
      for (const float value : step_values[static_cast<size_t>(rank)]) {
        process.Tensors(step, Model(value)).Map(step, step, 1);
        ++step;
      }
      process.Exit(step);
    }
  }
  void MakeOneStep(const std::string& name, const std::vector<TensorImage>& tensors) {
    ProcessImage(env_, Path(name), {}).Tensors(0, tensors).Exit(1);
  }

  test::Finished Diff(std::vector<std::string> arguments) { return Run("tdump-diff", arguments); }
  Json Report(std::vector<std::string> arguments) {
    arguments.push_back("--json");
    return Json::parse(Diff(arguments).out);
  }
  // Of the one record of two runs; its row in the report.
  Json Row(const TensorImage& a, const TensorImage& b, int expected_status) {
    std::filesystem::remove_all(Path("a"));
    std::filesystem::remove_all(Path("b"));
    MakeOneStep("a", {a});
    MakeOneStep("b", {b});
    const auto done = Diff({"a", "b", "--jsonl", Path("rows"), "--quiet"});
    EXPECT_EQ(done.status, expected_status) << done.err;
    EXPECT_EQ(done.out, "");
    return Json::parse(Text(Path("rows")));
  }
};

}  // namespace tdump::tools
