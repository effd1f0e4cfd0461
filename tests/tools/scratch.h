// A directory that is gone after the test, and programs run in it.
#pragma once

#include <gtest/gtest.h>
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

  static std::string PathOf(const std::string& tool);  // of the program

  // A tool by its name, with the scratch directory as working directory.
  Finished Run(const std::string& tool, const std::vector<std::string>& arguments) const;
  // The caller waits for it.
  pid_t Start(const std::string& tool, const std::vector<std::string>& arguments) const;
  // A command of the shell there; its status as system() gives it.
  int Shell(const std::string& command) const;

  Env* env_ = Env::Posix();
  std::string path_;
};

}  // namespace tdump::tools::test
