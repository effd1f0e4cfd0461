#include "tools/report_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <optional>

#include "core/env.h"
#include "core/parse_number.h"
#include "core/whole_file.h"

namespace tdump::tools {
namespace {

bool IsSpecial(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode);
}

// The open descriptor that a name stands for (fd(4), proc(5)).
std::optional<int> DescriptorOf(std::string_view path) {
  if (path == "/dev/stdout") return STDOUT_FILENO;
  if (path == "/dev/stderr") return STDERR_FILENO;
  for (const std::string_view directory : {"/dev/fd/", "/proc/self/fd/"}) {
    if (!path.starts_with(directory)) continue;
    path.remove_prefix(directory.size());
    return ParseNumber<int>(path);
  }
  return std::nullopt;
}

bool IsOfSystem(const std::string& path) {
  return path.starts_with("/dev/") || path.starts_with("/proc/");
}

// A file has one such name, whether it is there or not: symbolic links are followed, but not those
// of /dev and /proc.
std::string NameOfFile(std::string path) {
  if (path == "-") return "/dev/stdout";
  constexpr int kMostLinks = 40;
  for (int i = 0; i < kMostLinks && !IsOfSystem(path); ++i) {
    std::error_code error;
    const std::filesystem::path target = std::filesystem::read_symlink(path, error);
    if (error) break;
    path = (std::filesystem::path(path).parent_path() / target).string();
  }
  if (IsOfSystem(path)) return path;
  std::error_code error;
  const std::filesystem::path file(path);
  const std::filesystem::path directory = std::filesystem::canonical(
      file.has_parent_path() ? file.parent_path() : std::filesystem::path("."), error);
  return error ? path : (directory / file.filename()).string();
}

// A name that tensors have: what stands there may be what is compared.
bool HoldsTensors(const std::string& path) {
  constexpr std::string_view kEndings[] = {".tdp", ".tdm", ".tdn", ".npy",
                                           ".npz", ".pt",  ".pth", ".safetensors"};
  struct stat info {};
  return std::any_of(std::begin(kEndings), std::end(kEndings),
                     [&](std::string_view ending) { return path.ends_with(ending); }) &&
         ::stat(path.c_str(), &info) == 0;
}

// For writing; -1 with errno.
int Open(const std::string& written, bool direct) {
  if (direct) {
    if (const auto open = DescriptorOf(written)) return ::fcntl(*open, F_DUPFD_CLOEXEC, 3);
    return ::open(written.c_str(), O_WRONLY | O_CLOEXEC);
  }
  for (;;) {
    // What a tool with this number left behind when it was killed.
    ::unlink(written.c_str());
    const int fd = ::open(written.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    struct stat info {};
    if (fd < 0 || ::flock(fd, LOCK_EX) != 0 || ::fstat(fd, &info) != 0 || info.st_nlink != 0)
      return fd;
    ::close(fd);  // before it was locked another tool took it for one that was left
  }
}

}  // namespace

Result<std::unique_ptr<ReportFile>> ReportFile::Create(const std::string& name) {
  const std::string path = NameOfFile(name);
  const bool direct = DescriptorOf(path).has_value() || IsSpecial(path);
  const std::string written = direct ? path : PartOf(path, ::getpid());
  if (!direct && HoldsTensors(path))
    return InvalidArgument(fmt::format(
        "'{}' is there and by its name holds tensors: give the report another name", name));
  if (!direct) RemoveLeftParts(Env::Posix(), path);
  const int fd = Open(written, direct);
  std::FILE* file = fd < 0 ? nullptr : ::fdopen(fd, "w");
  if (file == nullptr) {
    Status status = ErrnoStatus(errno, "cannot write", name);
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

bool ReportFile::IsSameFileAs(const ReportFile& other) const {
  return path_ == other.path_ && path_ != "/dev/null";
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
  // Before it is closed, and with that no longer locked.
  if (error_ == 0 && !direct && ::rename(written_.c_str(), path_.c_str()) != 0) error_ = errno;
  if (std::fclose(file_) != 0 && error_ == 0 && direct) error_ = errno;
  file_ = nullptr;
  if (error_ == 0) return {};
  if (!direct) ::unlink(written_.c_str());
  return ErrnoStatus(error_, "cannot write", path_);
}

}  // namespace tdump::tools
