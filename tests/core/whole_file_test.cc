#include "core/whole_file.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <thread>
#include <vector>

namespace tdump {
namespace {

Status Put(WritableFile* file, std::string_view text) {
  return file->Append(std::as_bytes(std::span(text.data(), text.size())));
}

std::string Text(Env* env, const std::string& path) {
  const auto text = ReadFile(env, path, 1 << 20);
  return text.ok() ? *text : text.status().message();
}

TEST(WholeFile, TellsPartsOfANameFromOtherFiles) {
  EXPECT_TRUE(IsPartOf("a.tdump-12.part", "a"));
  EXPECT_TRUE(IsPartOf(PartOf("a.b", 12), "a.b"));
  for (const char* other :
       {"a", "a.part", "a.12.part", "a.tdump-.part", "a.tdump-x.part", "a.tdump-1x.part",
        "a.tdump--1.part", "atdump-12.part", "b.tdump-12.part", "a.tdump-12.parts",
        "a.b.tdump-12.part", ".tdump-12.part"})
    EXPECT_FALSE(IsPartOf(other, "a")) << other;
}

TEST(WholeFile, IsThereWhenItIsWhole) {
  const std::unique_ptr<Env> env = NewMemoryEnv();
  ASSERT_TRUE(WriteFileAtomically(env.get(), "/f", "before", 0600).ok());
  const Status status = WriteWholeFile(env.get(), "/f", 0600, [&](WritableFile* file) -> Status {
    TDUMP_RETURN_IF_ERROR(Put(file, "one "));
    EXPECT_EQ(Text(env.get(), "/f"), "before");
    // Of another writer: this part is locked.
    std::thread([&] { RemoveLeftParts(env.get(), "/f"); }).join();
    return Put(file, "two");
  });
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(Text(env.get(), "/f"), "one two");
  EXPECT_EQ(*env->List("/"), std::vector<std::string>{"f"});
}

TEST(WholeFile, AnErrorLeavesWhatWasThere) {
  const std::unique_ptr<Env> env = NewMemoryEnv();
  ASSERT_TRUE(WriteFileAtomically(env.get(), "/f", "before", 0600).ok());
  const Status status = WriteWholeFile(env.get(), "/f", 0600, [&](WritableFile* file) -> Status {
    TDUMP_RETURN_IF_ERROR(Put(file, "half"));
    return Status(StatusCode::kNoSpace, "full");
  });
  EXPECT_EQ(status.code(), StatusCode::kNoSpace);
  EXPECT_EQ(Text(env.get(), "/f"), "before");
  EXPECT_EQ(*env->List("/"), std::vector<std::string>{"f"});
}

TEST(WholeFile, IsWrittenWhereThereAreNoLocks) {
  const std::unique_ptr<Env> memory = NewMemoryEnv();
  const std::unique_ptr<Env> env =
      NewFaultyEnv(memory.get(), [](uint64_t, std::string_view call, std::string_view) {
        return call == "flock" ? ENOSYS : 0;
      });
  ASSERT_TRUE(WriteFileAtomically(memory.get(), "/f.tdump-7.part", "another's", 0600).ok());
  RemoveLeftParts(env.get(), "/f");  // nobody knows whose it is
  ASSERT_TRUE(WriteWholeFile(env.get(), "/f", 0600, [](WritableFile* file) {
                return Put(file, "x");
              }).ok());
  EXPECT_EQ(Text(memory.get(), "/f"), "x");
  EXPECT_EQ(*memory->List("/"), (std::vector<std::string>{"f", "f.tdump-7.part"}));
}

}  // namespace
}  // namespace tdump
