#include "core/status.h"

#include <cerrno>
#include <climits>
#include <cstring>

namespace tdump {

std::string_view ToString(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "ok";
    case StatusCode::kInvalidArgument:
      return "invalid argument";
    case StatusCode::kNotFound:
      return "not found";
    case StatusCode::kAlreadyExists:
      return "already exists";
    case StatusCode::kCorrupt:
      return "damaged";
    case StatusCode::kOutOfRange:
      return "out of range";
    case StatusCode::kNoSpace:
      return "no space";
    case StatusCode::kIo:
      return "I/O error";
    case StatusCode::kUnsupported:
      return "not in this version";
    case StatusCode::kInternal:
      return "internal error";
  }
  return "unknown";
}

std::string Status::ToString() const {
  if (ok()) return "ok";
  return std::string(tdump::ToString(code_)) + ": " + message_;
}

Status& Status::Annotate(std::string_view context) & {
  if (!ok()) message_ = std::string(context) + ": " + message_;
  return *this;
}

Status InvalidArgument(std::string message) {
  return {StatusCode::kInvalidArgument, std::move(message)};
}
Status NotFound(std::string message) { return {StatusCode::kNotFound, std::move(message)}; }
Status Corrupt(std::string message) { return {StatusCode::kCorrupt, std::move(message)}; }
Status Unsupported(std::string message) { return {StatusCode::kUnsupported, std::move(message)}; }
Status Internal(std::string message) { return {StatusCode::kInternal, std::move(message)}; }

Status ErrnoStatus(int error, std::string_view action, std::string_view path) {
  StatusCode code = StatusCode::kIo;
  if (error == ENOSPC || error == EDQUOT) code = StatusCode::kNoSpace;
  if (error == ENOENT) code = StatusCode::kNotFound;
  if (error == EEXIST) code = StatusCode::kAlreadyExists;
  const char* name = ::strerrorname_np(error);
  std::string shown(path.substr(0, PATH_MAX));  // longer ones are no path of a file
  if (path.size() > PATH_MAX) shown += "...";
  return {code, std::string(action) + " '" + shown + "': " + std::strerror(error) + " (" +
                    (name != nullptr ? name : "?") + ")"};
}

}  // namespace tdump
