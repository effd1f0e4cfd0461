// The command behind tdump-view: options in, one of its faces out.
#pragma once

#include <string>
#include <vector>

#include "tools/options.h"
#include "tools/view.h"

namespace tdump::tools {

// Used once, by one thread. Run() returns the exit status; what went wrong is told on stderr.
class ViewCommand {
 public:
  ViewCommand();
  int Run(int argc, char** argv);

 private:
  std::string Contradiction() const;
  Status Read();
  Result<io::Address> ResolveWhat() const;

  Options options_;
  std::vector<std::string> what_;  // RUN or ADDRESS
  bool coverage_ = false, records_ = false, verify_ = false, names_ = false, nan_ = false,
       crash_ = false, log_ = false;
  std::string names_pattern_, steps_, ranks_, roles_, sort_ = "none", txt_, at_;
  std::vector<std::string> arg_, select_;
  int values_ = -1;
  bool exponents_ = false;
  unsigned top_ = 0, jobs_ = 0;
  bool all_ = false;
  ViewRequest request_;
};

}  // namespace tdump::tools
