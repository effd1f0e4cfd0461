// Dumps of other tools, and a side that is none, made by hand in memory.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compare/foreign/foreign_side.h"
#include "tests/compare/foreign/bytes.h"

namespace tdump::compare::foreign::test {

// A file of torch.save with one tensor [n] for each name, its values first, first + 1, ...
inline std::string Pass(const std::vector<std::string>& names, float first = 0) {
  std::vector<std::pair<std::string, std::string>> items;
  for (size_t i = 0; i < names.size(); ++i)
    items.emplace_back(names[i],
                       Tensor(Storage("FloatStorage", "0", 8), static_cast<int32_t>(i), {2}, {1}));
  std::vector<float> values;
  for (int i = 0; i < 8; ++i) values.push_back(first + static_cast<float>(i));
  return TorchZip(Pickle(Dict(items)), {{"0", RawAll(values)}});
}
inline std::string Array(float value) { return Npy(NpyHeader("<f4", false, "(1,)"), Raw(value)); }

class ForeignSideTest : public testing::Test {
 protected:
  void Store(const std::string& path, const std::string& bytes) {
    const std::string directory = path.substr(0, path.rfind('/'));
    ASSERT_TRUE(env_->MakeDirs(directory, 0700).ok());
    ASSERT_TRUE(WriteFileAtomically(env_.get(), path, bytes, 0600).ok());
  }
  std::unique_ptr<ForeignSide> Side(const std::string& path) {
    auto side = ForeignSide::Open(env_.get(), path);
    EXPECT_TRUE(side.ok()) << side.status().message();
    return side.ok() ? std::move(*side) : nullptr;
  }
  std::string Why(const std::string& path) {
    const auto side = ForeignSide::Open(env_.get(), path);
    return side.ok() ? "" : side.status().message();
  }
  // "step.rank.process" of each pass.
  static std::vector<std::string> Passes(const RunSide& side) {
    std::vector<std::string> texts;
    for (const PassRef& pass : side.passes())
      texts.push_back(std::to_string(pass.step) + "." + std::to_string(pass.rank) + "." +
                      std::to_string(pass.process));
    return texts;
  }
  static std::vector<std::string> Keys(const RunSide& side, size_t pass = 0) {
    std::vector<std::string> keys;
    auto step = side.Open(side.passes().at(pass));
    EXPECT_TRUE(step.ok()) << step.status().message();
    if (!step.ok()) return keys;
    EXPECT_TRUE((*step)->damage().empty());
    (void)(*step)->ForEachTensor([&](const io::Record& record) {
      keys.push_back(ToText(record.key));
      return true;
    });
    return keys;
  }

  std::unique_ptr<Env> env_ = NewMemoryEnv();
};

// A side with one step of the given keys, of rank 1 others where it has some.
class FixedSide : public RunSide {
 public:
  explicit FixedSide(const std::vector<std::string>& keys,
                     const std::vector<std::string>& keys_of_1 = {})
      : keys_(keys), keys_of_1_(keys_of_1) {
    for (const int rank : {0, 1}) {
      PassRef pass{.rank = rank, .step = 4};
      passes_.push_back(pass);
    }
  }
  SideInfo Describe() const override { return {.label = "fixed"}; }
  const std::string& label() const override { return label_; }
  int32_t world() const override { return 2; }
  const std::vector<PassRef>& passes() const override { return passes_; }
  Result<std::unique_ptr<StepView>> Open(const PassRef& pass) const override {
    DumpContents contents;
    for (const std::string& text : pass.rank == 1 && !keys_of_1_.empty() ? keys_of_1_ : keys_) {
      DumpTensor tensor;
      tensor.name.key = *ParseKey(text);
      contents.tensors.push_back(tensor);
    }
    return std::unique_ptr<StepView>(std::make_unique<ForeignStep>(std::move(contents)));
  }
  std::vector<io::Damage> DamageOf(int32_t) const override { return {}; }
  std::string WhyMissing(int32_t) const override { return ""; }

 private:
  const std::string label_ = "fixed";
  const std::vector<std::string> keys_, keys_of_1_;
  std::vector<PassRef> passes_;
};

}  // namespace tdump::compare::foreign::test
