#include "tools/report_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>

#include "core/whole_file.h"
#include "tests/tools/scratch.h"

namespace tdump::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class ReportFileTest : public test::ScratchTest {
 protected:
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      names.push_back(entry.path().filename());
    return names;
  }
};

TEST_F(ReportFileTest, TheNameStandsForTheWholeReportOnly) {
  ASSERT_TRUE(WriteFileAtomically(env_, Path("report"), "before", 0600).ok());
  auto file = ReportFile::Create(Path("report"));
  ASSERT_TRUE(file.ok());
  (*file)->Write("one ");
  EXPECT_EQ(Text(Path("report")), "before");
  (*file)->Write("two");
  ASSERT_TRUE((*file)->Commit().ok());
  EXPECT_EQ(Text(Path("report")), "one two");
  EXPECT_THAT(Names(), ElementsAre("report"));
}

TEST_F(ReportFileTest, TensorsAreNotWrittenOver) {
  for (const char* name : {"step0.npz", "pass00000.tdp", "x.safetensors"}) {
    ASSERT_TRUE(WriteFileAtomically(env_, Path(name), "tensors", 0600).ok());
    const auto file = ReportFile::Create(Path(name));
    ASSERT_FALSE(file.ok());
    EXPECT_THAT(file.status().message(), HasSubstr("give the report another name"));
    EXPECT_EQ(Text(Path(name)), "tensors");
  }
  EXPECT_TRUE(ReportFile::Create(Path("new.npz")).ok());
  EXPECT_FALSE(ReportFile::Create(Path(std::string(300, 'n') + ".npz")).ok());  // too long a name
}

TEST_F(ReportFileTest, WithoutCommitNothingIsLeft) {
  {
    auto file = ReportFile::Create(Path("report"));
    ASSERT_TRUE(file.ok());
    (*file)->Write("half");
  }
  EXPECT_TRUE(Names().empty());
}

// One that another tool still writes is locked.
TEST_F(ReportFileTest, WhatAKilledToolLeftOfTheSameReportGoes) {
  for (const char* name : {"report.tdump-4711.part", "report.tdump-4712.part", "report.4711.part",
                           "report.tdump-4711", "reports.tdump-4711.part"})
    ASSERT_TRUE(WriteFileAtomically(env_, Path(name), "half", 0600).ok());
  const int writes = ::open(Path("report.tdump-4712.part").c_str(), O_WRONLY);
  ASSERT_EQ(::flock(writes, LOCK_EX), 0);
  auto file = ReportFile::Create(Path("report"));
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE((*file)->Commit().ok());
  EXPECT_THAT(Names(), UnorderedElementsAre("report", "report.tdump-4712.part", "report.4711.part",
                                            "report.tdump-4711", "reports.tdump-4711.part"));
  ::close(writes);
}

// Its own part is locked, up to the moment at which it has its name.
TEST_F(ReportFileTest, TwoOfOneNameDoNotTakeEachOthersPart) {
  auto first = ReportFile::Create(Path("report"));
  ASSERT_TRUE(first.ok());
  (*first)->Write("first");
  const std::vector<std::string> before = Names();
  RemoveLeftParts(env_, Path("report"));
  EXPECT_EQ(Names(), before);
  ASSERT_TRUE((*first)->Commit().ok());
  EXPECT_EQ(Text(Path("report")), "first");
}

TEST_F(ReportFileTest, AFullDiskIsAnError) {
  auto file = ReportFile::Create("/dev/full");
  ASSERT_TRUE(file.ok());
  (*file)->Write("x");
  const Status status = (*file)->Commit();
  EXPECT_EQ(status.code(), StatusCode::kNoSpace);
  EXPECT_THAT(status.message(), HasSubstr("cannot write '/dev/full'"));
}

TEST_F(ReportFileTest, AFileThatMayNotGrowLeavesNothing) {
  auto file = ReportFile::Create(Path("report"));
  ASSERT_TRUE(file.ok());
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  struct rlimit small = before;
  small.rlim_cur = 4096;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  (*file)->Write(std::string(1 << 20, 'x'));
  const Status status = (*file)->Commit();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, handler);
  EXPECT_THAT(status.message(), HasSubstr("File too large"));
  EXPECT_TRUE(Names().empty());
}

TEST_F(ReportFileTest, ALinkStandsForWhatItLeadsTo) {
  ASSERT_TRUE(env_->MakeDirs(Path("real"), 0700).ok());
  std::filesystem::create_symlink("real/report", Path("link"));
  for (const char* text : {"first", "second"}) {
    auto file = ReportFile::Create(Path("link"));
    ASSERT_TRUE(file.ok());
    (*file)->Write(text);
    ASSERT_TRUE((*file)->Commit().ok());
    EXPECT_EQ(Text(Path("real/report")), text);
    EXPECT_TRUE(std::filesystem::is_symlink(Path("link")));
  }
}

TEST_F(ReportFileTest, AnOpenDescriptorIsWrittenBehindWhatItHas) {
  const int fd = ::open(Path("out").c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_EQ(::write(fd, "before ", 7), 7);
  auto file = ReportFile::Create("/dev/fd/" + std::to_string(fd));
  ASSERT_TRUE(file.ok()) << file.status().message();
  (*file)->Write("report");
  ASSERT_TRUE((*file)->Commit().ok());
  ASSERT_EQ(::write(fd, " after", 6), 6);
  ::close(fd);
  EXPECT_EQ(Text(Path("out")), "before report after");
  EXPECT_FALSE(ReportFile::Create("/dev/fd/" + std::to_string(fd)).ok());
}

TEST_F(ReportFileTest, OneFileByTwoNames) {
  const auto first = ReportFile::Create(Path("report")), second = ReportFile::Create(Path("x"));
  const auto again = ReportFile::Create(Path("./report"));
  const auto null = ReportFile::Create("/dev/null"), other = ReportFile::Create("/dev/null");
  ASSERT_TRUE(first.ok() && second.ok() && again.ok() && null.ok() && other.ok());
  EXPECT_TRUE((*first)->IsSameFileAs(**again));
  EXPECT_FALSE((*first)->IsSameFileAs(**second));
  EXPECT_FALSE((*null)->IsSameFileAs(**other));
}

TEST_F(ReportFileTest, WrongPlacesAreToldAtOnce) {
  EXPECT_EQ(ReportFile::Create(Path("no/such/place")).status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(ReportFile::Create(path_).ok());  // a directory
}

}  // namespace
}  // namespace tdump::tools
