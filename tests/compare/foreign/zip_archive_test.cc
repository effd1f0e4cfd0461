// ZIP files: what is taken, and what is refused before anything is allocated for it.
#include "compare/foreign/zip_archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/compare/foreign/bytes.h"

namespace tdump::compare::foreign::test {
namespace {

using testing::HasSubstr;

std::string Why(const std::string& file) {
  const auto archive = ZipArchive::Open(FromText("a.zip", file));
  return archive.ok() ? "" : archive.status().message();
}

std::string ReadMember(const ZipArchive& archive, const std::string& name) {
  const ZipMember* member = archive.Find(name);
  if (member == nullptr) return "no such member";
  const auto bytes = archive.OpenMember(*member);
  if (!bytes.ok()) return bytes.status().message();
  std::string text((*bytes)->size(), '\0');
  const Status status = (*bytes)->ReadAt(0, std::as_writable_bytes(std::span(text)));
  return status.ok() ? text : status.message();
}

// A copy with `bytes` at the last place where `pattern` stands, plus `offset`.
std::string Patched(std::string file, std::string_view pattern, size_t offset,
                    const std::string& bytes) {
  const size_t at = file.rfind(pattern);
  EXPECT_NE(at, std::string::npos);
  return file.replace(at + offset, bytes.size(), bytes);
}

TEST(ZipArchive, StoredAndDeflatedMembersAreRead) {
  const std::string zeros(100'000, 'z');
  const auto archive =
      ZipArchive::Open(FromText("a.zip", Zip({{"a", "hello"}, {"b", zeros, true}})));
  ASSERT_TRUE(archive.ok()) << archive.status().message();
  EXPECT_EQ(ReadMember(**archive, "a"), "hello");
  EXPECT_EQ(ReadMember(**archive, "b"), zeros);
  EXPECT_EQ((*archive)->Find("c"), nullptr);
}

TEST(ZipArchive, AnEmptyArchiveHasNoMembers) {
  const auto archive = ZipArchive::Open(FromText("a.zip", Zip({})));
  ASSERT_TRUE(archive.ok());
  EXPECT_TRUE((*archive)->members().empty());
}

TEST(ZipArchive, ACommentBehindTheEndIsPassedOver) {
  std::string file = Zip({{"a", "hello"}});
  file.replace(file.size() - 2, 2, Raw<uint16_t>(3));
  const auto archive = ZipArchive::Open(FromText("a.zip", file + "end"));
  ASSERT_TRUE(archive.ok()) << archive.status().message();
  EXPECT_EQ(ReadMember(**archive, "a"), "hello");
}

TEST(ZipArchive, AChangedByteIsFoundByTheChecksum) {
  std::string file = Zip({{"a", "hello"}});
  file[file.find("hello")] = 'j';
  const auto archive = ZipArchive::Open(FromText("a.zip", file));
  ASSERT_TRUE(archive.ok());
  EXPECT_THAT(ReadMember(**archive, "a"), HasSubstr("does not match its checksum"));
}

TEST(ZipArchive, ACutFileIsRefusedAtEveryByte) {
  const std::string file = Zip({{"a", "hello"}, {"b", std::string(50, 'b'), true}});
  for (size_t bytes = 0; bytes < file.size(); ++bytes)
    EXPECT_NE(Why(file.substr(0, bytes)), "") << bytes;
}

TEST(ZipArchive, WhatCannotBeTrueIsRefused) {
  const std::string one = Zip({{"aa", "hello"}});
  EXPECT_THAT(Why(Zip({{"a", "x"}, {"a", "y"}})), HasSubstr("two members are named 'a'"));
  // More members than the directory has room for.
  EXPECT_THAT(Why(Patched(one, "PK\x05\x06", 10, Raw<uint16_t>(500))), HasSubstr("do not fit"));
  EXPECT_THAT(Why(Patched(one, "PK\x05\x06", 16, Raw<uint32_t>(5'000'000))),
              HasSubstr("outside the file"));
  // Sizes of the directory's entry: stored bytes are as many as unpacked ones, and in the file.
  EXPECT_THAT(Why(Patched(one, "PK\x01\x02", 24, Raw<uint32_t>(6))), HasSubstr("claims 6 bytes"));
  EXPECT_THAT(Why(Patched(one, "PK\x01\x02", 20, Raw<uint32_t>(500) + Raw<uint32_t>(500))),
              HasSubstr("reaches beyond"));
  EXPECT_THAT(Why(Patched(one, "PK\x01\x02", 46, "bb")), HasSubstr("another name"));
  EXPECT_THAT(Why(Patched(one, "PK\x01\x02", 8, Raw<uint16_t>(1))), HasSubstr("encrypted"));
  EXPECT_THAT(Why(Patched(one, "PK\x01\x02", 10, Raw<uint16_t>(12))), HasSubstr("method 12"));
}

TEST(ZipArchive, TwoMembersInOnePlaceAreRefused) {
  // The second entry's local header is the first one's: the same bytes would be unpacked twice.
  std::string file = Zip({{"a", "hello"}, {"a", "world"}});
  const size_t second = file.rfind("PK\x01\x02");
  file.replace(second + 42, 4, Raw<uint32_t>(0));
  EXPECT_NE(Why(file), "");
}

TEST(ZipArchive, MoreThanDeflateCanUnpackToIsRefused) {
  const std::string file = Zip({{"a", std::string(5000, 'a'), true}});
  EXPECT_THAT(Why(Patched(file, "PK\x01\x02", 24, Raw<uint32_t>(0x7fffffff))),
              HasSubstr("claims 2147483647 bytes"));
}

TEST(ZipArchive, ADeflatedMemberOfAnotherLengthIsDamaged) {
  const std::string file = Zip({{"a", std::string(5000, 'a'), true}});
  for (const uint32_t size : {4999u, 5001u}) {
    const auto archive =
        ZipArchive::Open(FromText("a.zip", Patched(file, "PK\x01\x02", 24, Raw(size))));
    ASSERT_TRUE(archive.ok());
    const std::string read = ReadMember(**archive, "a");
    EXPECT_THAT(read, testing::AnyOf(HasSubstr("checksum"), HasSubstr("unpacks to"))) << size;
  }
}

// What packs well may still come out when all input was taken.
TEST(ZipArchive, DeflatedBytesOfEveryLengthAreRead) {
  for (const size_t bytes : {1, 100, 65'535, 65'536, 65'537, 131'072, 300'000}) {
    for (const char last : {'a', 'b'}) {
      std::string text(bytes, 'a');
      text.back() = last;
      const auto archive = ZipArchive::Open(FromText("a.zip", Zip({{"a", text, true}})));
      ASSERT_TRUE(archive.ok()) << archive.status().message();
      const auto member = (*archive)->OpenMember(*(*archive)->Find("a"));
      ASSERT_TRUE(member.ok());
      // In pieces of any size: each may end where the input has and the output has not.
      for (const size_t piece : {bytes, size_t{1000}, size_t{16'384}}) {
        std::string read(bytes, '\0');
        for (size_t at = 0; at < bytes; at += piece) {
          const auto part = std::span(read).subspan(at, std::min(piece, bytes - at));
          const Status status = (*member)->ReadAt(at, std::as_writable_bytes(part));
          ASSERT_TRUE(status.ok()) << bytes << " in " << piece << ": " << status.message();
        }
        EXPECT_EQ(read, text) << bytes;
      }
    }
  }
}

TEST(ZipArchive, DeflatedBytesAreReadInAnyOrder) {
  std::string text;
  for (int i = 0; text.size() < 300'000; ++i) text += std::to_string(i) + ",";
  const auto archive = ZipArchive::Open(FromText("a.zip", Zip({{"a", text, true}})));
  ASSERT_TRUE(archive.ok());
  const auto bytes = (*archive)->OpenMember(*(*archive)->Find("a"));
  ASSERT_TRUE(bytes.ok());
  // More jumps back than are started again for: the rest comes from the unpacked copy.
  for (int i = 0; i < 20; ++i) {
    const size_t at =
        i % 2 == 0 ? text.size() - 1000 - static_cast<size_t>(i) : static_cast<size_t>(i);
    std::string part(900, '\0');
    ASSERT_TRUE((*bytes)->ReadAt(at, std::as_writable_bytes(std::span(part))).ok());
    EXPECT_EQ(part, text.substr(at, part.size())) << i;
  }
}

}  // namespace
}  // namespace tdump::compare::foreign::test
