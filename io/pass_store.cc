// How a run becomes a list of processes and passes:
//   1. List the run directory. A folder that holds a manifest or pass files is a process; so is the
//      directory itself when it does (a rank directory opened alone). A single pass file is a
//      process with one pass.
//   2. Read each process's manifest (several threads: a run may have thousands), then the step
//      numbers that were settled after its end.
//   3. Hold the list against the files that are there: passes no manifest has (unfinished, or the
//      manifest is torn) are added from their own headers, those of packed files by a scan of what
//      no listed pass covers; listed files that are missing or have another size are damage, unless
//      the manifest says that they were removed.
//   4. Order by (generation, rank, start).
#include "io/pass_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <functional>
#include <map>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

#include "core/parse_number.h"
#include "io/manifest_reader.h"
#include "io/node_env.h"
#include "io/node_file.h"
#include "io/pack_address.h"
#include "io/pack_scan.h"
#include "io/pass_scan.h"

namespace tdump::io {
namespace {

constexpr std::string_view kManifestName = "manifest.tdm";
// Step numbers that were settled after the process had ended (coordinator/agreement_final.h).
constexpr std::string_view kStepsName = "steps.tdm";
constexpr std::string_view kPassSuffix = ".tdp";
constexpr std::string_view kPassPartSuffix = ".tdp.part";

bool IsPart(std::string_view name) { return name.ends_with(kPassPartSuffix); }
bool IsPassFile(std::string_view name) { return name.ends_with(kPassSuffix) || IsPart(name); }

bool IsPackName(std::string_view name) { return IsPassFile(name) && name.starts_with("pack"); }

bool HoldsProcess(const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(),
                     [](const auto& n) { return n == kManifestName || IsPassFile(n); });
}

std::string Below(const std::string& directory, const std::string& name) {
  return directory.empty() ? name : JoinPath(directory, name);
}

std::string FileNameOf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// What a pass file says of itself: its header and, when it stands, its first frame.
Status ReadPassInfo(Env* env, const std::string& path, PassInfo* info) {
  TDUMP_ASSIGN_OR_RETURN(const auto file, FrameFile::Open(env, path, kPassMagic));
  *info = InfoOf(file->header(), ReadPassSection(*file));
  return Status::Ok();
}

// Of a process that wrote no identity: what one of its passes says.
void Identify(const PassInfo& pass, IdentitySection* identity) {
  identity->rank = pass.rank;
  identity->world = std::max(pass.world, pass.rank + 1);
  identity->generation = pass.generation;
  identity->pid = pass.pid;
  identity->host = pass.host;
  identity->started_ns = pass.started_ns;
  identity->selected = 1;
}

// Of a process whose manifest and passes say nothing: what its directory is called, as
// "rank0_pid3069569". It meant to record, as far as anyone knows.
void Identify(std::string_view directory, IdentitySection* identity) {
  constexpr std::string_view kRank = "rank", kPid = "_pid";
  IdentitySection named;
  if (!directory.starts_with(kRank)) return;
  directory.remove_prefix(kRank.size());
  if (!TakeNumber(&directory, &named.rank) || !directory.starts_with(kPid)) return;
  directory.remove_prefix(kPid.size());
  if (!TakeNumber(&directory, &named.pid) || named.rank < 0) return;
  identity->rank = named.rank;
  identity->pid = named.pid;
  identity->selected = 1;
}

class DirectoryReader {
 public:
  DirectoryReader(Env* env, const std::string& run) : env_(env), run_(run) {}

  // `names`: the files of the process's directory.
  void Read(const std::vector<std::string>& names, ProcessEntry* process) const {
    const bool has_manifest = std::find(names.begin(), names.end(), kManifestName) != names.end();
    CountHistory counts;
    if (has_manifest)
      ReadManifest(env_, Path(*process, std::string(kManifestName)), process, &counts);
    if (std::find(names.begin(), names.end(), kStepsName) != names.end()) ReadSteps(process);
    SetOverwrittenAside(names, process);
    CountOverwritten(counts, process);
    for (PassEntry& pass : process->passes) CheckListed(names, &pass, process);
    for (const std::string& name : names) {
      if (IsPackName(name))
        AddUnlistedOfPack(name, process);
      else if (IsPassFile(name))
        AddUnlisted(name, process);
    }
    std::stable_sort(
        process->passes.begin(), process->passes.end(),
        [](const PassEntry& a, const PassEntry& b) { return a.info.ordinal < b.info.ordinal; });
    if (!process->identity.job_key.empty()) return;
    if (!process->passes.empty())
      Identify(process->passes.front().info, &process->identity);
    else if (process->identity.pid == 0)  // not even the manifest's header
      Identify(process->directory, &process->identity);
  }

 private:
  std::string Path(const ProcessEntry& process, const std::string& name) const {
    return JoinPath(run_, Below(process.directory, name));
  }

  // Its entries come after the manifest's and win.
  void ReadSteps(ProcessEntry* process) const {
    ProcessEntry settled;
    ReadManifest(env_, Path(*process, std::string(kStepsName)), &settled);
    std::map<uint64_t, StepMapSection> steps;
    for (const auto* list : {&process->steps, &settled.steps}) {
      for (const StepMapSection& step : *list) steps[step.local_step] = step;
    }
    process->steps.clear();
    for (const auto& [local, step] : steps) process->steps.push_back(step);
    process->damage.insert(process->damage.end(), settled.damage.begin(), settled.damage.end());
  }

  void CheckListed(const std::vector<std::string>& names, PassEntry* pass,
                   ProcessEntry* process) const {
    if (pass->file.empty()) return;  // never made: `error` says why
    const std::string path = JoinPath(run_, pass->file);
    const Result<FileInfo> found = env_->Stat(path);
    if (!found.ok()) {
      const std::string part = FileNameOf(pass->file) + ".part";
      if (std::find(names.begin(), names.end(), part) != names.end()) {
        pass->file += ".part";
        pass->part = pass->offset == 0;  // a packed file has its final name last
        if (pass->part) return;
        return CheckPlace(pass, process);
      }
      if (pass->error.empty()) pass->error = "the file is missing";
      process->damage.push_back({path, 0, "listed in the manifest, but the file is missing"});
    } else if (pass->offset != 0) {
      CheckPlace(pass, process);
    } else if (found->bytes != pass->file_bytes && pass->error.empty()) {
      pass->error = fmt::format("the file has {} bytes, the manifest says {}", found->bytes,
                                pass->file_bytes);
      process->damage.push_back({path, std::min(found->bytes, pass->file_bytes), pass->error});
    }
  }

  // The pass lies within its packed file.
  void CheckPlace(PassEntry* pass, ProcessEntry* process) const {
    const std::string path = JoinPath(run_, pass->file);
    const Result<FileInfo> found = env_->Stat(path);
    const uint64_t bytes = found.ok() ? found->bytes : 0;
    if (pass->offset <= bytes && pass->file_bytes <= bytes - pass->offset) return;
    if (!pass->error.empty()) return;
    pass->error = fmt::format("the packed file has {} bytes, the pass is at {} with {}", bytes,
                              pass->offset, pass->file_bytes);
    process->damage.push_back({path, bytes, pass->error});
  }

  // Listed passes whose file the ring removed.
  void SetOverwrittenAside(const std::vector<std::string>& names, ProcessEntry* process) const {
    const auto gone = [&](const PassEntry& pass) {
      const std::string name = FileNameOf(pass.file);
      const auto is_there = [&](const std::string& n) {
        return std::find(names.begin(), names.end(), n) != names.end();
      };
      if (pass.file.empty() || is_there(name) || is_there(name + ".part")) return false;
      return std::any_of(process->removed.begin(), process->removed.end(), [&](const auto& r) {
        return r.first <= pass.info.ordinal && pass.info.ordinal <= r.last;
      });
    };
    if (process->removed.empty()) return;
    std::vector<PassEntry> kept;
    for (PassEntry& pass : process->passes)
      (gone(pass) ? process->overwritten : kept).push_back(std::move(pass));
    process->passes = std::move(kept);
  }

  static void CountOverwritten(const CountHistory& counts, ProcessEntry* process) {
    if (process->overwritten.empty()) return;
    std::set<uint64_t> ordinals;
    for (const PassEntry& pass : process->overwritten) ordinals.insert(pass.info.ordinal);
    process->overwritten_records = counts.RecordsOf(ordinals);
  }

  // What the scan of a packed file finds beside the passes that are listed.
  void AddUnlistedOfPack(const std::string& name, ProcessEntry* process) const {
    const std::string file = Below(process->directory, name);
    const std::string path = JoinPath(run_, file);
    std::map<uint64_t, uint64_t> listed;  // begin -> end
    for (const PassEntry& pass : process->passes) {
      if (pass.file == file) listed[pass.offset] = pass.offset + pass.file_bytes;
    }
    const Result<FileInfo> found = env_->Stat(path);
    if (!found.ok() || found->bytes == 0) return;  // killed before it was begun
    uint64_t from = kPackAlign;
    const auto scan = [&](uint64_t to) {
      if (to <= from) return;
      const auto passes = ScanPack(env_, path, from, to);
      if (!passes.ok()) return process->damage.push_back({path, 0, passes.status().message()});
      for (const PackedPass& pass : *passes) {
        PassEntry& entry = process->passes.emplace_back();
        entry.info = pass.info;
        entry.file = file;
        entry.offset = pass.offset;
        entry.file_bytes = pass.bytes;
        entry.part = !pass.complete;
      }
    };
    for (const auto& [begin, end] : listed) {
      scan(begin);
      from = std::max(from, PadTo(end, kPackAlign));
    }
    scan(found->bytes);
  }

  void AddUnlisted(const std::string& name, ProcessEntry* process) const {
    PassEntry pass;
    pass.file = Below(process->directory, name);
    const auto is_this = [&](const PassEntry& listed) { return listed.file == pass.file; };
    if (std::any_of(process->passes.begin(), process->passes.end(), is_this)) return;
    pass.part = IsPart(name);
    const std::string path = JoinPath(run_, pass.file);
    if (const Result<FileInfo> found = env_->Stat(path); found.ok()) pass.file_bytes = found->bytes;
    if (const Status status = ReadPassInfo(env_, path, &pass.info); !status.ok()) {
      if (status.code() == StatusCode::kNotFound) return;  // renamed since the directory was listed
      pass.info.ordinal = OrdinalOf(name);
      pass.error = status.message();
      // Made, and then the disk was full: the manifest has the pass, without a file.
      const auto is_told = [&](const PassEntry& listed) {
        return listed.file.empty() && listed.info.ordinal == pass.info.ordinal;
      };
      if (std::any_of(process->passes.begin(), process->passes.end(), is_told)) return;
      // A process killed before its first flush leaves an empty file: no damage.
      if (pass.file_bytes != 0) process->damage.push_back({path, 0, status.message()});
    }
    process->passes.push_back(std::move(pass));
  }

  static uint64_t OrdinalOf(const std::string& name) {
    uint64_t ordinal = 0;
    const size_t digit = name.find_first_of("0123456789");
    if (digit != std::string::npos)
      std::from_chars(name.data() + digit, name.data() + name.size(), ordinal);
    return ordinal;
  }

  Env* env_;
  const std::string& run_;
};

void ForEachInParallel(size_t count, unsigned at_most, const std::function<void(size_t)>& body) {
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) body(i);
  };
  const unsigned cores = std::clamp(std::thread::hardware_concurrency(), 1u, 8u);
  const size_t workers = std::min<size_t>(count, at_most != 0 ? at_most : cores);
  std::vector<std::thread> threads;
  for (size_t i = 1; i < workers; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
}

class FilePassStore : public PassStore {
 public:
  FilePassStore(Env* env, std::string run, unsigned threads)
      : env_(env), run_(std::move(run)), threads_(threads) {}

  Status Read() {
    Result<FileInfo> found = env_->Stat(run_);
    if (const auto packed = ParsePackAddress(run_); packed && !found.ok()) {
      run_ = packed->file;
      return ReadPass(packed->ordinal);
    }
    TDUMP_ASSIGN_OR_RETURN(const FileInfo info, std::move(found));
    if (!info.is_directory) return ReadSingleFile(info);
    TDUMP_ASSIGN_OR_RETURN(const auto names, env_->List(run_));
    std::vector<std::vector<std::string>> files;
    for (const std::string& name : names) {
      const Result<FileInfo> below = env_->Stat(JoinPath(run_, name));
      if (!below.ok() || !below->is_directory) continue;
      const auto listed = env_->List(JoinPath(run_, name));
      if (!listed.ok() || !HoldsProcess(*listed)) continue;
      processes_.push_back(
          {.directory = name, .node_file = NodeFileOf(env_, JoinPath(run_, name))});
      files.push_back(*listed);
    }
    if (processes_.empty() && HoldsProcess(names) && !IsMergedRun()) {  // a rank directory
      processes_.push_back({.node_file = NodeFileOf(env_, run_)});
      files.push_back(names);
    }
    TDUMP_RETURN_IF_ERROR(CheckNodeFiles(names));
    const DirectoryReader reader(env_, run_);
    ListPool<ExpectSection> expected;
    ListPool<OperatorCountSection> counts;
    ForEachInParallel(processes_.size(), threads_, [&](size_t i) {
      reader.Read(files[i], &processes_[i]);
      expected.Share(&processes_[i].expected);
      counts.Share(&processes_[i].counts);
    });
    const auto order = [](const ProcessEntry& p) {
      return std::tie(p.identity.generation, p.identity.rank, p.identity.process,
                      p.identity.started_ns, p.directory);
    };
    std::sort(processes_.begin(), processes_.end(),
              [&](const auto& a, const auto& b) { return order(a) < order(b); });
    NumberProcesses();
    return Status::Ok();
  }

  // No process can know how many of its rank came before it.
  void NumberProcesses() {
    for (size_t i = 1; i < processes_.size(); ++i) {
      const IdentitySection& before = processes_[i - 1].identity;
      IdentitySection& now = processes_[i].identity;
      if (now.rank == before.rank && now.generation == before.generation)
        now.process = before.process + 1;
    }
  }

  const std::string& run() const override { return run_; }
  const std::vector<ProcessEntry>& processes() const override { return processes_; }

  Result<std::unique_ptr<PassReader>> OpenPass(const ProcessEntry&,
                                               const PassEntry& pass) const override {
    if (pass.file.empty())
      return NotFound(fmt::format("pass {}: no file: {}", pass.info.ordinal, pass.error));
    const std::string path = JoinPath(run_, pass.file);
    const auto open = [&](const std::string& file) {
      return pass.offset == 0 ? PassReader::Open(env_, file, &names_)
                              : PassReader::Open(env_, file, pass.offset, pass.file_bytes, &names_);
    };
    auto reader = open(path);
    // Finished since the directory was listed.
    if (!reader.ok() && reader.status().code() == StatusCode::kNotFound && IsPart(path))
      reader = open(path.substr(0, path.size() - std::string_view(".part").size()));
    if (!reader.ok()) return reader;
    if (pass.listed) TDUMP_RETURN_IF_ERROR(CheckWhose((*reader)->info(), pass.info, path));
    return reader;
  }

  Result<PassDigest> Digest(const ProcessEntry&, const PassEntry& pass) const override {
    const std::string path = JoinPath(run_, pass.file);
    return pass.offset == 0 ? DigestPass(env_, path)
                            : DigestPass(env_, path, pass.offset, pass.file_bytes);
  }

 private:
  // What is damaged in a node file is no process's own; the first one tells of it.
  Status CheckNodeFiles(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      if (!IsNodeFileName(name)) continue;
      const std::string path = JoinPath(run_, name);
      const auto contents = ReadNodeFile(env_, path);
      if (contents.ok() && !contents->damaged) continue;
      const auto info = env_->Stat(path);
      if (info.ok() && info->bytes == 0) continue;  // killed before it was begun
      Damage damage{path, contents.ok() ? *contents->damaged : 0,
                    contents.ok()
                        ? "an extent of the node file is damaged; files that it belongs to "
                          "end there"
                        : contents.status().message()};
      if (processes_.empty())
        return Corrupt(fmt::format("{}: offset {}: {}", path, damage.offset, damage.what));
      processes_.front().damage.push_back(std::move(damage));
    }
    return Status::Ok();
  }

  // A run whose rank directories are gone still has its merged manifest.
  bool IsMergedRun() const {
    const auto manifest = FrameFile::Open(env_, JoinPath(run_, kManifestName), kManifestMagic);
    return manifest.ok() && (*manifest)->header().rank < 0;
  }

  // One pass of a packed file; the reader says which there are when it is none of them.
  Status ReadPass(uint64_t ordinal) {
    TDUMP_RETURN_IF_ERROR(PassReader::Open(env_, fmt::format("{}#{}", run_, ordinal)).status());
    TDUMP_ASSIGN_OR_RETURN(const FileInfo info, env_->Stat(run_));
    TDUMP_RETURN_IF_ERROR(ReadSingleFile(info));
    std::erase_if(processes_.front().passes,
                  [&](const PassEntry& pass) { return pass.info.ordinal != ordinal; });
    return Status::Ok();
  }

  Status ReadSingleFile(const FileInfo& info) {
    const std::string name = FileNameOf(run_);
    std::vector<PassEntry> passes;
    if (IsPackedFile(env_, run_)) {
      TDUMP_ASSIGN_OR_RETURN(const auto packed, ScanPack(env_, run_));
      for (const PackedPass& found : packed) {
        PassEntry& pass = passes.emplace_back();
        pass.info = found.info;
        pass.offset = found.offset;
        pass.file_bytes = found.bytes;
        pass.part = !found.complete;
      }
      if (passes.empty()) return Corrupt(run_ + ": a packed file without a pass");
    } else {
      PassEntry& pass = passes.emplace_back();
      pass.part = IsPart(name);
      pass.file_bytes = info.bytes;
      TDUMP_RETURN_IF_ERROR(ReadPassInfo(env_, run_, &pass.info));
    }
    for (PassEntry& pass : passes) pass.file = name;
    run_ = run_.size() > name.size() ? run_.substr(0, run_.size() - name.size() - 1) : ".";
    if (run_.empty()) run_ = "/";
    ProcessEntry& process = processes_.emplace_back();
    Identify(passes.front().info, &process.identity);
    process.passes = std::move(passes);
    return Status::Ok();
  }

  Env* env_;
  std::string run_;
  unsigned threads_;
  std::vector<ProcessEntry> processes_;
  mutable NameTables names_;
};

}  // namespace

Status CheckWhose(const PassInfo& found, const PassInfo& listed, const std::string& path) {
  const bool same_process =
      found.pid == listed.pid || found.pid == 0 || listed.pid == 0;  // 0: not known
  if (found.ordinal == listed.ordinal && same_process) return Status::Ok();
  return Corrupt(fmt::format(
      "{}: this is pass {} of rank {} (pid {}); by the manifest pass {} of rank {} (pid {}) "
      "belongs here: a file was copied over another",
      path, found.ordinal, found.rank, found.pid, listed.ordinal, listed.rank, listed.pid));
}

Result<std::unique_ptr<PassStore>> PassStore::Open(Env* env, const std::string& run,
                                                   unsigned threads) {
  auto store = std::make_unique<FilePassStore>(env, run, threads);
  TDUMP_RETURN_IF_ERROR(store->Read());
  return std::unique_ptr<PassStore>(std::move(store));
}

}  // namespace tdump::io
