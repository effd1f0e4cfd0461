// A directory that is gone after the test, and programs run in it.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "core/env.h"

namespace tdump::tools::test {

struct Finished {
  int status = -1;  // exit status, or 128 + signal
  std::string out, err;
  long peak_kib = 0;  // resident
};

class ScratchTest : public ::testing::Test {
 protected:
  ScratchTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tdump_tools_XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~ScratchTest() override { std::filesystem::remove_all(path_); }

  std::string Path(const std::string& name) const { return path_ + "/" + name; }
  static std::string Text(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  // A tool by its name, with the scratch directory as working directory.
  Finished Run(const std::string& tool, const std::vector<std::string>& arguments) const {
    const pid_t child = Start(tool, arguments);
    int status = 0;
    struct rusage usage {};
    EXPECT_EQ(::wait4(child, &status, 0, &usage), child);
    Finished finished;
    finished.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    finished.out = Text(Path(".out"));
    finished.err = Text(Path(".err"));
    finished.peak_kib = usage.ru_maxrss;
    return finished;
  }

  // The caller waits for it.
  pid_t Start(const std::string& tool, const std::vector<std::string>& arguments) const {
    const std::string program = std::string(TDUMP_BIN) + "/" + tool;
    std::vector<char*> argv = {const_cast<char*>(program.c_str())};
    for (const std::string& argument : arguments)
      argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    const std::string out = Path(".out"), err = Path(".err");
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
      ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
      if (::chdir(path_.c_str()) == 0) ::execv(program.c_str(), argv.data());
      ::_exit(126);
    }
    return child;
  }

  Env* env_ = Env::Posix();
  std::string path_;
};

}  // namespace tdump::tools::test
