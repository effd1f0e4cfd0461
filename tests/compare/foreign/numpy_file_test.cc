// .npy and .npz, made byte by byte as the NumPy Enhancement Proposal 1 describes them.
#include "compare/foreign/numpy_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compare/foreign/foreign_file.h"
#include "tests/compare/foreign/bytes.h"

namespace tdump::compare::foreign::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kShorts = RawAll<int16_t>({0, 1, 2, 3, 4, 5});

std::string Why(const std::string& header, const std::string& data = kShorts) {
  const auto file = ReadForeignFile(FromText("a.npy", Npy(header, data)));
  return file.ok() ? "" : file.status().message();
}

TEST(NumpyFile, CAndFortranOrder) {
  const auto c = ReadNpy(FromText("a.npy", Npy(NpyHeader("<i2", false, "(2, 3)"), kShorts)));
  ASSERT_TRUE(c.ok()) << c.status().message();
  EXPECT_EQ(c->dtype.view(), "int16");
  EXPECT_THAT(c->sizes, ElementsAre(2, 3));
  EXPECT_THAT(Values<int16_t>(*c), ElementsAre(0, 1, 2, 3, 4, 5));
  const auto fortran = ReadNpy(FromText("a.npy", Npy(NpyHeader("<i2", true, "(2, 3)"), kShorts)));
  ASSERT_TRUE(fortran.ok());
  EXPECT_THAT(Values<int16_t>(*fortran), ElementsAre(0, 2, 4, 1, 3, 5));
}

TEST(NumpyFile, AllVersionsAndShapes) {
  for (const int version : {1, 2, 3}) {
    const auto file =
        ReadNpy(FromText("a.npy", Npy(NpyHeader("<i2", false, "(6,)"), kShorts, version)));
    ASSERT_TRUE(file.ok()) << version << file.status().message();
    EXPECT_THAT(file->sizes, ElementsAre(6));
  }
  const auto scalar = ReadNpy(FromText("a.npy", Npy(NpyHeader("<f8", false, "()"), Raw(2.5))));
  ASSERT_TRUE(scalar.ok());
  EXPECT_THAT(Values<double>(*scalar), ElementsAre(2.5));
  EXPECT_EQ(Why(NpyHeader("<i2", false, "(6L,)")), "");
  EXPECT_EQ(Why(NpyHeader("<f4", true, "(0, 5)"), ""), "");
  EXPECT_EQ(Why("{\"shape\":(6,),\"fortran_order\":False,\"descr\":\"<i2\"}"), "");
}

TEST(NumpyFile, BigEndianNumbers) {
  const std::string data("\x01\x02\x03\x04", 4);
  const auto file = ReadNpy(FromText("a.npy", Npy(NpyHeader(">i2", false, "(2,)"), data)));
  ASSERT_TRUE(file.ok());
  EXPECT_THAT(Values<int16_t>(*file), ElementsAre(0x0102, 0x0304));
  // Both parts of a complex number, each by itself.
  const std::string complex("\x3f\x80\0\0\x40\0\0\0", 8);
  const auto parts = ReadNpy(FromText("a.npy", Npy(NpyHeader(">c8", false, "(1,)"), complex)));
  ASSERT_TRUE(parts.ok());
  EXPECT_THAT(Values<float>(*parts), ElementsAre(1, 2));
}

TEST(NumpyFile, DTypesThatAreNotNumbersAreRefusedByName) {
  EXPECT_THAT(Why("{'descr': [('a', '<f4'), ('b', '<i4')], 'fortran_order': False, 'shape': (1,)}"),
              HasSubstr("structured"));
  EXPECT_THAT(Why(NpyHeader("|O", false, "(6,)")), HasSubstr("|O"));
  EXPECT_THAT(Why(NpyHeader("<U3", false, "(1,)")), HasSubstr("<U3"));
  EXPECT_THAT(Why(NpyHeader("<V2", false, "(6,)")), HasSubstr("<V2"));
  EXPECT_THAT(Why(NpyHeader("<M8[ns]", false, "(1,)")), HasSubstr("<M8[ns]"));
}

TEST(NumpyFile, WhatCannotBeTrueIsRefused) {
  EXPECT_THAT(Why(NpyHeader("<i2", false, "(7,)")), HasSubstr("outside the storage"));
  EXPECT_THAT(Why(NpyHeader("<i2", false, "(5,)")), HasSubstr("12 bytes of data"));
  EXPECT_THAT(Why(NpyHeader("<i2", false, "(-6,)")), HasSubstr("not what NumPy writes"));
  EXPECT_THAT(Why(NpyHeader("<i2", false, "(99999999999999999999,)")), HasSubstr("NumPy writes"));
  EXPECT_THAT(Why(NpyHeader("<i2", false, "(4294967296, 4294967296, 4294967296)")),
              HasSubstr("counted"));
  EXPECT_THAT(Why("{'descr': '<i2', 'shape': (6,)}"), HasSubstr("not what NumPy writes"));
  EXPECT_THAT(Why("__import__('os').system('true')"), HasSubstr("not what NumPy writes"));
  EXPECT_THAT(Why("{'descr': '<i2', 'fortran_order': False, 'shape': (2,), 'shape': (3,)}"),
              HasSubstr("offset 10: the header is not what NumPy writes"));
  // The header's length: longer than the file, and longer than a header may be.
  std::string file = Npy(NpyHeader("<i2", false, "(6,)"), kShorts, 2);
  file.replace(8, 4, Raw<uint32_t>(0xffffffff));
  const auto read = ReadForeignFile(FromText("a.npy", file));
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(read.status().message(), HasSubstr("4294967295 bytes are needed"));
  EXPECT_THAT(ReadForeignFile(FromText("a.npy", Npy("{}", "", 4))).status().message(),
              HasSubstr("version 4"));
}

TEST(NumpyFile, NpzStoredAndDeflated) {
  const std::string array = Npy(NpyHeader("<i2", true, "(2, 3)"), kShorts);
  const auto file = ReadForeignFile(
      FromText("a.npz", Zip({{"x.npy", array},
                             {"d/y.npy", array, true},
                             {"../../z.npy", array},
                             {"note.txt", "hello"},
                             {"o.npy", Npy(NpyHeader("|O", false, "(1,)"), "N.")}})));
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_EQ(file->tensors.size(), 3u);
  // A name is a name: it leads nowhere.
  EXPECT_THAT(file->tensors[2].place, ElementsAre("../../z"));
  for (const ForeignTensor& tensor : file->tensors)
    EXPECT_THAT(Values<int16_t>(tensor), ElementsAre(0, 2, 4, 1, 3, 5));
  EXPECT_EQ(file->skipped.size(), 2u);
  EXPECT_THAT(file->skipped[1], HasSubstr("|O"));
}

TEST(NumpyFile, TheNamesOfDTypesThatAnExportHasAreNoTensor) {
  const std::string names = Npy(NpyHeader("<U2", false, "()"), std::string("{\0\0\0}\0\0\0", 8));
  const std::string texts = Npy(NpyHeader("<U1", false, "(1,)"), std::string("x\0\0\0", 4));
  const auto skipped = [](const std::vector<ZipEntry>& entries) {
    const auto file = ReadForeignFile(FromText("a.npz", Zip(entries)));
    EXPECT_TRUE(file.ok()) << file.status().message();
    return file.ok() ? file->skipped.size() : 99;
  };
  EXPECT_EQ(skipped({{"dtypes.npy", names}}), 0u);
  EXPECT_EQ(skipped({{"dtypes.npy", texts}, {"names.npy", names}}), 2u);
}

// As NumPy writes a text: four bytes a character.
std::string TextArray(const std::string& text) {
  std::string data;
  for (const char c : text) data += Raw(static_cast<uint32_t>(c));
  return Npy(NpyHeader("<U" + std::to_string(text.size()), false, "()"), data);
}

TEST(NumpyFile, DTypesThatNumPyDoesNotHaveAreThoseThatAnExportNames) {
  const std::string data = RawAll<uint16_t>({0x3f80, 0x4000});  // 1, 2 in bfloat16
  const auto array = [&](const std::string& descr) {
    return Npy(NpyHeader(descr, false, "(2,)"), data);
  };
  const std::string names =
      R"({"fc@output#": "bfloat16", "raw": "bfloat16", "mask": "uint16", "wide": "float32", )"
      R"("new": "float6", "\u00e4": "float8_e5m2", "q": "qint8"})";
  const auto file = ReadForeignFile(
      FromText("a.npz", Zip({{"fc@output#.npy", array("<u2")},
                             {"raw.npy", array("|V2")},
                             {"mask.npy", array("<u2")},
                             {"wide.npy", array("<u2")},
                             {"new.npy", array("<u2")},
                             {"\u00e4.npy", Npy(NpyHeader("|u1", false, "(4,)"), data)},
                             {"else.npy", array("<u2")},
                             {"q.npy", Npy(NpyHeader("|u1", false, "(4,)"), data)},
                             {"dtypes.npy", TextArray(names), true}})));
  ASSERT_TRUE(file.ok()) << file.status().message();
  std::vector<std::string> dtypes;
  for (const ForeignTensor& tensor : file->tensors) dtypes.emplace_back(tensor.dtype.view());
  EXPECT_THAT(dtypes, ElementsAre("bfloat16", "bfloat16", "uint16", "uint16", "uint16",
                                  "float8_e5m2", "uint16", "qint8"));
  EXPECT_THAT(Values<uint16_t>(file->tensors[1]), ElementsAre(0x3f80, 0x4000));
  EXPECT_THAT(file->skipped, testing::IsEmpty());
}

TEST(NumpyFile, DamagedNamesOfDTypesAreDamage) {
  const auto why = [](const std::string& text) {
    const auto file = ReadForeignFile(FromText("a.npz", Zip({{"dtypes.npy", TextArray(text)}})));
    return file.ok() ? "" : file.status().message();
  };
  EXPECT_EQ(why("{}"), "");
  EXPECT_THAT(why("{\"x\": 3}"), HasSubstr("offset 6: expected '\"'"));
  EXPECT_THAT(why("{} x"), HasSubstr("more text after the end"));
  EXPECT_THAT(why(std::string("{\0}", 3)), HasSubstr("expected JSON in ASCII"));
}

// Whoever else has a text of that name means something else by it.
TEST(NumpyFile, ATextThatNamesNoDTypesIsSkipped) {
  for (const char* text : {"float32,float32", "[]", ""}) {
    const auto file = ReadForeignFile(
        FromText("a.npz", Zip({{"dtypes.npy", TextArray(text)},
                               {"x.npy", Npy(NpyHeader("|u1", false, "(2,)"), "ab")}})));
    ASSERT_TRUE(file.ok()) << text << ": " << file.status().message();
    EXPECT_EQ(file->tensors.size(), 1u);
    EXPECT_EQ(file->skipped.size(), 1u);
  }
}

}  // namespace
}  // namespace tdump::compare::foreign::test
