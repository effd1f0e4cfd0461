#include "core/whole_file.h"

#include <algorithm>
#include <string>

namespace tdump {
namespace {

constexpr std::string_view kOurs = ".tdump-", kPart = ".part";
constexpr int kLockMs = 1000;  // for a look of another writer, which takes no time

}  // namespace

std::string PartOf(const std::string& name, int64_t number) {
  return name + std::string(kOurs) + std::to_string(number) + std::string(kPart);
}

bool IsPartOf(std::string_view file, std::string_view name) {
  if (!file.starts_with(name) || !file.ends_with(kPart)) return false;
  file.remove_prefix(name.size());
  if (file.size() <= kOurs.size() + kPart.size() || !file.starts_with(kOurs)) return false;
  file = file.substr(kOurs.size(), file.size() - kOurs.size() - kPart.size());
  return std::all_of(file.begin(), file.end(), [](char c) { return c >= '0' && c <= '9'; });
}

void RemoveLeftParts(Env* env, const std::string& directory,
                     const std::function<bool(std::string_view)>& is_ours) {
  const auto files = env->List(directory);
  if (!files.ok()) return;
  for (const std::string& file : *files) {
    if (!is_ours(file)) continue;
    const std::string part = JoinPath(directory, file);
    (void)env->WithLock(part, 0, [&] { return env->Remove(part); });
  }
}

void RemoveLeftParts(Env* env, const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string name = path.substr(slash + 1);  // npos + 1 is 0
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  RemoveLeftParts(env, directory, [&](std::string_view file) { return IsPartOf(file, name); });
}

Status WriteWholeFile(Env* env, const std::string& path, int mode,
                      const std::function<Status(WritableFile*)>& write) {
  const std::string part = PartOf(path, env->WallNs());
  TDUMP_ASSIGN_OR_RETURN(const auto file, env->CreateExclusive(part, mode));
  bool written = false;
  const auto body = [&]() -> Status {
    written = true;
    TDUMP_RETURN_IF_ERROR(write(file.get()));
    const uint64_t bytes = file->Size();
    TDUMP_RETURN_IF_ERROR(file->Close());
    // Between its making and its lock another writer may have taken it for one that was left.
    TDUMP_ASSIGN_OR_RETURN(const FileInfo there, env->Stat(part));
    if (there.bytes != bytes)
      return Status(StatusCode::kIo, "'" + part + "' was removed while it was written");
    return env->Rename(part, path);
  };
  Status status = env->WithLock(part, kLockMs, body);
  if (!written) status = body();  // no locks here
  if (!status.ok()) (void)env->Remove(part);
  return status;
}

}  // namespace tdump
