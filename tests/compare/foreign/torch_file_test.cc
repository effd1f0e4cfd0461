// Files of torch.save: tensors by name, and nothing in them is ever run.
#include "compare/foreign/torch_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "compare/foreign/foreign_file.h"
#include "compare/foreign/pickle_machine.h"
#include "compare/foreign/pickle_walk.h"
#include "tests/compare/foreign/bytes.h"

namespace tdump::compare::foreign::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kFloats = RawAll<float>({0, 1, 2, 3, 4, 5});

Result<ForeignFile> Read(const std::string& value, const std::string& floats = kFloats) {
  return ReadForeignFile(FromText("a.pt", TorchZip(Pickle(value), {{"0", floats}})));
}
std::string Why(const std::string& value) {
  const auto file = Read(value);
  return file.ok() ? "" : file.status().message();
}
std::string Floats(int32_t units = 6) { return Storage("FloatStorage", "0", units); }

TEST(TorchFile, ADictionaryOfTensors) {
  const auto file = Read(
      Dict({{"a", Tensor(Floats(), 0, {2, 3}, {3, 1})}, {"b", Tensor(Floats(), 2, {4}, {1})}}));
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_EQ(file->tensors.size(), 2u);
  EXPECT_THAT(file->tensors[0].place, ElementsAre("a"));
  EXPECT_THAT(file->tensors[0].sizes, ElementsAre(2, 3));
  EXPECT_EQ(file->tensors[0].dtype.view(), "float32");
  EXPECT_THAT(Values<float>(file->tensors[0]), ElementsAre(0, 1, 2, 3, 4, 5));
  // Another view of the same storage.
  EXPECT_THAT(Values<float>(file->tensors[1]), ElementsAre(2, 3, 4, 5));
  EXPECT_TRUE(file->skipped.empty());
}

TEST(TorchFile, ViewsAreReadInRowMajorOrder) {
  const auto transposed = Read(Tensor(Floats(), 0, {3, 2}, {1, 3}));
  ASSERT_TRUE(transposed.ok()) << transposed.status().message();
  EXPECT_TRUE(transposed->tensors[0].place.empty());
  EXPECT_THAT(Values<float>(transposed->tensors[0]), ElementsAre(0, 3, 1, 4, 2, 5));
  const auto every_other = Read(Tensor(Floats(), 1, {3}, {2}));
  ASSERT_TRUE(every_other.ok());
  EXPECT_THAT(Values<float>(every_other->tensors[0]), ElementsAre(1, 3, 5));
  // Expanded: stored once.
  const auto expanded = Read(Tensor(Floats(), 4, {1000000, 2}, {0, 1}));
  ASSERT_TRUE(expanded.ok());
  EXPECT_THAT(Values<float>(expanded->tensors[0]), ElementsAre(4, 5));
  const auto scalar = Read(Tensor(Floats(), 3, {}, {}));
  ASSERT_TRUE(scalar.ok());
  EXPECT_THAT(Values<float>(scalar->tensors[0]), ElementsAre(3));
  const auto empty = Read(Tensor(Floats(), 0, {0, 7}, {7, 1}));
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ(CanonicalBytes(empty->tensors[0]), 0u);
}

TEST(TorchFile, ListsAndDictionariesInsideGiveThePlace) {
  const std::string tensor = Tensor(Floats(), 0, {1}, {1});
  const auto file = Read(Dict({{"m", "](" + tensor + Dict({{"k", tensor}}) + "e"}}));
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_EQ(file->tensors.size(), 2u);
  EXPECT_THAT(file->tensors[0].place, ElementsAre("m", "0"));
  EXPECT_THAT(file->tensors[1].place, ElementsAre("m", "1", "k"));
}

TEST(TorchFile, AParameterIsItsTensor) {
  const std::string parameter = Global("torch._utils", "_rebuild_parameter") + "(" +
                                Tensor(Floats(), 0, {6}, {1}) + "\x88" +
                                Global("collections", "OrderedDict") + ")RtR";
  const auto file = Read(Dict({{"w", parameter}}));
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_TRUE(file->tensors[0].parameter && file->tensors[0].requires_grad);
  EXPECT_EQ(Payload(file->tensors[0]), kFloats);
}

TEST(TorchFile, DTypesWithoutAStorageClass) {
  const std::string v3 = Global("torch._utils", "_rebuild_tensor_v3") + "(" +
                         Storage("UntypedStorage", "0", 24, "torch.storage") + Int(0) + Ints({24}) +
                         Ints({1}) + "\x89" + Global("collections", "OrderedDict") + ")R" +
                         Global("torch", "float8_e4m3fn") + "tR";
  const auto file = Read(v3);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->tensors[0].dtype.view(), "float8_e4m3fn");
  EXPECT_EQ(Payload(file->tensors[0]), kFloats);
}

TEST(TorchFile, WhatWouldRunIsNamedAndNotRun) {
  const std::string evil = Global("posix", "system") + "(" + Text("touch /tmp/owned") + "tR";
  EXPECT_THAT(Why(evil), HasSubstr("posix.system"));
  const auto file = Read(Dict({{"bad", evil}, {"good", Tensor(Floats(), 0, {6}, {1})}}));
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_EQ(file->tensors.size(), 1u);
  EXPECT_THAT(file->tensors[0].place, ElementsAre("good"));
  ASSERT_EQ(file->skipped.size(), 1u);
  EXPECT_THAT(file->skipped[0], testing::AllOf(HasSubstr("'bad'"), HasSubstr("posix.system"),
                                               HasSubstr("offset"), HasSubstr("never run")));
}

TEST(TorchFile, AnObjectStaysOpaqueWhateverIsDoneToIt) {
  // An instance with a state, items and attributes; called, too.
  const std::string object = Global("my.module", "Config") + ")\x81}(" + Text("x") + Int(1) + "ub";
  const std::string called = object + ")R";
  const auto file =
      Read(Dict({{"o", object}, {"c", called}, {"t", Tensor(Floats(), 0, {6}, {1})}}));
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->tensors.size(), 1u);
  EXPECT_EQ(file->skipped.size(), 2u);
  EXPECT_THAT(file->skipped[0], HasSubstr("my.module.Config"));
}

TEST(TorchFile, WhatIsUnderAKeyThatIsNoNameIsListed) {
  const std::string tensor = Tensor(Floats(), 0, {6}, {1});
  const auto file = Read("}(" + Text("t") + tensor + "N" + tensor + Int(1) + Int(2) + "\x86" +
                         tensor + "\x88" + Int(5) + "u");
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->tensors.size(), 1u);
  ASSERT_EQ(file->skipped.size(), 2u);  // None, a tuple; under True is a number
  EXPECT_THAT(file->skipped[0], HasSubstr("neither a text nor a whole number (offset"));
  EXPECT_THAT(Why("}(N" + tensor + "u"), HasSubstr("no tensor that can be read"));
}

TEST(TorchFile, ViewsOutsideTheirStorageAreRefused) {
  EXPECT_THAT(Why(Tensor(Floats(), 0, {7}, {1})), HasSubstr("outside the storage"));
  EXPECT_THAT(Why(Tensor(Floats(), 6, {1}, {1})), HasSubstr("outside the storage"));
  EXPECT_THAT(Why(Tensor(Floats(), 0, {2, 2}, {5, 1})), HasSubstr("outside the storage"));
  EXPECT_THAT(Why(Tensor(Floats(), 0, {2}, {-1})), HasSubstr("negative stride"));
  EXPECT_THAT(Why(Tensor(Floats(), 0, {-2}, {1})), HasSubstr("negative size"));
  EXPECT_THAT(Why(Tensor(Floats(), 0, {2}, {1, 1})), HasSubstr("as many strides"));
  EXPECT_THAT(Why(Tensor(Floats(), -1, {2}, {1})), HasSubstr("_rebuild_tensor_v2"));
  const std::vector<int32_t> many(8, 0x7fffffff);
  EXPECT_THAT(Why(Tensor(Floats(), 0, many, std::vector<int32_t>(8, 0))), HasSubstr("counted"));
  // Windows that overlap are views; 400 million of 40 thousand elements are none.
  const auto windows = [](int32_t rows) {
    const auto file =
        Read(Tensor(Floats(40'000), 0, {rows, 20'000}, {1, 1}), std::string(160'000, '\0'));
    return file.ok() ? "" : file.status().message();
  };
  EXPECT_EQ(windows(100), "");
  EXPECT_THAT(windows(20'000), HasSubstr("more than 4096 times"));
  EXPECT_THAT(Why(Tensor(Storage("FloatStorage", "9", 6), 0, {6}, {1})),
              HasSubstr("storage '9' is missing"));
}

TEST(TorchFile, AKeyTwiceIsRefused) {
  const std::string tensor = Tensor(Floats(), 0, {1}, {1});
  EXPECT_THAT(Why(Dict({{"a", tensor}, {"a", tensor}})), HasSubstr("'a' twice"));
  EXPECT_THAT(Why(Dict({{std::string(5000, 'a'), tensor}})),
              HasSubstr("a key of 5000 bytes, more than 4096"));
}

// A pickle read without a file around it.
std::string PickleError(const std::string& pickle) {
  const Bytes bytes = FromText("p", pickle);
  ByteReader reader(bytes, 0, bytes->size());
  PickleHeap heap;
  const auto root = PickleMachine(&reader, &heap).Run();
  if (!root.ok()) return root.status().message();
  const auto contents = WalkPickle(heap, *root, "p");
  return contents.ok() ? "" : contents.status().message();
}

TEST(PickleMachine, MalformedPicklesAreErrorsWithTheOffset) {
  EXPECT_THAT(PickleError(""), HasSubstr("offset 0"));
  EXPECT_THAT(PickleError("."), HasSubstr("the stack is empty"));
  EXPECT_THAT(PickleError("N0."), HasSubstr("the stack is empty"));
  EXPECT_THAT(PickleError("t."), HasSubstr("no mark"));
  EXPECT_THAT(PickleError("(\x85."), HasSubstr("offset 1"));
  EXPECT_THAT(PickleError("h\x05."), HasSubstr("nothing is remembered under 5"));
  EXPECT_THAT(PickleError("NNR."), HasSubstr("no function"));
  EXPECT_THAT(PickleError("Na."), HasSubstr("the stack is empty"));
  EXPECT_THAT(PickleError("NNa."), HasSubstr("no container"));
  EXPECT_THAT(PickleError("}(Nu."), HasSubstr("a key without a value"));
  EXPECT_THAT(PickleError("X\xff\xff\xff\x7f"
                          "abc."),
              HasSubstr("4 are left"));
  EXPECT_THAT(PickleError("\x8b\xff\xff\xff\x7f."), HasSubstr("an integer of 2147483647 bytes"));
  EXPECT_THAT(PickleError("I12x\n."), HasSubstr("'12x' is not a number"));
  EXPECT_THAT(PickleError("~."), HasSubstr("0x7e is no opcode"));
}

TEST(PickleMachine, APickleThatHoldsItselfEnds) {
  // l = [l]
  EXPECT_THAT(PickleError("]q\x01h\x01"
                          "a."),
              HasSubstr("nested deeper"));
}

// Each of the calls would copy four megabytes.
TEST(PickleMachine, CallsWithArgumentsThatNoneTakesCopyNothing) {
  const std::string arguments = "(" + std::string(1'000'000, 'N') + "tq\x01" + "0";
  std::string calls = Global("builtins", "list") + "q\x02" + "0";
  for (int i = 0; i < 100'000; ++i) calls += "h\x02h\x01R0";
  const auto begin = std::chrono::steady_clock::now();
  const auto file = Read(arguments + calls + Tensor(Floats(), 0, {6}, {1}));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->tensors.size(), 1u);
}

TEST(PickleMachine, RepeatingWhatIsRememberedTakesNoMemory) {
  // Each list holds the one before twice: 2^60 values, were they copied.
  std::string pickle = "]q" + std::string(1, '\0');
  for (int i = 0; i < 60; ++i) {
    const char before = static_cast<char>(i), after = static_cast<char>(i + 1);
    pickle += std::string("](h") + before + "h" + before + "eq" + after;
  }
  EXPECT_THAT(PickleError(pickle + "."), HasSubstr("more values than are read"));
  // A tensor of many dimensions, made again and again from what is remembered.
  std::string tensors = "(" + Storage("FloatStorage", "0", 6) + Int(0);
  tensors += Ints(std::vector<int32_t>(64, 1)) + Ints(std::vector<int32_t>(64, 1)) + "tq\x01";
  tensors = Global("torch._utils", "_rebuild_tensor") + "q" + std::string(1, '\0') + tensors;
  for (int i = 0; i < 400'000; ++i) tensors += std::string("h\0h\x01R", 5);
  EXPECT_THAT(PickleError(tensors + "."), HasSubstr("need more than 256 MiB"));
}

TEST(TorchFile, TheFormBeforeTheZip) {
  const std::string magic =
      "\x80\x02\x8a\x0al\xfc\x9c"
      "F\xf9 j\xa8P\x19.";
  const std::string info = Pickle("}(" + Text("little_endian") + "\x88u");
  const std::string start = magic + Pickle("M\xe9\x03") + info;
  // Here an id ends with the metadata of a view: none.
  std::string storage = Floats();
  storage.insert(storage.size() - 2, "N");
  const std::string body = Pickle(Dict({{"a", Tensor(storage, 1, {2, 2}, {1, 2})}}));
  const std::string keys = Pickle("](" + Text("0") + "e");
  const std::string file = start + body + keys + Raw<uint64_t>(6) + kFloats;
  const auto read = ReadForeignFile(FromText("a.pt", file));
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_THAT(Values<float>(read->tensors[0]), ElementsAre(1, 3, 2, 4));
  for (size_t bytes = 0; bytes < file.size(); ++bytes)
    EXPECT_FALSE(ReadForeignFile(FromText("a.pt", file.substr(0, bytes))).ok()) << bytes;
}

TEST(TorchFile, BigEndianStorages) {
  std::string swapped = kFloats;
  for (size_t at = 0; at < swapped.size(); at += 4)
    std::reverse(swapped.begin() + static_cast<ptrdiff_t>(at),
                 swapped.begin() + static_cast<ptrdiff_t>(at + 4));
  const std::string pickle = Pickle(Tensor(Floats(), 0, {6}, {1}));
  const auto file = ReadForeignFile(FromText(
      "a.pt", Zip({{"x/data.pkl", pickle}, {"x/byteorder", "big"}, {"x/data/0", swapped}})));
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_THAT(Values<float>(file->tensors[0]), ElementsAre(0, 1, 2, 3, 4, 5));
}

}  // namespace
}  // namespace tdump::compare::foreign::test
