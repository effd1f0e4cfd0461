#include "io/merged_manifest.h"

#include <fmt/format.h>

#include <utility>

#include "core/whole_file.h"
#include "io/archive.h"
#include "io/frame_builder.h"
#include "io/frame_file.h"
#include "io/manifest_reader.h"
#include "io/merged_codec.h"

namespace tdump::io {
namespace {

std::string FrameOf(FrameKind kind, std::string_view body) {
  std::string bytes;
  FrameBuilder frame(kind, &bytes);
  bytes += body;
  frame.Finish();
  return bytes;
}

std::string DirectoryPath(const std::string& run, const std::string& directory) {
  return directory.empty() ? run : JoinPath(run, directory);
}

MergedSourceSection SourceOf(Env* env, const std::string& run, const std::string& directory) {
  MergedSourceSection source;
  source.directory = directory;
  const std::string path = DirectoryPath(run, directory);
  if (const auto info = env->Stat(path); info.ok()) source.directory_mtime_ns = info->mtime_ns;
  if (const auto info = env->Stat(JoinPath(path, kMergedManifestName)); info.ok()) {
    source.manifest_bytes = info->bytes;
    source.manifest_mtime_ns = info->mtime_ns;
  }
  return source;
}

Status AppendText(WritableFile* file, std::string_view bytes) {
  return file->Append(std::as_bytes(std::span(bytes.data(), bytes.size())));
}

// The frames of one process's manifest. One of the other byte order cannot stand in this file: its
// source entry must do.
Status CopyFrames(Env* env, const std::string& path, WritableFile* out) {
  const auto file = FrameFile::Open(env, path, kManifestMagic);
  if (!file.ok() || (*file)->swapped()) return Status::Ok();
  std::vector<Damage> damage;
  return ForEachManifestFrame(
      **file, &damage, [&](const Frame& frame, std::span<const std::byte> body) {
        return AppendText(
            out, FrameOf(frame.kind, {reinterpret_cast<const char*>(body.data()), body.size()}));
      });
}

Status WriteAll(Env* env, const PassStore& store, const std::vector<RunIndex>& generations,
                WritableFile* out) {
  FileHeader header;
  header.magic = kManifestMagic;
  header.rank = -1;
  header.created_ns = static_cast<uint64_t>(env->WallNs());
  std::string bytes;
  AppendStruct(Sealed(header), &bytes);
  MergedHeadSection head;
  head.created_ns = header.created_ns;
  head.sources = store.processes().size();
  head.writer = "tdump " TDUMP_VERSION;
  bytes += FrameOf(FrameKind::kMerged, EncodeSection(head));
  TDUMP_RETURN_IF_ERROR(AppendText(out, bytes));
  for (const ProcessEntry& process : store.processes()) {
    const MergedSourceSection source = SourceOf(env, store.run(), process.directory);
    TDUMP_RETURN_IF_ERROR(AppendText(out, FrameOf(FrameKind::kMerged, EncodeSection(source))));
    const std::string directory = DirectoryPath(store.run(), process.directory);
    TDUMP_RETURN_IF_ERROR(CopyFrames(env, JoinPath(directory, kMergedManifestName), out));
  }
  for (const RunIndex& index : generations) {
    TDUMP_RETURN_IF_ERROR(AppendText(out, FrameOf(FrameKind::kMerged, EncodeRunIndex(index))));
  }
  return Status::Ok();
}

Status TakeFrame(const Frame& frame, std::span<const std::byte> body, bool swapped,
                 MergedManifest* merged) {
  if (frame.kind != FrameKind::kMerged) return Status::Ok();  // copied from a source
  SectionCursor cursor(body, swapped);
  if (!cursor.Next()) return cursor.status();
  if (cursor.id() == MergedHeadSection::kId) {
    TDUMP_ASSIGN_OR_RETURN(merged->head, cursor.Decode<MergedHeadSection>());
  } else if (cursor.id() == MergedSourceSection::kId) {
    TDUMP_ASSIGN_OR_RETURN(auto source, cursor.Decode<MergedSourceSection>());
    merged->sources.push_back(std::move(source));
  } else if (cursor.id() == MergedRunSection::kId) {
    RunIndex index;
    TDUMP_RETURN_IF_ERROR(DecodeRunIndex(body, swapped, merged->sources.size(), &index));
    merged->generations.push_back(std::move(index));
  }
  return Status::Ok();
}

}  // namespace

Status WriteMergedManifest(Env* env, const PassStore& store,
                           const std::vector<RunIndex>& generations) {
  if (store.processes().size() == 1 && store.processes()[0].directory.empty()) {
    return InvalidArgument(
        fmt::format("'{}' is one rank's directory: merge the run above it", store.run()));
  }
  const std::string path = JoinPath(store.run(), kMergedManifestName);
  RemoveLeftParts(env, path);
  return WriteWholeFile(
      env, path, 0600, [&](WritableFile* file) { return WriteAll(env, store, generations, file); });
}

Result<MergedManifest> ReadMergedManifest(Env* env, const std::string& run) {
  TDUMP_ASSIGN_OR_RETURN(const auto file,
                         FrameFile::Open(env, JoinPath(run, kMergedManifestName), kManifestMagic));
  MergedManifest merged;
  bool is_merged = false;
  TDUMP_RETURN_IF_ERROR(
      ForEachManifestFrame(*file, &merged.damage, [&](const Frame& frame, auto body) -> Status {
        is_merged |= frame.kind == FrameKind::kMerged;
        if (!is_merged)
          return NotFound(
              fmt::format("{}: the manifest of a process, not a merged one", file->path()));
        const Status status = TakeFrame(frame, body, file->swapped(), &merged);
        return status.ok() ? status : file->Error(frame.offset, status.message());
      }));
  if (!is_merged) return file->Error(sizeof(FileHeader), "merged manifest: no head");
  for (RunIndex& index : merged.generations) index.run = run;
  return merged;
}

bool IsFresh(Env* env, const PassStore& store, const MergedManifest& merged) {
  if (merged.sources.size() != store.processes().size() ||
      merged.sources.size() != merged.head.sources)
    return false;
  if (!merged.damage.empty()) return false;
  for (size_t i = 0; i < merged.sources.size(); ++i) {
    const MergedSourceSection& then = merged.sources[i];
    if (then.directory != store.processes()[i].directory) return false;
    const MergedSourceSection now = SourceOf(env, store.run(), then.directory);
    if (now.manifest_bytes != then.manifest_bytes ||
        now.manifest_mtime_ns != then.manifest_mtime_ns ||
        now.directory_mtime_ns != then.directory_mtime_ns) {
      return false;
    }
  }
  for (const RunIndex& index : merged.generations) {
    for (const IndexedPass& pass : index.passes) {
      if (pass.pass >= store.processes()[pass.process].passes.size()) return false;
    }
  }
  return true;
}

}  // namespace tdump::io
