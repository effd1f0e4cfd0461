#include "compare/foreign/dump_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "compare/foreign/foreign_file.h"
#include "compare/foreign/msprobe.h"
#include "settings/dims.h"

namespace tdump::compare::foreign {
namespace {

class Reader {
 public:
  explicit Reader(std::shared_ptr<OpenFiles> files) : files_(std::move(files)) {}

  DumpContents Read(DumpKind kind, const DumpUnit& unit) {
    if (kind == DumpKind::kProbe) {
      ReadProbe(unit.directory);
    } else {
      for (const std::string& name : unit.files) ReadNamed(kind, unit.directory, name);
    }
    return std::move(contents_);
  }

 private:
  void Damaged(const std::string& path, const Status& status) {
    contents_.damage.push_back({path, 0, status.message()});
  }

  std::optional<ForeignFile> ReadFile(const std::string& path) {
    const auto read = [&]() -> Result<ForeignFile> {
      TDUMP_ASSIGN_OR_RETURN(Bytes bytes, files_->Open(path));
      return ReadForeignFile(std::move(bytes));
    };
    Result<ForeignFile> file = read();
    if (!file.ok()) {
      Damaged(path, file.status());
      return std::nullopt;
    }
    for (const std::string& skipped : file->skipped)
      contents_.skipped.push_back(path + ": " + skipped);
    return std::move(*file);
  }

  void Add(NamedKey name, ForeignTensor tensor) {
    if (tensor.parameter && !name.knows_role) AsParameter(&name);
    DumpTensor added{std::move(name), tensor.dtype, tensor.sizes, std::nullopt, "", std::nullopt};
    added.values = std::move(tensor);
    contents_.tensors.push_back(std::move(added));
  }

  // torch says of a parameter that it is one.
  static void AsParameter(NamedKey* name) {
    std::string whole = name->key.path;
    if (!name->key.arg.empty()) whole += "." + name->key.arg;
    const size_t dot = whole.rfind('.');
    name->key.path = dot == std::string::npos ? "." : whole.substr(0, dot);
    name->key.arg = dot == std::string::npos ? whole : whole.substr(dot + 1);
    name->key.role = Role::kParam;
    name->knows_role = true;
  }

  void ReadNamed(DumpKind kind, const std::string& directory, const std::string& file_name) {
    std::optional<ForeignFile> file = ReadFile(JoinPath(directory, file_name));
    if (!file) return;
    const std::string stem(WithoutTensorSuffix(file_name));
    for (ForeignTensor& tensor : file->tensors) {
      if (kind == DumpKind::kTagged) {
        AddTagged(stem, file->texts["meta.dims"], std::move(tensor));
        continue;
      }
      NamedKey name = tensor.place.empty() ? KeyOfName(stem) : KeyOfPlace(tensor.place);
      Add(std::move(name), std::move(tensor));
    }
  }

  // {'value': tensor, 'meta': {'dims': 't h[tp]', ...}}, or the tensor alone.
  void AddTagged(const std::string& stem, const std::string& dims, ForeignTensor tensor) {
    std::vector<std::string> place = tensor.place;
    if (!place.empty() && place.front() != "value") {
      if (place.front() != "meta")
        contents_.skipped.push_back(
            fmt::format("{}: '{}': only 'value' is a dumped tensor", stem, fmt::join(place, ".")));
      return;
    }
    if (!place.empty()) place.erase(place.begin());
    NamedKey name = ParseTags(stem).value_or(TaggedName{.key = KeyOfName(stem)}).key;
    for (const std::string& part : place) name.key.arg += (name.key.arg.empty() ? "" : ".") + part;
    const size_t before = contents_.tensors.size();
    Add(std::move(name), std::move(tensor));
    // The same language as ours, but for what it has besides; then shapes have to tell.
    if (contents_.tensors.size() > before && !dims.empty() && Dims::Parse(dims).ok())
      contents_.tensors.back().dims = dims;
  }

  void ReadProbe(const std::string& directory) {
    const std::string index_path = JoinPath(directory, "dump.json");
    if (!files_->env()->Stat(index_path).ok()) return ReadProbeFiles(directory);
    const auto read = [&]() -> Result<std::vector<ProbeTensor>> {
      TDUMP_ASSIGN_OR_RETURN(Bytes bytes, files_->Open(index_path));
      return ReadProbeIndex(std::move(bytes));
    };
    Result<std::vector<ProbeTensor>> index = read();
    if (!index.ok()) return Damaged(index_path, index.status());
    for (ProbeTensor& tensor : *index) AddProbe(directory, std::move(tensor));
  }

  void AddProbe(const std::string& directory, ProbeTensor tensor) {
    if (!tensor.data_name.empty() && tensor.data_name != "-1") {
      const std::string path = JoinPath(JoinPath(directory, "dump_tensor_data"), tensor.data_name);
      return AddProbeFile(path, std::move(tensor.name));
    }
    if (!tensor.dtype) {
      contents_.skipped.push_back(fmt::format("{}: '{}': a dtype this version does not know",
                                              directory, ToText(tensor.name.key)));
      return;
    }
    contents_.tensors.push_back({std::move(tensor.name), *tensor.dtype, std::move(tensor.sizes),
                                 std::nullopt, "", std::move(tensor.summary)});
  }

  void AddProbeFile(const std::string& path, NamedKey name) {
    std::optional<ForeignFile> file = ReadFile(path);
    if (!file) return;
    if (file->tensors.size() != 1)
      return Damaged(path, Corrupt(fmt::format("'{}' holds {} tensors instead of one", path,
                                               file->tensors.size())));
    Add(std::move(name), std::move(file->tensors.front()));
  }

  // The index is written last: a job that was killed has only the files.
  void ReadProbeFiles(const std::string& directory) {
    const std::string data = JoinPath(directory, "dump_tensor_data");
    const auto names = files_->env()->List(data);
    if (!names.ok()) return Damaged(data, names.status());
    for (const std::string& name : *names) {
      if (HasTensorSuffix(name))
        AddProbeFile(JoinPath(data, name), KeyOfProbeFile(WithoutTensorSuffix(name)));
    }
  }

  std::shared_ptr<OpenFiles> files_;
  DumpContents contents_;
};

}  // namespace

DumpContents ReadDump(const std::shared_ptr<OpenFiles>& files, DumpKind kind,
                      const DumpUnit& unit) {
  return Reader(files).Read(kind, unit);
}

}  // namespace tdump::compare::foreign
