#include "core/env.h"

#include <unistd.h>

#include <atomic>

namespace tdump {

std::string JoinPath(std::string_view directory, std::string_view name) {
  if (directory.empty()) return std::string(name);
  std::string path(directory);
  if (path.back() != '/') path += '/';
  return path.append(name);
}

Result<std::string> ReadFile(Env* env, const std::string& path, uint64_t max_bytes) {
  TDUMP_ASSIGN_OR_RETURN(auto file, env->OpenRead(path));
  if (file->Size() > max_bytes) {
    return Status(StatusCode::kOutOfRange, "'" + path + "' has " + std::to_string(file->Size()) +
                                               " bytes, more than the " +
                                               std::to_string(max_bytes) + " that are read");
  }
  std::string text(file->Size(), '\0');
  TDUMP_ASSIGN_OR_RETURN(const size_t got,
                         file->ReadAt(0, std::as_writable_bytes(std::span(text))));
  text.resize(got);
  return text;
}

Status WriteFileAtomically(Env* env, const std::string& path, std::string_view bytes, int mode) {
  static std::atomic<uint64_t> counter{0};
  const std::string temporary =
      path + "." + std::to_string(::getpid()) + "-" + std::to_string(counter.fetch_add(1)) + ".tmp";
  TDUMP_ASSIGN_OR_RETURN(auto file, env->CreateExclusive(temporary, mode));
  Status status = file->Append(std::as_bytes(std::span(bytes)));
  const Status closed = file->Close();
  if (status.ok()) status = closed;
  if (status.ok()) status = env->Rename(temporary, path);
  if (!status.ok()) (void)env->Remove(temporary);
  return status;
}

}  // namespace tdump
