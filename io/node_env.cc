#include "io/node_env.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "io/node_file.h"
#include "io/node_member.h"

namespace tdump::io {
namespace {

// Two changes of a directory within it may have the same time.
constexpr int64_t kClockGrainNs = 2'000'000'000;

// "a/b/" is "a/b".
std::string WithoutSlashes(const std::string& path) {
  std::string text = path;
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

// "a/b/c" as "a/b" and "c".
std::pair<std::string, std::string> Split(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {".", path};
  return {WithoutSlashes(path.substr(0, std::max<size_t>(slash, 1))), path.substr(slash + 1)};
}

// What a path can mean in the node files of a run.
struct Place {
  std::string run;
  std::string name;  // "rank0_pid7", or "rank0_pid7/pack00000.tdp" of a file
};

Place DirectoryPlace(const std::string& path) {
  const auto [run, name] = Split(WithoutSlashes(path));
  return {run, name};
}

Place FilePlace(const std::string& path) {
  const auto [directory, file] = Split(WithoutSlashes(path));
  const auto [run, name] = Split(directory);
  return {run, name + "/" + file};
}

// The node files of a run, as they were last read.
struct NodeFiles {
  struct File {
    std::string path;
    uint64_t changes = 0;
  };
  struct Member {
    size_t file = 0;  // of `files`
    NodeMember member;
  };
  int64_t mtime_ns = -1;  // of the run's directory
  std::vector<File> files;
  std::map<std::string, Member> members;  // by name

  bool HasDirectory(const std::string& name) const {
    const auto first = members.lower_bound(name + "/");
    return first != members.end() && first->first.starts_with(name + "/");
  }
};

class NodeEnv final : public Env {
 public:
  NodeEnv(Env* base, std::string run, const std::string& node_file)
      : base_(*base), run_(WithoutSlashes(run)) {
    if (!node_file.empty()) home_ = JoinPath(run_, node_file);
  }

  Result<std::unique_ptr<WritableFile>> CreateExclusive(const std::string& path,
                                                        int mode) override {
    const std::optional<std::string> file = NodeFileFor(path);
    if (!file) return base_.CreateExclusive(path, mode);
    return CreateMember(NodeWriter(&base_, *file), FilePlace(path).name);
  }

  Result<std::unique_ptr<WritableFile>> OpenAppend(const std::string& path, int mode) override {
    const std::optional<std::string> file = NodeFileFor(path);
    if (!file) return base_.OpenAppend(path, mode);
    const auto found = Find(FilePlace(path));
    if (!found) return CreateMember(NodeWriter(&base_, *file), FilePlace(path).name);
    return OpenMember(NodeWriter(&base_, found->first), found->second);
  }

  Result<std::unique_ptr<WritableFile>> OpenShared(const std::string& path, int mode) override {
    return base_.OpenShared(path, mode);
  }

  Result<std::unique_ptr<ReadableFile>> OpenRead(const std::string& path) override {
    auto file = base_.OpenRead(path);
    if (file.ok() || !IsMissing(file.status())) return file;
    const auto found = Find(FilePlace(path));
    return found ? ReadMember(&base_, found->first, found->second, path) : std::move(file);
  }

  Result<std::unique_ptr<MappedFile>> Map(const std::string& path) override {
    auto map = base_.Map(path);
    if (map.ok() || !IsMissing(map.status()) || !Find(FilePlace(path))) return map;
    return Unsupported(path + ": a file in a node file cannot be mapped; read it");
  }

  Status MakeDirs(const std::string& path, int mode) override {
    if (IsBelowHome(WithoutSlashes(path)) || Stat(path).ok()) return Status();
    return base_.MakeDirs(path, mode);
  }

  Status Rename(const std::string& from, const std::string& to) override {
    const std::optional<std::string> file = NodeFileFor(from);
    if (!file) return base_.Rename(from, to);
    const auto found = Find(FilePlace(from));
    if (!found) return NotFound("cannot rename '" + from + "': no such file");
    if (Split(from).first != Split(to).first)
      return Unsupported("cannot rename '" + from + "' to '" + to + "': it is in a node file");
    return NodeWriter(&base_, found->first).Rename(FilePlace(from).name, FilePlace(to).name);
  }

  Status Remove(const std::string& path) override {
    const std::optional<std::string> file = NodeFileFor(path);
    if (!file) return base_.Remove(path);
    const auto found = Find(FilePlace(path));
    if (!found) return NotFound("cannot remove '" + path + "': no such file");
    return NodeWriter(&base_, found->first).Remove(FilePlace(path).name);
  }

  Status SyncDirectory(const std::string& path) override {
    return base_.SyncDirectory(IsMadeHere(path) ? Split(WithoutSlashes(path)).first : path);
  }

  Status Symlink(const std::string& target, const std::string& link) override {
    return base_.Symlink(target, link);
  }

  Result<FileInfo> Stat(const std::string& path) override {
    auto info = base_.Stat(path);
    if (info.ok() || !IsMissing(info.status())) return info;
    if (const auto found = Find(FilePlace(path))) return FileInfo{found->second.bytes, false, 0};
    const Place place = DirectoryPlace(path);
    std::lock_guard lock(mutex_);
    for (const bool again : {false, true}) {
      const NodeFiles* files = Files(place.run, again);
      if (files != nullptr && files->HasDirectory(place.name)) return FileInfo{0, true, 0};
    }
    return info;
  }

  Result<std::vector<std::string>> List(const std::string& directory) override {
    auto names = base_.List(directory);
    if (!names.ok() && !IsMissing(names.status())) return names;
    std::vector<std::string> found = names.ok() ? *names : std::vector<std::string>();
    {
      std::lock_guard lock(mutex_);
      const Place place = DirectoryPlace(directory);
      if (names.ok()) {
        if (std::any_of(names->begin(), names->end(), IsNodeFileName))
          AddDirectories(Files(WithoutSlashes(directory), true), &found);
      } else if (const NodeFiles* files = FilesOf(place)) {
        if (!files->HasDirectory(place.name)) return names;
        AddFiles(*files, place.name + "/", &found);
      } else {
        return names;
      }
    }
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
  }

  Result<uint64_t> FreeBytes(const std::string& path) override {
    return base_.FreeBytes(IsMadeHere(path) ? Split(WithoutSlashes(path)).first : path);
  }
  Status WithLock(const std::string& path, int timeout_ms,
                  const std::function<Status()>& body) override {
    return base_.WithLock(path, timeout_ms, body);
  }
  int64_t MonotonicNs() override { return base_.MonotonicNs(); }
  int64_t WallNs() override { return base_.WallNs(); }

  std::string NodeFileOf(const std::string& directory) {
    std::string file;
    {
      const Place place = DirectoryPlace(directory);
      std::lock_guard lock(mutex_);
      const NodeFiles* files = Files(place.run, false);
      if (files == nullptr || !files->HasDirectory(place.name)) return "";
      file = files->files[files->members.lower_bound(place.name + "/")->second.file].path;
    }
    return base_.Stat(directory).ok() ? "" : file;
  }

 private:
  // Of a path below a directory that is not there, the error of some systems is another one.
  static bool IsMissing(const Status& status) { return status.code() == StatusCode::kNotFound; }

  // A directory of a process that writes here.
  bool IsBelowHome(const std::string& path) const {
    return !home_.empty() && Split(path).first == run_ && Split(path).second.starts_with("rank");
  }

  // A directory that is none on the disk.
  bool IsMadeHere(const std::string& directory) {
    if (IsBelowHome(WithoutSlashes(directory))) return true;
    const auto info = base_.Stat(directory);
    return !info.ok() && Stat(directory).ok();
  }

  // The node file that a file at `path` is or would be in. None: it has a directory of its own.
  std::optional<std::string> NodeFileFor(const std::string& path) {
    const std::string directory = Split(path).first;
    if (IsBelowHome(directory)) return home_;
    if (base_.Stat(directory).ok()) return std::nullopt;
    const Place place = DirectoryPlace(directory);
    std::lock_guard lock(mutex_);
    const NodeFiles* files = Files(place.run, true);
    if (files == nullptr) return std::nullopt;
    const auto first = files->members.lower_bound(place.name + "/");
    if (!files->HasDirectory(place.name)) return std::nullopt;
    return files->files[first->second.file].path;
  }

  // The node file and the member in it, as they are now.
  std::optional<std::pair<std::string, NodeMember>> Find(const Place& place) {
    std::lock_guard lock(mutex_);
    for (const bool again : {false, true}) {
      NodeFiles* files = Files(place.run, again);
      if (files == nullptr) continue;
      const auto found = files->members.find(place.name);
      if (found == files->members.end()) continue;
      const NodeFiles::File& file = files->files[found->second.file];
      NodeMember member = found->second.member;
      const auto moment = ReadNodeMoment(&base_, file.path, &member);
      const bool is_current = moment.ok() && moment->changes == file.changes;
      if (!is_current && !again) continue;
      // An extent that came since then is not among those that are known.
      if (moment.ok()) member.bytes = moment->bytes;
      return std::pair(file.path, std::move(member));
    }
    return std::nullopt;
  }

  // Of the run's directory. nullptr: it has none. `again`: as they are now, else as they were when
  // the directory was last looked at.
  NodeFiles* Files(const std::string& run, bool again) {
    const auto known = runs_.find(run);
    if (!again && known != runs_.end())
      return known->second.files.empty() ? nullptr : &known->second;
    const auto info = base_.Stat(run);
    if (!info.ok() || !info->is_directory) return nullptr;
    NodeFiles& files = runs_[run];
    const bool is_new = base_.WallNs() - info->mtime_ns < kClockGrainNs;
    bool changed = info->mtime_ns != files.mtime_ns || is_new;
    for (const NodeFiles::File& file : files.files) {
      if (changed) break;
      const auto moment = ReadNodeMoment(&base_, file.path, nullptr);
      changed = !moment.ok() || moment->changes != file.changes;
    }
    files.mtime_ns = changed && !Reread(run, &files) ? -1 : info->mtime_ns;
    return files.files.empty() ? nullptr : &files;
  }

  // The same, as it is now of the directory that `place` names.
  NodeFiles* FilesOf(const Place& place) {
    NodeFiles* files = Files(place.run, false);
    if (files == nullptr) return Files(place.run, true);
    const auto first = files->members.lower_bound(place.name + "/");
    if (!files->HasDirectory(place.name)) return Files(place.run, true);
    const NodeFiles::File& file = files->files[first->second.file];
    const auto moment = ReadNodeMoment(&base_, file.path, nullptr);
    const bool is_current = moment.ok() && moment->changes == file.changes;
    return is_current ? files : Files(place.run, true);
  }

  // False: the directory cannot be listed.
  bool Reread(const std::string& run, NodeFiles* files) {
    files->files.clear();
    files->members.clear();
    const auto names = base_.List(run);
    if (!names.ok()) return false;
    for (const std::string& name : *names) {
      if (!IsNodeFileName(name)) continue;
      const std::string path = run == "." ? name : JoinPath(run, name);
      if (!home_.empty() && run == run_ && path != home_) continue;
      auto contents = ReadNodeFile(&base_, path);
      files->files.push_back({path, contents.ok() ? contents->changes : 0});
      if (!contents.ok()) continue;
      for (NodeMember& member : contents->members) {
        const std::string key = member.name;
        files->members[key] = {files->files.size() - 1, std::move(member)};
      }
    }
    return true;
  }

  static void AddDirectories(const NodeFiles* files, std::vector<std::string>* names) {
    if (files == nullptr) return;
    for (const auto& [name, member] : files->members)
      names->push_back(name.substr(0, name.find('/')));
  }
  static void AddFiles(const NodeFiles& files, const std::string& prefix,
                       std::vector<std::string>* names) {
    for (auto it = files.members.lower_bound(prefix);
         it != files.members.end() && it->first.starts_with(prefix); ++it)
      names->push_back(it->first.substr(prefix.size()));
  }

  Env& base_;
  const std::string run_;
  std::string home_;  // path of the node file that directories made here go into
  std::mutex mutex_;  // of runs_
  std::map<std::string, NodeFiles> runs_;
};

}  // namespace

std::unique_ptr<Env> NewNodeEnv(Env* base, std::string run, std::string node_file) {
  return std::make_unique<NodeEnv>(base, std::move(run), node_file);
}

std::string NodeFileOf(Env* env, const std::string& directory) {
  auto* const node = dynamic_cast<NodeEnv*>(env);
  return node == nullptr ? "" : node->NodeFileOf(directory);
}

Env* RunEnv() {
  static Env* const env = NewNodeEnv(Env::Posix()).release();
  return env;
}

}  // namespace tdump::io
