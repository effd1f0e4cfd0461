// ReportFile: a report that is under its name when it is whole, and not before.
//
//   1. What is written goes to NAME.PID.part beside it, which is locked.
//   2. Commit() flushes, renames and closes it. A killed tool leaves the .part and the old NAME;
//      the next one that writes NAME removes what is left and not locked (core/whole_file.h).
// A symbolic link stands for the file it leads to. What is no regular file (a FIFO, /dev/null) is
// written to directly; /dev/stdout ("-") and other open descriptors as well, behind what they have.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "core/status.h"

namespace tdump::tools {

// Not thread-safe. Without Commit() the destructor removes what was written.
class ReportFile {
 public:
  // Error: the file cannot be made there, or is one that holds tensors, by its name.
  static Result<std::unique_ptr<ReportFile>> Create(const std::string& path);
  ~ReportFile();
  ReportFile(const ReportFile&) = delete;
  ReportFile& operator=(const ReportFile&) = delete;

  // Whether both write one file, whatever names it was given.
  bool IsSameFileAs(const ReportFile& other) const;
  // Errors are kept for Commit().
  void Write(std::string_view text);
  bool ok() const { return error_ == 0; }
  // Error: something could not be written (a full disk); nothing is left then.
  Status Commit();

 private:
  ReportFile(std::string path, std::string written, std::FILE* file)
      : path_(std::move(path)), written_(std::move(written)), file_(file) {}

  std::string path_, written_;  // equal: written directly; canonical
  std::FILE* file_;
  int error_ = 0;  // errno of the first failure
};

}  // namespace tdump::tools
