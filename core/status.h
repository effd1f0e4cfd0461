// Status and Result<T>: how everything inside tdump reports failure. No exception
// crosses a layer; code that calls a library which throws (yaml-cpp, LibTorch, Python)
// catches at that border and returns a Status.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tdump {

enum class StatusCode : unsigned char {
  kOk,
  kInvalidArgument,  // the caller or the user's input is wrong
  kNotFound,
  kAlreadyExists,
  kCorrupt,  // bytes on disk are not what the format says; the message names file and offset
  kOutOfRange,
  kNoSpace,      // ENOSPC, EDQUOT, or tdump's own limit
  kIo,           // any other operating-system error; the message names path and errno
  kUnsupported,  // valid, but not in this version
  kInternal,
};

std::string_view ToString(StatusCode code);

// Cheap to move, safe to ignore only explicitly. `Annotate` adds the context of the layer above:
// "context: message".
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}
  static Status Ok() { return {}; }

  bool ok() const { return code_ == StatusCode::kOk; }
  explicit operator bool() const { return ok(); }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }
  std::string ToString() const;  // "ok" or "<code>: <message>"

  Status& Annotate(std::string_view context) &;
  Status&& Annotate(std::string_view context) && { return std::move(Annotate(context)); }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

Status InvalidArgument(std::string message);
Status NotFound(std::string message);
Status Corrupt(std::string message);
Status Unsupported(std::string message);
Status Internal(std::string message);
// "<action> '<path>': <strerror> (<errno name>)"; ENOSPC and EDQUOT become kNoSpace, ENOENT
// kNotFound, EEXIST kAlreadyExists.
Status ErrnoStatus(int error, std::string_view action, std::string_view path);

// A value or the Status that says why there is none. `value()` on an error
// is a programming mistake (aborts).
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Status status) : status_(std::move(status)) {}

  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Status& status() const& { return status_; }
  Status&& status() && { return std::move(status_); }
  T& value() & { return value_.value(); }
  const T& value() const& { return value_.value(); }
  T&& value() && { return std::move(value_).value(); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return *std::move(value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

// Returns from the enclosing function when `expr` is not ok.
#define TDUMP_RETURN_IF_ERROR(expr)                                                        \
  do {                                                                                     \
    if (::tdump::Status tdump_status_ = (expr); !tdump_status_.ok()) return tdump_status_; \
  } while (0)

#define TDUMP_CONCAT_INNER_(a, b) a##b
#define TDUMP_CONCAT_(a, b) TDUMP_CONCAT_INNER_(a, b)
// TDUMP_ASSIGN_OR_RETURN(auto x, MakeX());
#define TDUMP_ASSIGN_OR_RETURN(lhs, expr) \
  TDUMP_ASSIGN_OR_RETURN_(TDUMP_CONCAT_(tdump_result_, __LINE__), lhs, expr)
#define TDUMP_ASSIGN_OR_RETURN_(tmp, lhs, expr)  \
  auto tmp = (expr);                             \
  if (!tmp.ok()) return std::move(tmp).status(); \
  lhs = std::move(tmp).value()

}  // namespace tdump
