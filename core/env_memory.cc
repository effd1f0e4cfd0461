// A file system in RAM. Paths are plain text: "a//b/" is "a/b", relative paths are
// relative to nothing in particular. Parents must exist, as on a disk; "", "." and
// "/" always do. Permissions are not kept.
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "core/env.h"
#include "core/env_retry.h"

namespace tdump {
namespace {

struct Node {
  mutable std::mutex mutex;
  std::string data;
  int64_t mtime_ns = 0;
};

int64_t NowNs(bool wall) {
  using std::chrono::nanoseconds;
  const auto since = wall ? std::chrono::system_clock::now().time_since_epoch()
                          : std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<nanoseconds>(since).count();
}

class MemoryWritableFile final : public WritableFile {
 public:
  MemoryWritableFile(std::string path, std::shared_ptr<Node> node)
      : path_(std::move(path)), node_(std::move(node)) {}

  Status Append(std::span<const std::byte> bytes) override { return WriteAt(Size(), bytes); }
  Status WriteAt(uint64_t offset, std::span<const std::byte> bytes) override {
    if (closed_) return ErrnoStatus(EBADF, "cannot write", path_);
    std::lock_guard lock(node_->mutex);
    if (node_->data.size() < offset + bytes.size()) node_->data.resize(offset + bytes.size());
    if (!bytes.empty()) std::memcpy(node_->data.data() + offset, bytes.data(), bytes.size());
    node_->mtime_ns = NowNs(true);
    return Status();
  }
  Status Preallocate(uint64_t, uint64_t, bool) override { return Status(); }
  Status Discard(uint64_t offset, uint64_t bytes) override {
    std::lock_guard lock(node_->mutex);
    const uint64_t size = node_->data.size();
    if (offset < size)
      node_->data.replace(offset, std::min(bytes, size - offset), std::min(bytes, size - offset),
                          '\0');
    return Status();
  }
  Status Truncate(uint64_t bytes) override {
    std::lock_guard lock(node_->mutex);
    node_->data.resize(bytes);
    return Status();
  }
  Status Sync() override { return Status(); }
  Status Close() override {
    closed_ = true;
    return Status();
  }
  uint64_t Size() const override {
    std::lock_guard lock(node_->mutex);
    return node_->data.size();
  }

 private:
  const std::string path_;
  const std::shared_ptr<Node> node_;
  bool closed_ = false;
};

class MemoryReadableFile final : public ReadableFile {
 public:
  MemoryReadableFile(std::string path, std::shared_ptr<Node> node)
      : path_(std::move(path)), node_(std::move(node)), size_(node_->data.size()) {}

  Result<size_t> ReadAt(uint64_t offset, std::span<std::byte> bytes) const override {
    std::lock_guard lock(node_->mutex);
    if (offset >= node_->data.size()) return size_t{0};
    const size_t got = std::min<uint64_t>(bytes.size(), node_->data.size() - offset);
    if (got != 0) std::memcpy(bytes.data(), node_->data.data() + offset, got);
    return got;
  }
  uint64_t Size() const override { return size_; }
  const std::string& path() const override { return path_; }

 private:
  const std::string path_;
  const std::shared_ptr<Node> node_;
  const uint64_t size_;
};

// A copy, so that a later write moves nothing under the reader.
class MemoryMappedFile final : public MappedFile {
 public:
  explicit MemoryMappedFile(const std::string& data)
      : words_(data.size() / 64 + 1), size_(data.size()) {
    if (size_ != 0) std::memcpy(words_.data(), data.data(), size_);
  }
  std::span<const std::byte> bytes() const override {
    return {reinterpret_cast<const std::byte*>(words_.data()), size_};
  }

 private:
  struct alignas(64) Block {
    char bytes[64];
  };
  std::vector<Block> words_;
  size_t size_;
};

class MemoryEnv final : public Env {
 public:
  Result<std::unique_ptr<WritableFile>> CreateExclusive(const std::string& path, int) override {
    return Create(path, true);
  }
  Result<std::unique_ptr<WritableFile>> OpenAppend(const std::string& path, int) override {
    return Create(path, false);
  }
  Result<std::unique_ptr<WritableFile>> OpenShared(const std::string& path, int) override {
    return Create(path, false);
  }
  Result<std::unique_ptr<ReadableFile>> OpenRead(const std::string& path) override {
    TDUMP_ASSIGN_OR_RETURN(auto node, FindFile(path, "cannot open"));
    std::lock_guard lock(node->mutex);
    return std::unique_ptr<ReadableFile>(new MemoryReadableFile(path, node));
  }
  Result<std::unique_ptr<MappedFile>> Map(const std::string& path) override {
    TDUMP_ASSIGN_OR_RETURN(auto node, FindFile(path, "cannot map"));
    std::lock_guard lock(node->mutex);
    return std::unique_ptr<MappedFile>(new MemoryMappedFile(node->data));
  }

  Status MakeDirs(const std::string& path, int) override {
    std::lock_guard lock(mutex_);
    const std::string full = Resolve(path);
    for (size_t end = full.find('/', 1);; end = full.find('/', end + 1)) {
      const std::string part = full.substr(0, end);
      if (files_.contains(part)) return ErrnoStatus(ENOTDIR, "cannot make the directory", path);
      if (!IsRoot(part)) directories_.insert(part);
      if (end == std::string::npos) return Status();
    }
  }

  Status Rename(const std::string& from, const std::string& to) override {
    std::lock_guard lock(mutex_);
    const std::string source = Resolve(from), target = Resolve(to);
    auto it = files_.find(source);
    if (it == files_.end()) return ErrnoStatus(ENOENT, "cannot rename '" + from + "' to", to);
    if (directories_.contains(target))
      return ErrnoStatus(EISDIR, "cannot rename '" + from + "' to", to);
    auto node = it->second;
    files_.erase(it);
    files_[target] = std::move(node);
    return Status();
  }

  Status Remove(const std::string& path) override {
    std::lock_guard lock(mutex_);
    if (links_.erase(Normalise(path)) != 0) return Status();
    const std::string full = Resolve(path);
    if (files_.erase(full) != 0) return Status();
    if (!directories_.contains(full)) return ErrnoStatus(ENOENT, "cannot remove", path);
    if (!Children(full).empty()) return ErrnoStatus(ENOTEMPTY, "cannot remove", path);
    directories_.erase(full);
    return Status();
  }

  Status SyncDirectory(const std::string&) override { return Status(); }

  Status Symlink(const std::string& target, const std::string& link) override {
    std::lock_guard lock(mutex_);
    const std::string name = Normalise(link);
    if (directories_.contains(name)) return ErrnoStatus(EISDIR, "cannot link", link);
    files_.erase(name);
    links_[name] = target;
    return Status();
  }

  Result<FileInfo> Stat(const std::string& path) override {
    std::lock_guard lock(mutex_);
    const std::string full = Resolve(path);
    if (IsRoot(full) || directories_.contains(full)) return FileInfo{0, true, 0};
    auto it = files_.find(full);
    if (it == files_.end()) return ErrnoStatus(ENOENT, "cannot stat", path);
    std::lock_guard data(it->second->mutex);
    return FileInfo{it->second->data.size(), false, it->second->mtime_ns};
  }

  Result<std::vector<std::string>> List(const std::string& directory) override {
    std::lock_guard lock(mutex_);
    const std::string full = Resolve(directory);
    if (!IsRoot(full) && !directories_.contains(full))
      return ErrnoStatus(ENOENT, "cannot list", directory);
    const std::set<std::string> names = Children(full);
    return std::vector<std::string>(names.begin(), names.end());
  }

  Result<uint64_t> FreeBytes(const std::string&) override { return uint64_t{1} << 40; }

  Status WithLock(const std::string& path, int timeout_ms,
                  const std::function<Status()>& body) override {
    std::shared_ptr<std::mutex> lock;
    {
      std::lock_guard guard(mutex_);
      auto& entry = locks_[Resolve(path)];
      if (entry == nullptr) entry = std::make_shared<std::mutex>();
      lock = entry;
    }
    // No timed_mutex: GCC's thread sanitizer does not see how that is locked.
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
    std::unique_lock held(*lock, std::try_to_lock);
    while (!held && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      (void)held.try_lock();
    }
    if (!held) return ErrnoStatus(EWOULDBLOCK, "cannot lock", path);
    return body();
  }

  int64_t MonotonicNs() override { return NowNs(false); }
  int64_t WallNs() override { return NowNs(true); }

 private:
  static bool IsRoot(const std::string& path) { return path.empty() || path == "." || path == "/"; }

  static std::string Normalise(const std::string& path) {
    std::string out;
    for (char c : path) {
      if (c != '/' || out.empty() || out.back() != '/') out += c;
    }
    while (out.size() > 1 && out.back() == '/') out.pop_back();
    return out.starts_with("./") ? out.substr(2) : out;
  }

  // Follows links in any component, eight times at most.
  std::string Resolve(const std::string& path) const {
    std::string full = Normalise(path);
    for (int hops = 0; hops < 8; ++hops) {
      bool changed = false;
      for (const auto& [link, target] : links_) {
        const bool within =
            full.starts_with(link) && (full.size() == link.size() || full[link.size()] == '/');
        if (!within) continue;
        const size_t slash = link.rfind('/');
        const std::string base =
            target.starts_with("/") || slash == std::string::npos ? "" : link.substr(0, slash + 1);
        full = Normalise(base + target + full.substr(link.size()));
        changed = true;
        break;
      }
      if (!changed) break;
    }
    return full;
  }

  bool ParentExists(const std::string& full) const {
    const size_t slash = full.rfind('/');
    const std::string parent = slash == std::string::npos ? "" : full.substr(0, slash);
    return IsRoot(parent) || directories_.contains(parent);
  }

  std::set<std::string> Children(const std::string& full) const {
    const std::string prefix = full.empty() || full == "." ? "" : full == "/" ? "/" : full + "/";
    std::set<std::string> names;
    const auto add = [&](const std::string& path) {
      if (path.starts_with(prefix) && path.size() > prefix.size() &&
          (!prefix.empty() || path[0] != '/')) {
        names.insert(path.substr(prefix.size(), path.find('/', prefix.size()) - prefix.size()));
      }
    };
    for (const auto& entry : files_) add(entry.first);
    for (const auto& entry : links_) add(entry.first);
    for (const auto& path : directories_) add(path);
    return names;
  }

  Result<std::unique_ptr<WritableFile>> Create(const std::string& path, bool exclusive) {
    std::lock_guard lock(mutex_);
    const std::string full = Resolve(path);
    if (IsRoot(full) || directories_.contains(full))
      return ErrnoStatus(EISDIR, "cannot create", path);
    if (!ParentExists(full)) return ErrnoStatus(ENOENT, "cannot create", path);
    auto& node = files_[full];
    if (node != nullptr && exclusive) return ErrnoStatus(EEXIST, "cannot create", path);
    if (node == nullptr) {
      node = std::make_shared<Node>();
      node->mtime_ns = NowNs(true);
    }
    return std::unique_ptr<WritableFile>(new MemoryWritableFile(path, node));
  }

  Result<std::shared_ptr<Node>> FindFile(const std::string& path, std::string_view action) {
    std::lock_guard lock(mutex_);
    const std::string full = Resolve(path);
    auto it = files_.find(full);
    if (it != files_.end()) return it->second;
    const bool directory = IsRoot(full) || directories_.contains(full);
    return ErrnoStatus(directory ? EISDIR : ENOENT, action, path);
  }

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Node>> files_;
  std::set<std::string> directories_;
  std::map<std::string, std::string> links_;
  std::map<std::string, std::shared_ptr<std::mutex>> locks_;
};

}  // namespace

std::unique_ptr<Env> NewMemoryEnv() { return std::make_unique<MemoryEnv>(); }

}  // namespace tdump
