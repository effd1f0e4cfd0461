#include "tools/merge_join.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

#include "core/env.h"
#include "core/text.h"
#include "io/node_env.h"
#include "io/node_file.h"
#include "io/pass_store.h"

namespace tdump::tools {
namespace {

namespace fs = std::filesystem;

Status Trouble(std::string_view action, const fs::path& path, const std::error_code& error) {
  return ErrnoStatus(error.value(), action, path.string());
}

bool SameFile(const fs::path& a, const fs::path& b) {
  std::error_code error;
  if (fs::equivalent(a, b, error)) return true;
  const auto bytes_a = fs::file_size(a, error), bytes_b = fs::file_size(b, error);
  if (error || bytes_a != bytes_b) return false;
  const auto time_a = fs::last_write_time(a, error), time_b = fs::last_write_time(b, error);
  return !error && time_a == time_b;
}

// `to` becomes a link to `from`, or a copy with its time; appears by rename.
Status LinkFile(const fs::path& from, const fs::path& to, JoinedRun* run) {
  const fs::path part = to.string() + ".joining";
  std::error_code error;
  fs::remove(part, error);
  fs::create_hard_link(from, part, error);
  if (!error) {
    ++run->linked;
  } else {
    fs::copy_file(from, part, error);
    if (error) return Trouble("cannot copy", from, error);
    const auto time = fs::last_write_time(from, error);
    if (!error) fs::last_write_time(part, time, error);
    ++run->copied;
  }
  fs::rename(part, to, error);
  return error ? Trouble("cannot rename to", to, error) : Status::Ok();
}

// With the mode of `from`, as far as the umask allows it: most runs are for their owner's eyes.
Status MakeDirectoryLike(const fs::path& from, const fs::path& to) {
  std::error_code error;
  const fs::perms mode = fs::status(from, error).permissions();
  if (error) return Trouble("cannot read", from, error);
  return io::RunEnv()->MakeDirs(to.string(), static_cast<int>(mode | fs::perms::owner_all));
}

Status LinkDirectory(const fs::path& from, const fs::path& to, JoinedRun* run) {
  TDUMP_RETURN_IF_ERROR(MakeDirectoryLike(from, to));
  std::error_code error;
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(from, error)) {
    if (entry.is_regular_file(error)) names.push_back(entry.path().filename().string());
  }
  if (error) return Trouble("cannot list", from, error);
  for (const std::string& name : names) {
    if (SameFile(from / name, to / name)) continue;
    TDUMP_RETURN_IF_ERROR(LinkFile(from / name, to / name, run));
  }
  // What was unfinished at an earlier join and has its final name now.
  std::vector<fs::path> stale;
  for (const auto& entry : fs::directory_iterator(to, error)) {
    const fs::path name = entry.path().filename();
    if (name.extension() == ".part" && !fs::exists(from / name, error)) stale.push_back(name);
  }
  for (const fs::path& name : stale) fs::remove(to / name, error);
  return Status::Ok();
}

struct Place {
  std::string path;
  std::unique_ptr<io::PassStore> store;
  bool is_rank = false;
  std::set<std::string> keys;
};

Result<Place> Look(const std::string& path) {
  Place place;
  place.path = path;
  TDUMP_ASSIGN_OR_RETURN(place.store, io::PassStore::Open(io::RunEnv(), path));
  for (const io::ProcessEntry& process : place.store->processes()) {
    if (!process.identity.job_key.empty()) place.keys.insert(process.identity.job_key);
    place.is_rank |= process.directory.empty();
  }
  return place;
}

bool SameProcess(const io::IdentitySection& a, const io::IdentitySection& b) {
  return a.rank == b.rank && a.pid == b.pid && a.start_time == b.start_time && a.host == b.host &&
         a.job_key == b.job_key;
}

// Where a process of `from` goes in `into`: its own name, or one with a
// number when another process has it.
std::string TargetName(const Place& into, const Place& from, const io::ProcessEntry& process) {
  std::string name = process.directory;
  if (name.empty()) name = fs::weakly_canonical(from.path).filename().string();
  if (!name.starts_with("rank"))
    name = fmt::format("rank{}_pid{}", process.identity.rank, process.identity.pid);
  const auto taken = [&](const std::string& candidate) {
    return std::any_of(into.store->processes().begin(), into.store->processes().end(),
                       [&](const io::ProcessEntry& there) {
                         return there.directory == candidate &&
                                !SameProcess(there.identity, process.identity);
                       });
  };
  std::string free = name;
  for (int n = 2; taken(free); ++n) free = fmt::format("{}_{}", name, n);
  return free;
}

// The node files of `from` come as they are, with all that is in them.
Status LinkNodeFiles(const Place& from, const Place& into, JoinedRun* run) {
  TDUMP_ASSIGN_OR_RETURN(const auto names, io::RunEnv()->List(from.path));
  for (const std::string& name : names) {
    if (!io::IsNodeFileName(name)) continue;
    const fs::path source = fs::path(from.path) / name;
    fs::path target = fs::path(into.path) / name;
    std::error_code error;
    for (int n = 2; fs::exists(target, error) && !SameFile(source, target); ++n)
      target = fs::path(into.path) / fmt::format("{}_{}{}", fs::path(name).stem().string(), n,
                                                 fs::path(name).extension().string());
    if (!fs::exists(target, error)) TDUMP_RETURN_IF_ERROR(LinkFile(source, target, run));
  }
  return Status::Ok();
}

Status Join(const Place& from, Place* into, JoinedRun* run) {
  std::error_code error;
  if (fs::equivalent(from.path, into->path, error)) return Status::Ok();
  bool in_node_file = false;
  for (const io::ProcessEntry& process : from.store->processes()) {
    const fs::path source =
        process.directory.empty() ? fs::path(from.path) : fs::path(from.path) / process.directory;
    const fs::path target = fs::path(into->path) / TargetName(*into, from, process);
    const bool is_of_job = into->keys.contains(process.identity.job_key);
    if (!fs::exists(source, error)) {  // comes with all that is in its node file
      if (target.filename() != source.filename())
        return InvalidArgument(fmt::format(
            "'{}' and '{}' both have a process {}, and one of them is in a node file, where it "
            "cannot get another name: compare the runs one by one",
            into->path, from.path, source.filename().string()));
      in_node_file = in_node_file || is_of_job;
      continue;
    }
    if (!is_of_job || fs::equivalent(source, target, error)) continue;
    TDUMP_RETURN_IF_ERROR(LinkDirectory(source, target, run));
  }
  if (in_node_file) TDUMP_RETURN_IF_ERROR(LinkNodeFiles(from, *into, run));
  // What the ranks told each other of their steps; the numbers of the last ones are settled by it.
  const fs::path clock = fs::path(from.path) / "clock";
  if (fs::is_directory(clock, error))
    TDUMP_RETURN_IF_ERROR(LinkDirectory(clock, fs::path(into->path) / "clock", run));
  run->from.push_back(from.path);
  // Later names are chosen with these in view.
  TDUMP_ASSIGN_OR_RETURN(into->store, io::PassStore::Open(io::RunEnv(), into->path));
  return Status::Ok();
}

}  // namespace

Result<std::vector<JoinedRun>> JoinRuns(const std::vector<std::string>& paths) {
  std::vector<Place> places;
  std::vector<JoinedRun> runs;
  for (const std::string& path : paths) {
    TDUMP_ASSIGN_OR_RETURN(Place place, Look(path));
    const auto home = std::find_if(places.begin(), places.end(), [&](const Place& earlier) {
      return std::any_of(place.keys.begin(), place.keys.end(),
                         [&](const std::string& key) { return earlier.keys.contains(key); });
    });
    if (home != places.end()) {
      TDUMP_RETURN_IF_ERROR(Join(place, &*home, &runs[home - places.begin()]));
      continue;
    }
    if (place.is_rank) {
      return InvalidArgument(
          fmt::format("'{}' is one rank's directory: name the run above it, or a run of the same "
                      "job before it",
                      path));
    }
    JoinedRun run;
    run.path = path;
    runs.push_back(std::move(run));
    places.push_back(std::move(place));
  }
  return runs;
}

}  // namespace tdump::tools
