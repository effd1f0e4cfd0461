// A writer that is killed: what it had committed 0.5 s before is readable, and a final name always
// means a whole file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <random>
#include <thread>

#include "tests/io/sink_fixture.h"

namespace tdump::io {
namespace {

using ::testing::IsEmpty;

constexpr int64_t kMs = 1'000'000;

std::vector<std::byte> Values(uint64_t pass, uint64_t i) {
  return Bytes(100 + i % 50, static_cast<uint8_t>(31 * pass + i), 7);
}

struct Committed {
  uint64_t pass;
  uint64_t record;
  int64_t at_ns;
};

// A child process that writes below `directory` until it is killed. `program` gets the rig and a
// function that tells the parent of a commit.
class Writer {
 public:
  using Tell = std::function<void(uint64_t pass, uint64_t record)>;

  Writer(const std::string& directory, const std::function<void(SinkRig*, const Tell&)>& program) {
    EXPECT_EQ(::pipe(pipe_), 0);
    pid_ = ::fork();
    if (pid_ != 0) {
      ::close(pipe_[1]);
      return;
    }
    SinkRig rig({}, Env::Posix(), directory);
    program(&rig, [&](uint64_t pass, uint64_t record) {
      const Committed committed{pass, record, Env::Posix()->MonotonicNs()};
      if (::write(pipe_[1], &committed, sizeof committed) < 0) ::_exit(1);
    });
    ::_exit(0);
  }

  // Waits for the first commit, then `after`, then kills. Returns the time of the kill.
  int64_t KillAfter(std::chrono::microseconds after) {
    Take();
    std::this_thread::sleep_for(after);
    const int64_t now = Env::Posix()->MonotonicNs();
    EXPECT_EQ(::kill(pid_, SIGKILL), 0);
    int status = 0;
    EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
    EXPECT_TRUE(WIFSIGNALED(status));
    while (Take()) {
    }
    ::close(pipe_[0]);
    return now;
  }
  const std::vector<Committed>& committed() const { return committed_; }

 private:
  bool Take() {
    Committed committed;
    if (::read(pipe_[0], &committed, sizeof committed) != sizeof committed) return false;
    committed_.push_back(committed);
    return true;
  }

  int pipe_[2];
  pid_t pid_;
  std::vector<Committed> committed_;
};

class Kill : public ::testing::Test {
 protected:
  Kill()
      : directory_(std::filesystem::path(testing::TempDir()) /
                   ("tdump_kill_" + std::to_string(::getpid()))) {}
  ~Kill() override { std::filesystem::remove_all(directory_); }

  const std::filesystem::path directory_;
};

// Every record that can be read has the values that were committed. Returns their ids.
std::set<uint64_t> RightRecords(const PassReader& reader) {
  std::set<uint64_t> found;
  EXPECT_TRUE(reader
                  .ForEachRecord([&](const Record& record) {
                    std::vector<std::byte> values(record.payload->logical_bytes);
                    EXPECT_TRUE(reader.ReadPayload(record, 0, values).ok());
                    EXPECT_EQ(values, Values(reader.info().ordinal, record.id));
                    EXPECT_EQ(record.key.path, "layer." + std::to_string(record.id % 7));
                    return found.insert(record.id).second;
                  })
                  .ok());
  return found;
}

TEST_F(Kill, WhatIsOlderThanHalfASecondIsReadable) {
  Writer writer(directory_, [](SinkRig* rig, const Writer::Tell& tell) {
    rig->Open(0);
    for (uint64_t i = 1;; ++i) {
      const Call call = rig->NewCall(rig->Op("layer." + std::to_string(i % 7)));
      rig->Keep(call, "", Values(0, i));
      rig->sink->end_call(call, {}, "");
      tell(0, i);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  const int64_t killed = writer.KillAfter(std::chrono::milliseconds(1100));
  const auto reader = PassReader::Open(Env::Posix(), (directory_ / "pass00000.tdp.part").string());
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  EXPECT_FALSE((*reader)->complete());
  const std::set<uint64_t> found = RightRecords(**reader);
  size_t old = 0;
  for (const Committed& commit : writer.committed()) {
    if (commit.at_ns > killed - 500 * kMs) continue;
    ++old;
    EXPECT_TRUE(found.contains(commit.record)) << "record " << commit.record;
  }
  EXPECT_GT(old, 10u);
}

TEST_F(Kill, AFinalNameMeansAWholeFile) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> after_us(0, 15'000);
  size_t finished = 0;
  for (int round = 0; round < 50; ++round) {
    const std::string directory = directory_ / std::to_string(round);
    Writer writer(directory, [](SinkRig* rig, const Writer::Tell& tell) {
      for (uint64_t pass = 0;; ++pass) {
        rig->Open(pass);
        for (uint64_t i = 1; i <= 4; ++i) {
          const Call call = rig->NewCall(rig->Op("layer." + std::to_string(i % 7)));
          rig->Keep(call, "", Values(pass, i));
          rig->sink->end_call(call, {}, "");
        }
        rig->sink->close_pass();
        if (pass % 4 == 3) (void)rig->sink->Drain(1000);
        tell(pass, 4);
      }
    });
    writer.KillAfter(std::chrono::microseconds(after_us(random)));
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
      const std::string file = entry.path();
      if (file.ends_with(".tdm")) continue;
      const auto reader = PassReader::Open(Env::Posix(), file);
      if (file.ends_with(".part")) {
        if (reader.ok()) RightRecords(**reader);
        continue;
      }
      ASSERT_TRUE(file.ends_with(".tdp")) << file;
      ASSERT_TRUE(reader.ok()) << reader.status().message();
      EXPECT_TRUE((*reader)->complete()) << file;
      EXPECT_EQ(RightRecords(**reader).size(), 4u) << file;
      std::vector<Damage> damage;
      EXPECT_TRUE((*reader)->Verify(&damage).ok());
      EXPECT_THAT(damage, IsEmpty()) << file;
      ++finished;
    }
    ProcessEntry process;
    ReadManifest(Env::Posix(), directory + "/manifest.tdm", &process);
    for (const PassEntry& pass : process.passes) {
      EXPECT_FALSE(pass.part);
      EXPECT_TRUE(std::filesystem::exists(directory + "/" + pass.file)) << pass.file;
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(finished, 0u);
}

}  // namespace
}  // namespace tdump::io
