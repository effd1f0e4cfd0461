#include "compare/foreign/foreign_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "compare/foreign/numpy_file.h"
#include "compare/foreign/safetensors_file.h"
#include "compare/foreign/torch_file.h"

namespace tdump::compare::foreign {
namespace {

constexpr std::string_view kSuffixes[] = {".pt", ".pth", ".npy", ".npz", ".safetensors"};

Result<ForeignFile> ReadArchive(const Bytes& file) {
  TDUMP_ASSIGN_OR_RETURN(const auto archive, ZipArchive::Open(file));
  if (IsTorchArchive(*archive)) return ReadTorchArchive(archive, file);
  const bool has_arrays =
      std::any_of(archive->members().begin(), archive->members().end(),
                  [](const ZipMember& member) { return member.name.ends_with(".npy"); });
  if (has_arrays || archive->members().empty()) return ReadNpz(archive);
  return Unsupported(
      fmt::format("'{}' is a ZIP file, but neither of torch.save (no NAME/data.pkl in it) nor of "
                  "numpy.savez (no NAME.npy)",
                  file->name()));
}

}  // namespace

Result<ForeignFile> ReadForeignFile(Bytes file) {
  if (ZipArchive::LooksLikeOne(*file)) return ReadArchive(file);
  if (LooksLikeNpy(*file)) {
    TDUMP_ASSIGN_OR_RETURN(ForeignTensor tensor, ReadNpy(file));
    ForeignFile all;
    all.tensors.push_back(std::move(tensor));
    return all;
  }
  if (LooksLikeLegacyTorch(*file)) return ReadLegacyTorch(file);
  if (LooksLikeSafetensors(*file)) return ReadSafetensors(file);
  return Unsupported(fmt::format(
      "'{}' is no file of tensors: it begins like none of torch.save (.pt), NumPy (.npy, .npz) and "
      "safetensors",
      file->name()));
}

bool LooksLikeTensors(const ByteSource& file) {
  return ZipArchive::LooksLikeOne(file) || LooksLikeNpy(file) || LooksLikeLegacyTorch(file) ||
         LooksLikeSafetensors(file);
}

bool HasTensorSuffix(std::string_view name) { return WithoutTensorSuffix(name) != name; }

std::string_view WithoutTensorSuffix(std::string_view name) {
  for (const std::string_view suffix : kSuffixes) {
    if (name.size() > suffix.size() && name.ends_with(suffix))
      return name.substr(0, name.size() - suffix.size());
  }
  return name;
}

}  // namespace tdump::compare::foreign
