#include "io/manifest_writer.h"

#include <fmt/format.h>

#include <span>
#include <utility>

#include "core/text.h"
#include "io/archive.h"
#include "io/frame_builder.h"

namespace tdump::io {
namespace {

template <class Section>
auto Of(const Section& entry) {
  return [&entry](std::string* out) { AppendSection(entry, out); };
}

constexpr size_t kMostQueued = 64 << 10;

NoteSection RefusedNote(uint64_t count, int64_t now_ns) {
  return {.level = 2,
          .time_ns = static_cast<uint64_t>(now_ns),
          .text = fmt::format("the step map lacks {}: the disk was full, or too slow",
                              Plural(count, "step"))};
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
  std::lock_guard lock(file_mutex_);
  AppendStruct(header_, &frames_);
  return Write();
}

// What is queued meanwhile is nobody's yet.
template <class Fill>
Status ManifestWriter::AppendFrame(FrameKind kind, const Fill& fill) noexcept {
  try {
    Status written;
    {
      std::lock_guard lock(file_mutex_);
      written = WriteBehindQueued([&] {
        FrameBuilder frame(kind, &frames_);
        fill(&frames_);
        frame.Finish();
      });
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
    if (taken_ + queued_.size() <= kMostQueued) return;
    queued_.resize(whole);
    ++refused_;
  } catch (...) {
    queued_.resize(whole);
    throw;
  }
}

bool ManifestWriter::HasQueued() {
  std::lock_guard lock(queue_mutex_);
  return !queued_.empty() || refused_ > 0;
}

uint64_t ManifestWriter::TakeQueued() {
  frames_.clear();
  std::lock_guard lock(queue_mutex_);
  frames_.swap(queued_);
  taken_ = frames_.size();
  return refused_;
}

bool ManifestWriter::WriteQueued() {
  std::unique_lock lock(file_mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  return WriteBehindQueued([] {}).ok();
}

template <class Add>
Status ManifestWriter::WriteBehindQueued(const Add& add) {
  const uint64_t refused = TakeQueued();
  Status written;
  try {
    if (refused > 0) {
      FrameBuilder frame(FrameKind::kNote, &frames_);
      AppendSection(RefusedNote(refused, env_->WallNs()), &frames_);
      frame.Finish();
    }
    add();
    written = Write();
  } catch (const std::exception& error) {
    written = Internal(error.what());
  }
  if (written.ok())
    DropTaken(refused);
  else
    PutTakenBack();
  return written;
}

void ManifestWriter::DropTaken(uint64_t refused) {
  std::lock_guard lock(queue_mutex_);
  taken_ = 0;
  refused_ -= refused;
}

// There is room: Queue() counted it.
void ManifestWriter::PutTakenBack() {
  std::lock_guard lock(queue_mutex_);
  queued_.insert(0, frames_, 0, std::exchange(taken_, 0));
}

Status ManifestWriter::Write() {
  TDUMP_RETURN_IF_ERROR(file_->WriteAt(end_, std::as_bytes(std::span(frames_))));
  end_ += frames_.size();
  bytes_.store(end_, std::memory_order_relaxed);
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
