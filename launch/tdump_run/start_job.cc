#include "launch/tdump_run/start_job.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

namespace tdump::launch {

namespace {

volatile sig_atomic_t running_job = 0, got_signal = 0;

void PassOn(int signal, siginfo_t* info, void*) {
  const bool asks_to_end =
      signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT;
  if (asks_to_end) got_signal = signal;
  const bool from_terminal = info->si_code == SI_KERNEL;
  if (!from_terminal && running_job > 0) ::kill(running_job, signal);
}

// Those that would end this process and that somebody sends on purpose. One that is ignored, as
// under nohup, stays ignored, for the job as well.
void PassSignalsOn() {
  struct sigaction action {};
  action.sa_sigaction = PassOn;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM}) {
    struct sigaction before {};
    if (::sigaction(signal, nullptr, &before) == 0 && before.sa_handler != SIG_IGN)
      ::sigaction(signal, &action, nullptr);
  }
}

}  // namespace

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

int RunJob(const std::vector<std::string>& command, const EnvironmentChanges& changes,
           std::string* error, bool* interrupted) {
  PassSignalsOn();
  const pid_t child = ::fork();
  running_job = child;
  if (child == 0) {
    std::string why;
    const int status = ExecJob(command, changes, &why);
    std::fprintf(stderr, "tdump-run: %s\n", why.c_str());
    ::_exit(status);
  }
  int status = 0;
  pid_t ended = child;
  if (child > 0) {
    do ended = ::waitpid(child, &status, 0);
    while (ended < 0 && errno == EINTR);
  }
  running_job = 0;
  *interrupted = got_signal != 0;
  if (ended < 0) {
    *error = fmt::format("cannot start '{}': {}", command[0], std::strerror(errno));
    return kFailedBeforeStart;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace tdump::launch
