#include "tests/tools/scratch.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <cstdlib>

namespace tdump::tools::test {

std::string ScratchTest::PathOf(const std::string& tool) {
  return std::string(TDUMP_BIN) + "/" + tool;
}

Finished ScratchTest::Run(const std::string& tool,
                          const std::vector<std::string>& arguments) const {
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

pid_t ScratchTest::Start(const std::string& tool, const std::vector<std::string>& arguments) const {
  const std::string program = PathOf(tool);
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
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

int ScratchTest::Shell(const std::string& command) const {
  return std::system(("cd '" + path_ + "' && " + command).c_str());
}

}  // namespace tdump::tools::test
