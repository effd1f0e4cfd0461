// Where the files of this tdump are, seen from its own executable. Works from a build tree, an
// installation and a Python environment alike; nothing is configured.
#pragma once

#include <string>
#include <vector>

#include "core/status.h"

namespace tdump::launch {

struct Installation {
  std::string shim;  // libtdump_shim.so
  // Folder with the package and its entry point, for PYTHONPATH; "" where Python finds both.
  std::string python;
  std::string recipes;  // folder of the shipped YAML files, "" when they are missing
};

// `executable`: absolute path of tdump-run. Error: the shim is
// nowhere; the message lists the places.
Result<Installation> FindInstallation(const std::string& executable);
// Absolute path of the running executable, symbolic links followed.
Result<std::string> OwnExecutable();

// Names of the recipes in a folder, without ".yaml", sorted.
std::vector<std::string> RecipeNames(const std::string& folder);
std::string RecipePath(const std::string& folder, const std::string& name);

}  // namespace tdump::launch
