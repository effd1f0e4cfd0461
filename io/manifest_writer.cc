#include "io/manifest_writer.h"

#include <span>

#include "io/archive.h"
#include "io/frame_builder.h"

namespace tdump::io {
namespace {

template <class Section>
auto Of(const Section& entry) {
  return [&entry](std::string* out) { AppendSection(entry, out); };
}

}  // namespace

Result<std::unique_ptr<ManifestWriter>> ManifestWriter::Create(Env* env, const std::string& path,
                                                               const FileHeader& header) {
  FileHeader own = header;
  own.magic = kManifestMagic;
  own.ordinal = 0;
  if (own.created_ns == 0) own.created_ns = static_cast<uint64_t>(env->WallNs());
  TDUMP_ASSIGN_OR_RETURN(auto file, env->CreateExclusive(path, 0600));
  std::unique_ptr<ManifestWriter> writer(
      new ManifestWriter(env, path, std::move(file), Sealed(own)));
  TDUMP_RETURN_IF_ERROR(writer->Start());
  return writer;
}

ManifestWriter::ManifestWriter(Env* env, std::string path, std::unique_ptr<WritableFile> file,
                               const FileHeader& header)
    : env_(env), path_(std::move(path)), header_(header), file_(std::move(file)) {}

ManifestWriter::~ManifestWriter() { (void)file_->Close(); }

Status ManifestWriter::Start() {
  std::lock_guard lock(writing_);
  AppendStruct(header_, &frames_);
  return Write();
}

// What was left is older and goes first. What is left meanwhile is nobody's yet.
template <class Fill>
Status ManifestWriter::AppendFrame(FrameKind kind, const Fill& fill) noexcept {
  try {
    Status written;
    {
      std::lock_guard lock(writing_);
      frames_.clear();
      TakeLeft();
      FrameBuilder frame(kind, &frames_);
      fill(&frames_);
      frame.Finish();
      written = Write();
    }
    while (AnyLeft() && WriteLeft()) {
    }
    return written;
  } catch (const std::exception& error) {
    return Internal(error.what());
  }
}

// Whoever holds `writing_` looks once more after giving it up, so what is left beside it is
// written.
void ManifestWriter::Leave(const StepMapSection& entry) noexcept {
  try {
    AddLeft(entry);
    while (AnyLeft() && WriteLeft()) {
    }
  } catch (...) {
  }
}

void ManifestWriter::AddLeft(const StepMapSection& entry) {
  std::lock_guard lock(leaving_);
  const size_t whole = left_.size();
  try {
    FrameBuilder frame(FrameKind::kStepMap, &left_);
    AppendSection(entry, &left_);
    frame.Finish();
  } catch (...) {
    left_.resize(whole);
    throw;
  }
}

bool ManifestWriter::AnyLeft() {
  std::lock_guard lock(leaving_);
  return !left_.empty();
}

void ManifestWriter::TakeLeft() {
  std::lock_guard lock(leaving_);
  frames_.swap(left_);
}

bool ManifestWriter::WriteLeft() {
  std::unique_lock lock(writing_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  frames_.clear();
  TakeLeft();
  (void)Write();
  return true;
}

Status ManifestWriter::Write() {
  TDUMP_RETURN_IF_ERROR(file_->WriteAt(end_, std::as_bytes(std::span(frames_))));
  end_ += frames_.size();
  // Twice the room that must be there, so that a system call is needed once in 64 KiB only. A
  // file system that has no more room, or cannot promise any, is no error yet.
  if (end_ + kManifestReserve > reserved_ &&
      file_->Preallocate(end_, 2 * kManifestReserve, true).ok()) {
    reserved_ = end_ + 2 * kManifestReserve;
  }
  return Status();
}

// Through a descriptor of its own: an append meanwhile does not wait for the disk.
Status ManifestWriter::Sync() noexcept {
  try {
    TDUMP_ASSIGN_OR_RETURN(const auto file, env_->OpenAppend(path_, 0600));
    return file->Sync();
  } catch (const std::exception& error) {
    return Internal(error.what());
  }
}

// Each entry goes into the frame kind that readers look in.
Status ManifestWriter::Append(FrameKind kind, std::string_view body) noexcept {
  return AppendFrame(kind, [&](std::string* out) { out->append(body); });
}
Status ManifestWriter::Append(const IdentitySection& entry) noexcept {
  return AppendFrame(FrameKind::kIdentity, Of(entry));
}
Status ManifestWriter::Append(const PassDoneSection& entry,
                              const std::optional<PassPlaceSection>& place) noexcept {
  return AppendFrame(FrameKind::kPassDone, [&](std::string* out) {
    AppendSection(entry, out);
    if (place) AppendSection(*place, out);
  });
}
Status ManifestWriter::Append(const RemovedSection& entry) noexcept {
  return AppendFrame(FrameKind::kRemoved, Of(entry));
}
Status ManifestWriter::Append(const StepMapSection& entry) noexcept {
  return AppendFrame(FrameKind::kStepMap, Of(entry));
}
Status ManifestWriter::Append(const ExpectSection& entry) noexcept {
  return AppendFrame(FrameKind::kExpect, Of(entry));
}
Status ManifestWriter::Append(const OperatorCountSection& entry) noexcept {
  return AppendFrame(FrameKind::kExpect, Of(entry));
}
Status ManifestWriter::Append(const RuleSection& entry) noexcept {
  return AppendFrame(FrameKind::kRule, Of(entry));
}
Status ManifestWriter::Append(const NoteSection& entry) noexcept {
  return AppendFrame(FrameKind::kNote, Of(entry));
}
Status ManifestWriter::Append(const AgreementSection& entry) noexcept {
  return AppendFrame(FrameKind::kAgreement, Of(entry));
}
Status ManifestWriter::Append(const CloseSection& entry) noexcept {
  return AppendFrame(FrameKind::kClose, Of(entry));
}

}  // namespace tdump::io
