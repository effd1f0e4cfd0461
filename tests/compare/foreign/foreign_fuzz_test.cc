// Small files of every kind, cut at every byte and with bytes changed: a value or an error, never a
// crash, and no memory that a number in the file drives. (The sanitizer builds run it too.)
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <random>

#include "compare/foreign/foreign_file.h"
#include "compare/foreign/msprobe.h"
#include "tests/compare/foreign/bytes.h"

namespace tdump::compare::foreign::test {
namespace {

std::string SmallPickle() {
  const std::string floats = Storage("FloatStorage", "0", 6);
  const std::string half = Storage("BFloat16Storage", "1", 4);
  return Pickle(
      Dict({{"a", Tensor(floats, 0, {3, 2}, {1, 3})},
            {"b", "](" + Tensor(half, 1, {3}, {1}) + Tensor(half, 0, {2, 2}, {0, 1}) + "e"},
            {"p", Global("torch._utils", "_rebuild_parameter") + "(" + Tensor(floats, 2, {2}, {2}) +
                      "\x88" + Global("collections", "OrderedDict") + ")RtR"},
            {"o", Global("my", "Class") + ")\x81}b"},
            {"n", "\x8a\x01\x7f"}}));
}

std::string SmallTorch() {
  return TorchZip(SmallPickle(), {{"0", RawAll<float>({0, 1, 2, 3, 4, 5})}, {"1", "12345678"}});
}

std::string SmallNpy() {
  return Npy(NpyHeader(">f4", true, "(2, 3)"), RawAll<float>({0, 1, 2, 3, 4, 5}));
}

std::vector<std::string> SmallFiles() {
  return {SmallTorch(), SmallNpy(), Zip({{"a.npy", SmallNpy()}, {"b.npy", SmallNpy(), true}}),
          Safetensors(R"({"a":{"dtype":"F16","shape":[2,2],"data_offsets":[0,8]},)"
                      R"("b":{"dtype":"F4","shape":[4],"data_offsets":[8,10]}})",
                      "0123456789"),
          R"({"data":{"Module.a.Linear.forward.0":{"input_args":[{"type":"torch.Tensor",)"
          R"("dtype":"torch.float32","shape":[2,3],"Max":NaN,"data_name":"x.pt"}],"output":[]}}})"};
}

// Everything that a comparison asks of a file. The number of tensors that were read.
size_t ReadAll(const std::string& bytes) {
  (void)ReadProbeIndex(FromText("f", bytes));
  const auto file = ReadForeignFile(FromText("f", bytes));
  if (!file.ok()) {
    EXPECT_FALSE(file.status().message().empty());
    return 0;
  }
  for (const ForeignTensor& tensor : file->tensors) {
    if (CanonicalBytes(tensor) > 1 << 20) continue;
    (void)Payload(tensor);
  }
  return file->tensors.size();
}

TEST(ForeignFuzz, TheSmallFilesAreWhole) {
  const std::vector<std::string> files = SmallFiles();
  EXPECT_EQ(ReadAll(files[0]), 4u);
  EXPECT_EQ(ReadAll(files[1]), 1u);
  EXPECT_EQ(ReadAll(files[2]), 2u);
  EXPECT_EQ(ReadAll(files[3]), 2u);
  EXPECT_EQ(ReadProbeIndex(FromText("f", files[4]))->size(), 1u);
}

TEST(ForeignFuzz, CutAtEveryByte) {
  for (const std::string& file : SmallFiles()) {
    for (size_t bytes = 0; bytes < file.size(); ++bytes) (void)ReadAll(file.substr(0, bytes));
  }
}

TEST(ForeignFuzz, EveryByteTurned) {
  for (const std::string& file : SmallFiles()) {
    for (size_t at = 0; at < file.size(); ++at) {
      for (const unsigned char mask : {0x01, 0x80, 0xff}) {
        std::string changed = file;
        changed[at] = static_cast<char>(changed[at] ^ mask);
        (void)ReadAll(changed);
      }
    }
  }
}

// Changes that reach what is behind the container: the members are packed anew.
TEST(ForeignFuzz, ChangedPicklesAndHeadersInsideWholeContainers) {
  const unsigned seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  const auto mutate = [&random](std::string text) {
    static constexpr unsigned char kBytes[] = {0,   1,   0x7f, 0xff, '(', 't',
                                               'R', 'Q', 'e',  'u',  'h', '.'};
    for (size_t changes = 1 + random() % 4; changes > 0; --changes) {
      const size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text[at] = static_cast<char>(kBytes[random() % std::size(kBytes)]);
          break;
        case 2:
          text.erase(at, 1 + random() % 8);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 32));
      }
      if (text.empty()) text = "x";
    }
    return text;
  };
  const std::string pickle = SmallPickle(), npy = SmallNpy();
  size_t read = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  for (int round = 0; round < 20'000 && std::chrono::steady_clock::now() < end; ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << " round " << round);
    read += ReadAll(TorchZip(mutate(pickle), {{"0", RawAll<float>({0, 1, 2, 3, 4, 5})}}));
    read += ReadAll(mutate(npy));
    read += ReadAll(Zip({{"a.npy", mutate(npy), round % 2 == 0}}));
    read += ReadAll(mutate(SmallFiles()[3]));
    (void)ReadAll(mutate(SmallFiles()[4]));
  }
  EXPECT_GT(read, 0u);
}

}  // namespace
}  // namespace tdump::compare::foreign::test
