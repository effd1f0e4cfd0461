// Files that are under their name when they are whole, and not before.
//
//   1. What is written goes to NAME.tdump-N.part beside it, N a number, which the writer keeps
//      locked. A NAME.N.part is somebody else's: volumes of archives are called so.
//   2. When it is closed it gets its name; only then the lock goes.
//   3. A part that nobody has locked is what a killed writer left: RemoveLeftParts() takes it away,
//      which is called where the same NAME is written again and again.
// Where the file system has no locks, parts are written without one, and those left stay.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "core/env.h"

namespace tdump {

// "NAME.tdump-N.part".
std::string PartOf(const std::string& name, int64_t number);
// Whether `file` is such a part of this name.
bool IsPartOf(std::string_view file, std::string_view name);

// Step 3, for the file at `path`. What cannot be removed stays.
void RemoveLeftParts(Env* env, const std::string& path);
// The same of the parts in a directory that `is_ours` takes.
void RemoveLeftParts(Env* env, const std::string& directory,
                     const std::function<bool(std::string_view file)>& is_ours);

// Steps 1 and 2 with what `write` puts into the file, which it leaves open. After an error nothing
// is left, and a file that was there before is still the same.
Status WriteWholeFile(Env* env, const std::string& path, int mode,
                      const std::function<Status(WritableFile*)>& write);

}  // namespace tdump
