#include "compare/foreign/dump_catalog.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>

#include "compare/foreign/dump_names.h"
#include "compare/foreign/foreign_file.h"
#include "core/parse_number.h"

namespace tdump::compare::foreign {
namespace {

// A directory's name must not make tables of a billion ranks.
constexpr int32_t kMostRanks = 1 << 20;

constexpr std::string_view kProbeIndex = "dump.json", kProbeData = "dump_tensor_data";

std::string_view LastPart(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return path.substr(path.rfind('/') + 1);
}
std::string_view ParentOf(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? "" : path.substr(0, slash);
}

// "step12" -> 12.
std::optional<uint64_t> NumberAfter(std::string_view word, std::string_view name) {
  if (!name.starts_with(word)) return std::nullopt;
  return ParseNumber<uint64_t>(name.substr(word.size()));
}

// "Pass00012.pt", "pass00012.safetensors" -> 12.
std::optional<uint64_t> PassNumber(std::string_view file) {
  const std::string_view stem = WithoutTensorSuffix(file);
  if (stem == file) return std::nullopt;
  const auto number = NumberAfter("Pass", stem);
  return number ? number : NumberAfter("pass", stem);
}

// "TP1_PP0_Rank1_pid77", "rank1_pid77".
struct ProcessName {
  int32_t rank = 0;
  uint64_t pid = 0;
  std::string coordinates;
};
std::optional<ProcessName> ParseProcessName(std::string_view name) {
  ProcessName process;
  std::optional<uint64_t> rank, pid;
  while (!name.empty()) {
    const size_t end = name.find('_');
    const std::string_view part = name.substr(0, end);
    name = end == std::string_view::npos ? "" : name.substr(end + 1);
    if (const auto tp = NumberAfter("TP", part)) {
      process.coordinates += fmt::format("tp={}", *tp);
    } else if (const auto pp = NumberAfter("PP", part)) {
      process.coordinates += fmt::format("{}pp={}", process.coordinates.empty() ? "" : " ", *pp);
    } else if (const auto number = NumberAfter("pid", part)) {
      pid = number;
    } else {
      rank = NumberAfter("Rank", part) ? NumberAfter("Rank", part) : NumberAfter("rank", part);
      if (!rank || *rank > (1 << 30)) return std::nullopt;
    }
  }
  if (!rank || !pid) return std::nullopt;
  process.rank = static_cast<int32_t>(*rank);
  process.pid = *pid;
  return process;
}

// "rank3" -> 3, "rank" -> 0; "proc77" -> 0: a process without ranks has its number as a name.
std::optional<int32_t> ProbeRank(std::string_view name) {
  if (name == "rank" || NumberAfter("proc", name)) return 0;
  const auto rank = NumberAfter("rank", name);
  if (!rank || *rank > (1 << 30)) return std::nullopt;
  return static_cast<int32_t>(*rank);
}

// "step2_rank1.npz", "step2_rank1_p1_extra_2.safetensors", as tdump-export names them.
struct ExportName {
  uint64_t step = 0;
  int32_t rank = 0;
  uint32_t process = 0;
  bool extra = false;
  uint64_t nth = 0;  // of those that are alike so far
};
std::optional<ExportName> ParseExportName(std::string_view file) {
  if (!file.ends_with(".npz") && !file.ends_with(".safetensors")) return std::nullopt;
  std::string_view stem = WithoutTensorSuffix(file);
  const auto part = [&] {
    const std::string_view first = stem.substr(0, stem.find('_'));
    stem.remove_prefix(std::min(stem.size(), first.size() + 1));
    return first;
  };
  const auto step = NumberAfter("step", part());
  const auto rank = NumberAfter("rank", part());
  if (!step || !rank || *rank > (1 << 30)) return std::nullopt;
  ExportName name{.step = *step, .rank = static_cast<int32_t>(*rank)};
  while (!stem.empty()) {
    const std::string_view more = part();
    const auto process = NumberAfter("p", more), nth = NumberAfter("", more);
    if (more != "extra" && !process && !nth) return std::nullopt;
    name.extra |= more == "extra";
    if (process) name.process = static_cast<uint32_t>(*process);
    if (nth) name.nth = *nth;
  }
  return name;
}

class Finder {
 public:
  Finder(Env* env, const std::string& path) : env_(env), path_(path) {}

  Result<DumpCatalog> Find() {
    TDUMP_ASSIGN_OR_RETURN(const FileInfo info, env_->Stat(path_));
    if (!info.is_directory) return OneFile();
    TDUMP_ASSIGN_OR_RETURN(const std::vector<std::string> names, env_->List(path_));
    if (IsOurs(names)) return NotOne();
    for (const auto find : {&Finder::AddProcessHere, &Finder::AddProbeHere, &Finder::AddTaggedHere,
                            &Finder::AddProcesses, &Finder::AddProbes, &Finder::AddTaggedBelow,
                            &Finder::AddExports, &Finder::AddFiles}) {
      TDUMP_RETURN_IF_ERROR((this->*find)(names));
      if (!catalog_.units.empty()) return Sorted();
    }
    return NotOne();
  }

 private:
  using Names = std::vector<std::string>;

  // A run of tdump itself: its files are not another tool's.
  static bool IsOurs(const Names& names) {
    return std::any_of(names.begin(), names.end(), [](const std::string& name) {
      return name == "manifest.tdm" || name == "generations" || name.ends_with(".tdp") ||
             name.ends_with(".tdp.part");
    });
  }

  Status NotOne() const {
    return NotFound(fmt::format(
        "'{}' is no dump of another tool: looked for TP0_PP0_Rank0_pid1/Pass00000.pt and "
        "rank0_pid1/pass00000.pt (SGLang, phyai), step=0___rank=0___name=q.pt (SGLang's dumper), "
        "step0/rank0/dump.json and step0/proc1/dump.json (msprobe) and *.pt, *.npy, *.npz, "
        "*.safetensors",
        path_));
  }

  Result<DumpCatalog> OneFile() {
    if (path_.ends_with(".tdp") || path_.ends_with(".part")) return NotOne();
    if (!HasTensorSuffix(path_)) {
      const auto file = OpenFiles::Of(env_)->Open(path_);
      if (file.ok() && !LooksLikeTensors(**file))
        return NotFound(
            fmt::format("'{}' is no file of tensors: none of torch.save (.pt), NumPy "
                        "(.npy, .npz) and safetensors",
                        path_));
    }
    catalog_.kind = DumpKind::kFiles;
    const std::string directory(ParentOf(path_));
    catalog_.units.push_back(
        {.directory = directory.empty() && path_.starts_with('/') ? "/" : directory,
         .files = {std::string(LastPart(path_))}});
    return std::move(catalog_);
  }

  Result<DumpCatalog> Sorted() {
    for (const DumpUnit& unit : catalog_.units) {
      if (unit.rank >= kMostRanks)
        return InvalidArgument(fmt::format("'{}': rank {}: ranks below {} are compared",
                                           unit.directory, unit.rank, kMostRanks));
    }
    std::stable_sort(catalog_.units.begin(), catalog_.units.end(),
                     [](const DumpUnit& a, const DumpUnit& b) {
                       return std::tie(a.step, a.rank, a.process, a.extra) <
                              std::tie(b.step, b.rank, b.process, b.extra);
                     });
    return std::move(catalog_);
  }

  // Empty for what is no directory, or may not be read.
  Names ListIn(const std::string& directory) const {
    const auto info = env_->Stat(directory);
    if (!info.ok() || !info->is_directory) return {};
    auto names = env_->List(directory);
    return names.ok() ? std::move(*names) : Names();
  }

  // --- Pass files ---

  void AddPasses(const std::string& directory, const Names& names, const ProcessName& process) {
    const uint32_t nth = processes_[process.rank];
    bool any = false;
    for (const std::string& name : names) {
      const auto step = PassNumber(name);
      if (!step) continue;
      any = true;
      catalog_.units.push_back({.step = *step,
                                .rank = process.rank,
                                .process = nth,
                                .directory = directory,
                                .files = {name}});
    }
    if (!any) return;
    ++processes_[process.rank];
    catalog_.kind = DumpKind::kPasses;
    if (!process.coordinates.empty()) catalog_.coordinates[process.rank] = process.coordinates;
  }

  Status AddProcessHere(const Names& names) {
    const auto process = ParseProcessName(LastPart(path_));
    AddPasses(path_, names, process.value_or(ProcessName()));
    if (process) catalog_.rank = process->rank;
    return {};
  }

  Status AddProcesses(const Names& names) {
    std::vector<std::pair<ProcessName, std::string>> found;
    for (const std::string& name : names) {
      if (const auto process = ParseProcessName(name)) found.emplace_back(*process, name);
    }
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
      return std::tie(a.first.rank, a.first.pid) < std::tie(b.first.rank, b.first.pid);
    });
    for (const auto& [process, name] : found) {
      const std::string directory = JoinPath(path_, name);
      const Names files = ListIn(directory);
      if (!IsOurs(files)) AddPasses(directory, files, process);
    }
    return {};
  }

  // --- SGLang's dumper ---

  void AddTagged(const std::string& directory, const Names& names) {
    std::map<std::pair<uint64_t, int32_t>, std::vector<std::pair<uint64_t, std::string>>> found;
    for (const std::string& name : names) {
      const auto tags = ParseTags(WithoutTensorSuffix(name));
      if (!tags) continue;
      found[{tags->step, tags->rank}].emplace_back(tags->dump_index, name);
      if (!tags->coordinates.empty()) catalog_.coordinates[tags->rank] = tags->coordinates;
    }
    for (auto& [place, files] : found) {
      std::sort(files.begin(), files.end());
      DumpUnit unit{.step = place.first, .rank = place.second, .directory = directory};
      for (auto& [index, name] : files) unit.files.push_back(std::move(name));
      catalog_.units.push_back(std::move(unit));
    }
    if (!found.empty()) catalog_.kind = DumpKind::kTagged;
  }

  Status AddTaggedHere(const Names& names) {
    AddTagged(path_, names);
    return {};
  }

  Status AddTaggedBelow(const Names& names) {
    Names dumps;
    for (const std::string& name : names) {
      const Names files = ListIn(JoinPath(path_, name));
      const bool has = std::any_of(files.begin(), files.end(), [](const std::string& file) {
        return ParseTags(WithoutTensorSuffix(file)).has_value();
      });
      if (!has) continue;
      dumps.push_back(name);
      if (dumps.size() == 1) AddTagged(JoinPath(path_, name), files);
    }
    if (dumps.size() < 2) return {};
    return InvalidArgument(fmt::format("'{}' holds several dumps: {}; name one of them", path_,
                                       fmt::join(dumps, ", ")));
  }

  // --- msprobe ---

  static bool IsProbe(const Names& names) {
    return std::any_of(names.begin(), names.end(), [](const std::string& name) {
      return name == kProbeIndex || name == kProbeData;
    });
  }

  void AddProbe(const std::string& directory, uint64_t step, int32_t rank) {
    catalog_.kind = DumpKind::kProbe;
    const auto process = static_cast<uint32_t>(std::count_if(
        catalog_.units.begin(), catalog_.units.end(),
        [&](const DumpUnit& unit) { return unit.step == step && unit.rank == rank; }));
    catalog_.units.push_back(
        {.step = step, .rank = rank, .process = process, .directory = directory});
  }

  Status AddProbeHere(const Names& names) {
    if (!IsProbe(names)) return {};
    catalog_.rank = ProbeRank(LastPart(path_)).value_or(0);
    AddProbe(path_, NumberAfter("step", LastPart(ParentOf(path_))).value_or(0), *catalog_.rank);
    return {};
  }

  Status AddProbeRanks(const std::string& directory, const Names& names, uint64_t step) {
    for (const std::string& name : names) {
      const auto rank = ProbeRank(name);
      if (!rank) continue;
      const Names files = ListIn(JoinPath(directory, name));
      if (IsProbe(files)) AddProbe(JoinPath(directory, name), step, *rank);
    }
    return {};
  }

  Status AddProbes(const Names& names) {
    TDUMP_RETURN_IF_ERROR(
        AddProbeRanks(path_, names, NumberAfter("step", LastPart(path_)).value_or(0)));
    for (const std::string& name : names) {
      const auto step = NumberAfter("step", name);
      if (!step) continue;
      const std::string directory = JoinPath(path_, name);
      const Names ranks = ListIn(directory);
      TDUMP_RETURN_IF_ERROR(AddProbeRanks(directory, ranks, *step));
    }
    return {};
  }

  // --- Passes of tdump itself, exported ---

  // Where all files of tensors are such.
  Status AddExports(const Names& names) {
    std::vector<std::pair<ExportName, std::string>> found;
    for (const std::string& name : names) {
      if (!HasTensorSuffix(name)) continue;
      const auto place = ParseExportName(name);
      if (!place) return {};
      found.emplace_back(*place, name);
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const auto& a, const auto& b) { return a.first.nth < b.first.nth; });
    for (auto& [place, name] : found)
      catalog_.units.push_back({.step = place.step,
                                .rank = place.rank,
                                .process = place.process,
                                .extra = place.extra,
                                .directory = path_,
                                .files = {std::move(name)}});
    return {};
  }

  // --- Files of tensors ---

  Status AddFiles(const Names& names) {
    DumpUnit unit{.directory = path_};
    std::copy_if(names.begin(), names.end(), std::back_inserter(unit.files), HasTensorSuffix);
    if (!unit.files.empty()) catalog_.units.push_back(std::move(unit));
    return {};
  }

  Env* env_;
  const std::string path_;
  DumpCatalog catalog_;
  std::map<int32_t, uint32_t> processes_;  // of a rank, so far
};

}  // namespace

std::string_view ToString(DumpKind kind) {
  switch (kind) {
    case DumpKind::kPasses:
      return "pass files";
    case DumpKind::kTagged:
      return "SGLang dumper";
    case DumpKind::kProbe:
      return "msprobe";
    case DumpKind::kFiles:
      return "tensor files";
  }
  return "unknown";
}

Result<DumpCatalog> FindDump(Env* env, const std::string& path) { return Finder(env, path).Find(); }

}  // namespace tdump::compare::foreign
