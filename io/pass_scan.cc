#include "io/pass_scan.h"

#include <fmt/format.h>

#include <functional>
#include <span>
#include <utility>

#include "io/archive.h"
#include "io/hash.h"

namespace tdump::io {
namespace {

constexpr uint64_t kWindow = 16 * 1024;

// The one section of a frame that has just one; later versions may add others beside it.
template <class Section>
Result<Section> OnlySection(const FrameFile& file, std::span<const std::byte> body) {
  SectionCursor cursor(body, file.swapped());
  while (cursor.Next()) {
    if (cursor.id() == Section::kId) return cursor.Decode<Section>();
  }
  TDUMP_RETURN_IF_ERROR(cursor.status());
  return Corrupt(fmt::format("section {:#06x} is missing", Section::kId));
}

template <class Section>
Status AddTo(const FrameFile& file, std::span<const std::byte> body, NameTable* names) {
  TDUMP_ASSIGN_OR_RETURN(const Section section, OnlySection<Section>(file, body));
  return names->Add(section);
}

// Takes in what the frame defines. `contents->index` is not touched.
Status Define(const FrameFile& file, FrameKind kind, std::span<const std::byte> body,
              PassContents* contents, NameTable* names) {
  switch (kind) {
    case FrameKind::kPass: {
      TDUMP_ASSIGN_OR_RETURN(contents->pass, OnlySection<PassSection>(file, body));
      return Status::Ok();
    }
    case FrameKind::kPassEnd: {
      TDUMP_ASSIGN_OR_RETURN(contents->end, OnlySection<PassEndSection>(file, body));
      return Status::Ok();
    }
    case FrameKind::kName:
      return AddTo<NameSection>(file, body, names);
    case FrameKind::kOperator:
      return AddTo<OperatorSection>(file, body, names);
    case FrameKind::kAlias:
      return AddTo<AliasSection>(file, body, names);
    default:
      return Status::Ok();
  }
}

bool HasFields(FrameKind kind) { return kind != FrameKind::kPad && kind != FrameKind::kPayload; }

// Reads the frame at `offset` and takes it in; anything wrong with it is damage.
void DefineAt(const FrameFile& file, FrameCursor* cursor, uint64_t offset, FrameKind expected,
              PassContents* contents, NameTable* names) {
  const Status status = [&]() -> Status {
    TDUMP_ASSIGN_OR_RETURN(const Frame frame, cursor->At(offset));
    if (frame.kind != expected)
      return Corrupt(fmt::format("kind: {}, the index says {}", int(frame.kind), int(expected)));
    TDUMP_ASSIGN_OR_RETURN(const auto body, cursor->Body(frame));
    return Define(file, frame.kind, body, contents, names);
  }();
  if (!status.ok()) contents->damage.push_back(DamageAt(file, offset, status.message()));
}

Status CheckOffsets(const IndexSection& index, uint64_t limit) {
  const auto check = [&](uint64_t offset, const char* field) -> Status {
    if (offset >= sizeof(FileHeader) && offset < limit && offset % 8 == 0) return Status::Ok();
    return Corrupt(fmt::format("index: {}: {} is no place of a frame", field, offset));
  };
  for (const IndexEntry& entry : index.records)
    TDUMP_RETURN_IF_ERROR(check(entry.frame_offset, "records"));
  for (uint64_t offset : index.calls) TDUMP_RETURN_IF_ERROR(check(offset, "calls"));
  for (uint64_t offset : index.operators) TDUMP_RETURN_IF_ERROR(check(offset, "operators"));
  for (uint64_t offset : index.names) TDUMP_RETURN_IF_ERROR(check(offset, "names"));
  for (uint64_t offset : index.aliases) TDUMP_RETURN_IF_ERROR(check(offset, "aliases"));
  return Status::Ok();
}

// In the order in which they depend on each other. `visit` returns false to stop.
void ForEachDefinition(const IndexSection& index,
                       const std::function<bool(uint64_t offset, FrameKind kind)>& visit) {
  const std::pair<FrameKind, const std::vector<uint64_t>*> lists[] = {
      {FrameKind::kName, &index.names},
      {FrameKind::kOperator, &index.operators},
      {FrameKind::kAlias, &index.aliases}};
  for (const auto& [kind, offsets] : lists) {
    for (const uint64_t offset : *offsets) {
      if (!visit(offset, kind)) return;
    }
  }
}

// Of the frames that define names and operators; none where one cannot be read.
std::optional<Hash128> HashOfNames(const FrameFile& file, FrameCursor* cursor,
                                   const IndexSection& index) {
  TileHasher hasher;
  bool whole = true;
  ForEachDefinition(index, [&](uint64_t offset, FrameKind kind) {
    const Result<Frame> frame = cursor->At(offset);
    whole = frame.ok() && frame->kind == kind;
    if (!whole) return false;
    const auto body = cursor->Body(*frame);
    whole = body.ok();
    if (!whole) return false;
    const uint64_t head[] = {static_cast<uint64_t>(kind), body->size(), file.swapped()};
    hasher.Update(std::as_bytes(std::span(head)));
    hasher.Update(*body);
    return true;
  });
  return whole ? std::optional(hasher.Finish()) : std::nullopt;
}

Result<IndexSection> ReadIndex(const FrameFile& file, const FileFooter& footer,
                               FrameCursor* cursor) {
  TDUMP_ASSIGN_OR_RETURN(const Frame frame, cursor->At(footer.index_offset));
  if (frame.kind != FrameKind::kIndex || frame.end() - frame.offset != footer.index_bytes) {
    return file.Error(frame.offset, "footer: index_offset and index_bytes name no index frame");
  }
  TDUMP_ASSIGN_OR_RETURN(const auto body, cursor->Body(frame));
  Result<IndexSection> index = OnlySection<IndexSection>(file, body);
  if (!index.ok()) return file.Error(frame.offset, index.status().message());
  if (Status status = CheckOffsets(*index, footer.index_offset); !status.ok())
    return file.Error(frame.offset, status.message());
  if (index->records.size() != footer.records || index->calls.size() != footer.calls) {
    return file.Error(
        frame.offset,
        fmt::format("index: {} records and {} calls, the footer says {} and {}",
                    index->records.size(), index->calls.size(), footer.records, footer.calls));
  }
  return index;
}

void AddToIndex(const FrameFile& file, const Frame& frame, std::span<const std::byte> body,
                PassContents* contents) {
  IndexSection& index = contents->index;
  switch (frame.kind) {
    case FrameKind::kRecord: {
      const Result<RecordSection> section = OnlySection<RecordSection>(file, body);
      if (section.ok())
        index.records.push_back({section->record, frame.offset});
      else
        contents->damage.push_back(DamageAt(file, frame.offset, section.status().message()));
      break;
    }
    case FrameKind::kCall:
      index.calls.push_back(frame.offset);
      break;
    case FrameKind::kOperator:
      index.operators.push_back(frame.offset);
      break;
    case FrameKind::kName:
      index.names.push_back(frame.offset);
      break;
    case FrameKind::kAlias:
      index.aliases.push_back(frame.offset);
      break;
    default:
      break;
  }
}

}  // namespace

PassInfo InfoOf(const FileHeader& header, const std::optional<PassSection>& pass) {
  PassInfo info;
  info.ordinal = header.ordinal;
  info.generation = header.generation;
  info.rank = header.rank;
  info.pid = header.pid;
  info.started_ns = header.created_ns;
  if (!pass) return info;
  info.local_step = pass->local_step;
  info.mode_step = pass->mode_step;
  info.job_step = pass->job_step;
  info.mode = static_cast<StepMode>(pass->mode);
  info.world = pass->world;
  info.started_ns = pass->started_ns;
  info.host = pass->host;
  return info;
}

std::optional<PassSection> ReadPassSection(const FrameFile& file) {
  PassContents contents;
  FrameCursor cursor(file, 512);
  NameTable none;
  DefineAt(file, &cursor, sizeof(FileHeader), FrameKind::kPass, &contents, &none);
  return contents.pass;
}

std::string RepeatedNumber(uint64_t record) {
  return fmt::format("record: {} is the number of a record before it", record);
}

Damage DamageAt(const FrameFile& file, uint64_t offset, std::string what) {
  // Errors of FrameFile carry file and offset already.
  const std::string prefix = file.path() + ": ";
  if (what.starts_with(prefix)) what = what.substr(prefix.size());
  return {file.path(), offset, std::move(what)};
}

Result<PassContents> ReadByIndex(const FrameFile& file, NameTables* tables) {
  TDUMP_ASSIGN_OR_RETURN(const FileFooter footer, file.Footer());
  PassContents contents;
  FrameCursor cursor(file, kWindow);
  TDUMP_ASSIGN_OR_RETURN(contents.index, ReadIndex(file, footer, &cursor));
  NameTable names;
  DefineAt(file, &cursor, sizeof(FileHeader), FrameKind::kPass, &contents, &names);
  const std::optional<Hash128> content =
      tables != nullptr ? HashOfNames(file, &cursor, contents.index) : std::nullopt;
  if (content) contents.names = tables->Find(*content);
  if (contents.names) return contents;
  ForEachDefinition(contents.index, [&](uint64_t offset, FrameKind kind) {
    DefineAt(file, &cursor, offset, kind, &contents, &names);
    return true;
  });
  contents.names = std::make_shared<const NameTable>(std::move(names));
  if (content && contents.damage.empty()) tables->Keep(*content, contents.names);
  return contents;
}

PassContents ScanFrames(const FrameFile& file) {
  PassContents contents;
  const auto names = std::make_shared<NameTable>();
  contents.names = names;
  FrameCursor cursor(file, kWindow);
  const Result<FileFooter> footer = file.Footer();
  const uint64_t end = footer.ok() ? file.size() - sizeof(FileFooter) : file.size();
  uint64_t offset = sizeof(FileHeader);
  while (offset < end) {
    const Result<Frame> frame = cursor.At(offset);
    if (!frame.ok()) {
      contents.damage.push_back(
          DamageAt(file, offset, frame.status().message() + "; reading stopped here"));
      return contents;
    }
    offset = frame->end();
    if (frame->kind == FrameKind::kPayload) contents.payloads.push_back(*frame);
    if (!HasFields(frame->kind) || frame->kind == FrameKind::kIndex) continue;
    const auto body = cursor.Body(*frame);
    const Status status =
        body.ok() ? Define(file, frame->kind, *body, &contents, names.get()) : body.status();
    if (status.ok())
      AddToIndex(file, *frame, *body, &contents);
    else
      contents.damage.push_back(DamageAt(file, frame->offset, status.message()));
  }
  if (!footer.ok())
    contents.damage.push_back(DamageAt(file, file.size(), footer.status().message()));
  return contents;
}

}  // namespace tdump::io
