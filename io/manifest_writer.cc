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

constexpr size_t kMostQueued = 64 << 10;

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
  std::lock_guard lock(file_mutex_);
  AppendStruct(header_, &frames_);
  return Write();
}

// What is queued is older and goes first. What is queued meanwhile is nobody's yet.
template <class Fill>
Status ManifestWriter::AppendFrame(FrameKind kind, const Fill& fill) noexcept {
  try {
    Status written;
    {
      std::lock_guard lock(file_mutex_);
      frames_.clear();
      TakeQueued();
      const size_t queued = frames_.size();
      FrameBuilder frame(kind, &frames_);
      fill(&frames_);
      frame.Finish();
      written = Write();
      if (!written.ok()) Requeue(queued);
    }
    while (HasQueued() && WriteQueued()) {
    }
    return written;
  } catch (const std::exception& error) {
    return Internal(error.what());
  }
}

// Whoever holds `file_mutex_` looks once more after giving it up, so what is queued beside it is
// written.
void ManifestWriter::AppendLater(const StepMapSection& entry) noexcept {
  try {
    Queue(entry);
    while (HasQueued() && WriteQueued()) {
    }
  } catch (...) {
  }
}

void ManifestWriter::Queue(const StepMapSection& entry) {
  std::lock_guard lock(queue_mutex_);
  const size_t whole = queued_.size();
  try {
    FrameBuilder frame(FrameKind::kStepMap, &queued_);
    AppendSection(entry, &queued_);
    frame.Finish();
  } catch (...) {
    queued_.resize(whole);
    throw;
  }
}

bool ManifestWriter::HasQueued() {
  std::lock_guard lock(queue_mutex_);
  return !queued_.empty();
}

void ManifestWriter::TakeQueued() {
  std::lock_guard lock(queue_mutex_);
  frames_.swap(queued_);
}

bool ManifestWriter::WriteQueued() {
  std::unique_lock lock(file_mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  frames_.clear();
  TakeQueued();
  if (Write().ok()) return true;
  Requeue(frames_.size());
  return false;
}

void ManifestWriter::Requeue(size_t bytes) {
  std::lock_guard lock(queue_mutex_);
  if (bytes + queued_.size() <= kMostQueued) queued_.insert(0, frames_, 0, bytes);
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
