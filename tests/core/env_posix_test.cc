// Files of a process whose program closes and replaces descriptors that it does not know.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>

#include "core/env.h"

namespace tdump {
namespace {

std::span<const std::byte> Bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string TextOf(const std::string& path) {
  auto text = ReadFile(Env::Posix(), path, 1000);
  return text.ok() ? *text : text.status().message();
}

class PosixFile : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = ::testing::TempDir() + "posix-file-" + std::to_string(::getpid());
    std::filesystem::create_directories(directory_);
    auto created = Env::Posix()->CreateExclusive(Path("ours"), 0600);
    ASSERT_TRUE(created.ok());
    file_ = std::move(*created);
    ASSERT_TRUE(file_->Append(Bytes("one ")).ok());
  }
  void TearDown() override {
    file_.reset();
    std::filesystem::remove_all(directory_);
  }

  std::string Path(const char* name) const { return directory_ + "/" + name; }
  // The descriptor that /proc says is `path`; -1 when none is.
  static int NumberOf(const std::string& path) {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      if (std::filesystem::read_symlink(entry.path(), ignored) == path)
        return std::atoi(entry.path().filename().c_str());
    }
    return -1;
  }

  std::string directory_;
  std::unique_ptr<WritableFile> file_;
};

TEST_F(PosixFile, IsNeverAStandardStream) {
  const int kept = ::dup(0);
  ::close(0);
  auto created = Env::Posix()->CreateExclusive(Path("other"), 0600);
  EXPECT_EQ(::fcntl(0, F_GETFD), -1);  // still closed
  ::dup2(kept, 0);
  ::close(kept);
  ASSERT_TRUE(created.ok());
  EXPECT_GT(NumberOf(Path("other")), 2);
}

TEST_F(PosixFile, GoesOnAfterTheProgramClosedItsDescriptor) {
  ::close(NumberOf(Path("ours")));
  EXPECT_TRUE(file_->Append(Bytes("two")).ok());
  EXPECT_TRUE(file_->Close().ok());
  EXPECT_EQ(TextOf(Path("ours")), "one two");
}

TEST_F(PosixFile, NeitherWritesNorClosesAFileOfTheProgram) {
  const int number = NumberOf(Path("ours"));
  const int theirs = ::open(Path("theirs").c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_EQ(::dup2(theirs, number), number);
  EXPECT_TRUE(file_->Append(Bytes("two")).ok());
  EXPECT_TRUE(file_->Close().ok());
  EXPECT_EQ(::fcntl(number, F_GETFD), 0);  // still open
  EXPECT_EQ(TextOf(Path("theirs")), "");
  EXPECT_EQ(TextOf(Path("ours")), "one two");
  ::close(number);
  ::close(theirs);
}

TEST_F(PosixFile, RefusesAPipeInsteadOfWaitingForItsWriter) {
  ASSERT_EQ(::mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_FALSE(Env::Posix()->OpenRead(Path("pipe")).ok());
  EXPECT_FALSE(Env::Posix()->Map(Path("pipe")).ok());
}

// Room is real blocks beyond the end; closing gives back what was not used.
TEST_F(PosixFile, PreallocatesBeyondTheEndAndGivesBackAtClose) {
  const Status reserved = file_->Preallocate(4, 1 << 20, false);
  if (reserved.code() == StatusCode::kUnsupported) GTEST_SKIP() << reserved.message();
  ASSERT_TRUE(reserved.ok()) << reserved.message();
  struct stat info {};
  ASSERT_EQ(::stat(Path("ours").c_str(), &info), 0);
  EXPECT_EQ(info.st_size, 4);
  EXPECT_GE(info.st_blocks * 512, 1 << 20);
  EXPECT_TRUE(file_->Append(Bytes("two")).ok());
  EXPECT_TRUE(file_->Close().ok());
  ASSERT_EQ(::stat(Path("ours").c_str(), &info), 0);
  EXPECT_LT(info.st_blocks * 512, 64 << 10);
  EXPECT_EQ(TextOf(Path("ours")), "one two");
}

// Whole pages and the rest behind them, in one file with what is written as usual.
TEST_F(PosixFile, WritesPastThePageCache) {
  struct alignas(kDirectAlign) Pages {
    char bytes[3 * kDirectAlign];
  };
  const auto pages = std::make_unique<Pages>();
  for (size_t i = 0; i < sizeof(Pages); ++i) pages->bytes[i] = static_cast<char>('a' + i % 23);
  const std::string_view text(pages->bytes, 2 * kDirectAlign + 100);
  const auto direct = file_->WriteDirect(kDirectAlign, Bytes(text));  // false: not on every disk
  ASSERT_TRUE(direct.ok()) << direct.status().message();
  EXPECT_EQ(file_->Size(), kDirectAlign + text.size());
  EXPECT_EQ(::fcntl(NumberOf(Path("ours")), F_GETFL) & O_DIRECT, 0);
  EXPECT_TRUE(file_->Append(Bytes("end")).ok());
  EXPECT_TRUE(file_->Close().ok());
  const auto found = ReadFile(Env::Posix(), Path("ours"), 1 << 20);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(*found,
            std::string("one ") + std::string(kDirectAlign - 4, '\0') + std::string(text) + "end");
}

TEST_F(PosixFile, SyncsADirectoryAndNamesTheOneThatIsMissing) {
  EXPECT_TRUE(Env::Posix()->SyncDirectory(directory_).ok());
  const Status status = Env::Posix()->SyncDirectory(Path("missing"));
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_NE(status.message().find("missing"), std::string::npos) << status.message();
}

TEST_F(PosixFile, SaysSoWhenItsPathIsAnotherFileByThen) {
  ::close(NumberOf(Path("ours")));
  std::filesystem::rename(Path("ours"), Path("moved"));
  std::filesystem::copy_file(Path("moved"), Path("ours"));
  const Status status = file_->Append(Bytes("two"));
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("ESTALE"), std::string::npos) << status.message();
  EXPECT_EQ(TextOf(Path("ours")), "one ");
}

// It has the lock's file open as well, for as long as it lives.
TEST_F(PosixFile, AChildForkedUnderALockDoesNotKeepIt) {
  pid_t child = -1;
  const auto fork_one = [&] {
    child = ::fork();
    if (child == 0) {
      ::pause();
      ::_exit(0);
    }
    return Status();
  };
  ASSERT_TRUE(Env::Posix()->WithLock(Path("lock"), 1000, fork_one).ok());
  ASSERT_GT(child, 0);
  EXPECT_TRUE(Env::Posix()->WithLock(Path("lock"), 200, [] { return Status(); }).ok());
  ::kill(child, SIGKILL);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
}

}  // namespace
}  // namespace tdump
