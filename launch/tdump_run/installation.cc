#include "launch/tdump_run/installation.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

namespace tdump::launch {
namespace {

namespace fs = std::filesystem;

bool Exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

struct Place {
  fs::path libraries, python, recipes;
};

std::vector<Place> Places(const fs::path& root) {
  // pip puts everything into the package's folder, where Python finds the entry point by itself.
  const bool in_package = Exists(root.parent_path() / "tdump_autoload.py");
  const auto python = [in_package](const fs::path& folder) {
    return in_package ? fs::path() : folder;
  };
  return {
      {root / "lib", python(root / "python"), root / "configs"},
      {root / "lib/tdump", python(root / "lib/tdump/python"), root / "share/tdump/configs"},
      {root / "lib64/tdump", python(root / "lib64/tdump/python"), root / "share/tdump/configs"},
  };
}

}  // namespace

Result<std::string> OwnExecutable() {
  std::error_code error;
  const fs::path path = fs::read_symlink("/proc/self/exe", error);
  if (error) return ErrnoStatus(error.value(), "read", "/proc/self/exe");
  return path.string();
}

Result<Installation> FindInstallation(const std::string& executable) {
  const fs::path root = fs::path(executable).parent_path().parent_path();
  std::string tried;
  for (const Place& place : Places(root)) {
    const fs::path shim = place.libraries / "libtdump_shim.so";
    if (!Exists(shim)) {
      tried += fmt::format("\n  {}", shim.string());
      continue;
    }
    Installation found;
    found.shim = shim.string();
    if (!place.python.empty() && Exists(place.python / "tdump_autoload.py"))
      found.python = place.python.string();
    if (Exists(place.recipes)) found.recipes = place.recipes.string();
    return found;
  }
  return NotFound(fmt::format("tdump-run is not installed completely; looked for:{}", tried));
}

std::vector<std::string> RecipeNames(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (fs::directory_iterator entry(folder, ignored), end; entry != end; entry.increment(ignored)) {
    if (ignored) break;
    if (entry->path().extension() == ".yaml") names.push_back(entry->path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string RecipePath(const std::string& folder, const std::string& name) {
  return (fs::path(folder) / (name + ".yaml")).string();
}

}  // namespace tdump::launch
