#include "launch/tdump_run/start_job.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

namespace tdump::launch {

int ExecJob(const std::vector<std::string>& command, const EnvironmentChanges& changes,
            std::string* error) {
  for (const auto& [name, value] : changes) ::setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());

  const int reason = errno;
  const bool missing = reason == ENOENT || reason == ENOTDIR;
  *error = fmt::format("cannot start '{}': {}{}", command[0], std::strerror(reason),
                       missing ? "; is it in PATH?" : "");
  if (reason == E2BIG) return kFailedBeforeStart;
  return missing ? kNotFound : kNotExecutable;
}

}  // namespace tdump::launch
