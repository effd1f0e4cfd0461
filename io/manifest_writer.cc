#include "io/manifest_writer.h"

#include <mutex>
#include <span>

#include "io/archive.h"
#include "io/frame_builder.h"

namespace tdump::io {
namespace {

std::span<const std::byte> AsBytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

class FileManifestWriter final : public ManifestWriter {
 public:
  FileManifestWriter(Env* env, std::string path, std::unique_ptr<WritableFile> file,
                     const FileHeader& header)
      : env_(env), path_(std::move(path)), file_(std::move(file)) {
    header_ = Sealed(header);
  }

  ~FileManifestWriter() override { (void)file_->Close(); }

  Status Start() {
    std::string bytes;
    AppendStruct(header_, &bytes);
    TDUMP_RETURN_IF_ERROR(WriteLocked(bytes));
    return Status();
  }

  Status Append(FrameKind kind, const std::string& body) noexcept override {
    try {
      std::lock_guard lock(mutex_);
      frame_.clear();
      FrameBuilder frame(kind, &frame_);
      frame_ += body;
      frame.Finish();
      return WriteLocked(frame_);
    } catch (const std::exception& error) {
      return Internal(error.what());
    }
  }

  // Through a descriptor of its own: an append meanwhile does not wait for the disk.
  Status Sync() noexcept override {
    try {
      TDUMP_ASSIGN_OR_RETURN(const auto file, env_->OpenAppend(path_, 0600));
      return file->Sync();
    } catch (const std::exception& error) {
      return Internal(error.what());
    }
  }

 private:
  Status WriteLocked(const std::string& bytes) {
    TDUMP_RETURN_IF_ERROR(file_->WriteAt(end_, AsBytes(bytes)));
    end_ += bytes.size();
    // Twice the room that must be there, so that a system call is needed once in 64 KiB only. A
    // file system that has no more room, or cannot promise any, is no error yet.
    if (end_ + kManifestReserve > reserved_ &&
        file_->Preallocate(end_, 2 * kManifestReserve, true).ok()) {
      reserved_ = end_ + 2 * kManifestReserve;
    }
    return Status();
  }

  Env* const env_;
  const std::string path_;
  std::mutex mutex_;
  const std::unique_ptr<WritableFile> file_;
  std::string frame_;      // as it is built, its memory kept
  uint64_t end_ = 0;       // of the last whole frame
  uint64_t reserved_ = 0;  // end of the preallocated room
};

}  // namespace

Result<std::unique_ptr<ManifestWriter>> ManifestWriter::Create(Env* env, const std::string& path,
                                                               const FileHeader& header) {
  FileHeader own = header;
  own.magic = kManifestMagic;
  own.ordinal = 0;
  if (own.created_ns == 0) own.created_ns = static_cast<uint64_t>(env->WallNs());
  TDUMP_ASSIGN_OR_RETURN(auto file, env->CreateExclusive(path, 0600));
  auto writer = std::make_unique<FileManifestWriter>(env, path, std::move(file), own);
  TDUMP_RETURN_IF_ERROR(writer->Start());
  return std::unique_ptr<ManifestWriter>(std::move(writer));
}

// Each entry goes into the frame kind that readers look in.
template <class Section>
Status ManifestWriter::AppendOne(FrameKind kind, const Section& entry) noexcept {
  try {
    std::lock_guard lock(body_mutex_);
    body_.clear();
    AppendSection(entry, &body_);
    return Append(kind, body_);
  } catch (const std::exception& error) {
    return Internal(error.what());
  }
}

Status ManifestWriter::Append(const IdentitySection& entry) noexcept {
  return AppendOne(FrameKind::kIdentity, entry);
}
Status ManifestWriter::Append(const PassDoneSection& entry,
                              const std::optional<PassPlaceSection>& place) noexcept {
  try {
    std::string body = EncodeSection(entry);
    if (place) AppendSection(*place, &body);
    return Append(FrameKind::kPassDone, body);
  } catch (const std::exception& error) {
    return Internal(error.what());
  }
}
Status ManifestWriter::Append(const RemovedSection& entry) noexcept {
  return AppendOne(FrameKind::kRemoved, entry);
}
Status ManifestWriter::Append(const StepMapSection& entry) noexcept {
  return AppendOne(FrameKind::kStepMap, entry);
}
Status ManifestWriter::Append(const ExpectSection& entry) noexcept {
  return AppendOne(FrameKind::kExpect, entry);
}
Status ManifestWriter::Append(const OperatorCountSection& entry) noexcept {
  return AppendOne(FrameKind::kExpect, entry);
}
Status ManifestWriter::Append(const RuleSection& entry) noexcept {
  return AppendOne(FrameKind::kRule, entry);
}
Status ManifestWriter::Append(const NoteSection& entry) noexcept {
  return AppendOne(FrameKind::kNote, entry);
}
Status ManifestWriter::Append(const AgreementSection& entry) noexcept {
  return AppendOne(FrameKind::kAgreement, entry);
}
Status ManifestWriter::Append(const CloseSection& entry) noexcept {
  return AppendOne(FrameKind::kClose, entry);
}

}  // namespace tdump::io
