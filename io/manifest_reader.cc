#include "io/manifest_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "io/archive.h"
#include "io/pass_scan.h"

namespace tdump::io {
namespace {

// A pass file named by a manifest lies beside it: anything else would let
// a forged manifest point anywhere.
bool IsPlainFileName(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

Status Add(PassDoneSection&& section, ProcessEntry* process) {
  if (!section.file.empty() && !IsPlainFileName(section.file)) {
    return Corrupt(
        fmt::format("file: '{}' is not the name of a file beside the manifest", section.file));
  }
  PassEntry pass;
  pass.info.ordinal = section.ordinal;
  pass.info.local_step = section.local_step;
  pass.info.mode_step = section.mode_step;
  pass.info.job_step = section.job_step;
  pass.info.mode = static_cast<StepMode>(section.mode);
  pass.file = section.file.empty() ? "" : JoinPath(process->directory, section.file);
  pass.listed = true;
  pass.part = section.file.ends_with(".part");
  pass.file_bytes = section.file_bytes;
  pass.records = section.records;
  pass.calls = section.calls;
  pass.payload_bytes = section.payload_bytes;
  pass.blocked_ns = section.blocked_ns;
  pass.not_kept = std::move(section.not_kept);
  pass.error = std::move(section.error);
  process->passes.push_back(std::move(pass));
  return Status::Ok();
}

Status Add(PassPlaceSection&& section, ProcessEntry* process) {
  if (section.offset < kPackAlign || section.offset % kPackAlign != 0)
    return Corrupt(
        fmt::format("offset: {} is no place of a pass in a packed file", section.offset));
  if (process->passes.empty() || process->passes.back().info.ordinal != section.ordinal)
    return Corrupt(fmt::format("ordinal: {} is not the pass before it", section.ordinal));
  process->passes.back().offset = section.offset;
  return Status::Ok();
}

// Later words about the same local step win.
Status Add(StepMapSection&& section, ProcessEntry* process) {
  auto& steps = process->steps;
  const auto place =
      std::lower_bound(steps.begin(), steps.end(), section.local_step,
                       [](const StepMapSection& s, uint64_t step) { return s.local_step < step; });
  if (place != steps.end() && place->local_step == section.local_step)
    *place = section;
  else
    steps.insert(place, section);
  return Status::Ok();
}

Status Add(IdentitySection&& section, ProcessEntry* process) {
  process->identity = std::move(section);
  return Status::Ok();
}
Status Add(ExpectSection&& section, ProcessEntry* process) {
  process->expected.Edit().push_back(std::move(section));
  return Status::Ok();
}
Status Add(RuleSection&& section, ProcessEntry* process) {
  process->rules.push_back(std::move(section));
  return Status::Ok();
}
Status Add(NoteSection&& section, ProcessEntry* process) {
  process->notes.push_back(std::move(section));
  return Status::Ok();
}
Status Add(RemovedSection&& section, ProcessEntry* process) {
  process->removed.push_back(std::move(section));
  return Status::Ok();
}
Status Add(AgreementSection&& section, ProcessEntry* process) {
  process->agreements.push_back(std::move(section));
  return Status::Ok();
}
Status Add(CloseSection&& section, ProcessEntry* process) {
  process->close = std::move(section);
  return Status::Ok();
}

template <class Section>
Status AddDecoded(const SectionCursor& cursor, ProcessEntry* process) {
  TDUMP_ASSIGN_OR_RETURN(Section section, cursor.Decode<Section>());
  return Add(std::move(section), process);
}

Status AddCounts(const SectionCursor& cursor, CountHistory* history) {
  TDUMP_ASSIGN_OR_RETURN(auto counts, cursor.Decode<OperatorCountSection>());
  history->Add(std::move(counts));
  return Status::Ok();
}

// An unknown section is skipped.
Status AddSection(const SectionCursor& cursor, ProcessEntry* process, CountHistory* history) {
  switch (cursor.id()) {
    case IdentitySection::kId:
      return AddDecoded<IdentitySection>(cursor, process);
    case PassDoneSection::kId:
      TDUMP_RETURN_IF_ERROR(AddDecoded<PassDoneSection>(cursor, process));
      history->EndPass(process->passes.back().info.ordinal);
      return Status::Ok();
    case PassPlaceSection::kId:
      return AddDecoded<PassPlaceSection>(cursor, process);
    case RemovedSection::kId:
      return AddDecoded<RemovedSection>(cursor, process);
    case StepMapSection::kId:
      return AddDecoded<StepMapSection>(cursor, process);
    case ExpectSection::kId:
      return AddDecoded<ExpectSection>(cursor, process);
    case OperatorCountSection::kId:
      return AddCounts(cursor, history);
    case SameCountsSection::kId: {
      TDUMP_ASSIGN_OR_RETURN(const auto same, cursor.Decode<SameCountsSection>());
      return history->Repeat(same);
    }
    case RuleSection::kId:
      return AddDecoded<RuleSection>(cursor, process);
    case NoteSection::kId:
      return AddDecoded<NoteSection>(cursor, process);
    case AgreementSection::kId:
      return AddDecoded<AgreementSection>(cursor, process);
    case CloseSection::kId:
      return AddDecoded<CloseSection>(cursor, process);
    default:
      return Status::Ok();
  }
}

// Facts that stand once in the manifest and belong to every pass.
void FillPasses(const FileHeader& header, ProcessEntry* process) {
  for (PassEntry& pass : process->passes) {
    pass.info.rank = header.rank;
    pass.info.generation = header.generation;
    pass.info.pid = header.pid;
    pass.info.world = process->identity.world;
    pass.info.host = process->identity.host;
  }
  std::stable_sort(
      process->passes.begin(), process->passes.end(),
      [](const PassEntry& a, const PassEntry& b) { return a.info.ordinal < b.info.ordinal; });
}

// Whether the entry at `offset`, which is not whole, ends at a page of the file with nothing behind
// it, or only room that was made by writing zeros: SIGKILL ends a write there.
Result<bool> IsCut(const FrameFile& file, FrameCursor* cursor, uint64_t offset) {
  constexpr uint64_t kPage = 4096;
  const Result<Frame> frame = cursor->Header(offset);  // not ok: the page cuts it
  const uint64_t body_bytes = frame.ok() ? frame->body_bytes : 0;
  const uint64_t left = file.size() - offset;
  if (left < sizeof(FrameHeader) || body_bytes > left - sizeof(FrameHeader))
    return file.size() % kPage == 0;
  const uint64_t end = offset + sizeof(FrameHeader) + body_bytes;
  const uint64_t last_page = (end - 1) / kPage * kPage;
  if (last_page <= offset) return false;
  return cursor->OnlyZerosFrom(last_page);
}

Status AddFrame(std::span<const std::byte> body, bool swapped, ProcessEntry* process,
                CountHistory* history) {
  SectionCursor cursor(body, swapped);
  while (cursor.Next()) TDUMP_RETURN_IF_ERROR(AddSection(cursor, process, history));
  return cursor.status();
}

}  // namespace

Status ForEachManifestFrame(
    const FrameFile& file, std::vector<Damage>* damage,
    const std::function<Status(const Frame&, std::span<const std::byte> body)>& visit) {
  FrameCursor cursor(file, 64 * 1024);
  uint64_t offset = sizeof(FileHeader);
  while (offset < file.size()) {
    const Result<Frame> frame = cursor.At(offset);
    if (!frame.ok()) {
      TDUMP_ASSIGN_OR_RETURN(const bool clean, cursor.OnlyZerosFrom(offset));
      if (clean) return Status::Ok();
      TDUMP_ASSIGN_OR_RETURN(const bool cut, IsCut(file, &cursor, offset));
      const std::string_view so = cut ? kCutEntry : "reading stopped here";
      damage->push_back(
          DamageAt(file, offset, fmt::format("{}; {}", frame.status().message(), so)));
      return Status::Ok();
    }
    offset = frame->end();
    if (frame->kind == FrameKind::kPad || frame->kind == FrameKind::kPayload) continue;
    const auto body = cursor.Body(*frame);
    if (!body.ok()) {
      TDUMP_ASSIGN_OR_RETURN(const bool cut, IsCut(file, &cursor, frame->offset));
      const std::string& what = body.status().message();
      damage->push_back(DamageAt(file, frame->offset,
                                 cut ? fmt::format("{}; {}", what, kCutEntry) : std::string(what)));
      continue;
    }
    TDUMP_RETURN_IF_ERROR(visit(*frame, *body));
  }
  return Status::Ok();
}

void ReadManifest(Env* env, const std::string& path, ProcessEntry* process, CountHistory* history) {
  CountHistory own;
  if (history == nullptr) history = &own;
  const auto file = FrameFile::Open(env, path, kManifestMagic);
  if (!file.ok()) {
    process->damage.push_back({path, 0, file.status().message()});
    return;
  }
  process->identity.rank = (*file)->header().rank;
  process->identity.generation = (*file)->header().generation;
  process->identity.pid = (*file)->header().pid;
  const Status status =
      ForEachManifestFrame(**file, &process->damage, [&](const Frame& frame, auto body) {
        const Status added = AddFrame(body, (*file)->swapped(), process, history);
        if (!added.ok()) process->damage.push_back(DamageAt(**file, frame.offset, added.message()));
        return Status::Ok();
      });
  if (!status.ok()) process->damage.push_back({path, 0, status.message()});
  process->counts.Edit() = history->LastWords();
  FillPasses((*file)->header(), process);
}

}  // namespace tdump::io
