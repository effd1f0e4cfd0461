#include "tools/report_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace tdump::tools {
namespace {

bool IsSpecial(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode);
}

}  // namespace

Result<std::unique_ptr<ReportFile>> ReportFile::Create(const std::string& path) {
  const bool direct = IsSpecial(path);
  const std::string written = direct ? path : path + "." + std::to_string(::getpid()) + ".part";
  const int fd = ::open(written.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  std::FILE* file = fd < 0 ? nullptr : ::fdopen(fd, "w");
  if (file == nullptr) {
    Status status = ErrnoStatus(errno, "cannot write", path);
    if (fd >= 0) ::close(fd);
    return status;
  }
  return std::unique_ptr<ReportFile>(new ReportFile(path, written, file));
}

ReportFile::~ReportFile() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  if (written_ != path_) ::unlink(written_.c_str());
}

void ReportFile::Write(std::string_view text) {
  if (error_ != 0 || text.empty()) return;
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size())
    error_ = errno != 0 ? errno : EIO;
}

Status ReportFile::Commit() {
  const bool direct = written_ == path_;
  errno = 0;
  if (error_ == 0 && std::fflush(file_) != 0) error_ = errno;
  // What a rename shows must be there after a power cut too.
  if (error_ == 0 && !direct && ::fsync(::fileno(file_)) != 0) error_ = errno;
  if (std::fclose(file_) != 0 && error_ == 0) error_ = errno;
  file_ = nullptr;
  if (error_ == 0 && !direct && ::rename(written_.c_str(), path_.c_str()) != 0) error_ = errno;
  if (error_ == 0) return {};
  if (!direct) ::unlink(written_.c_str());
  return ErrnoStatus(error_, "cannot write", path_);
}

}  // namespace tdump::tools
