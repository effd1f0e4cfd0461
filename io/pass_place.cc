#include "io/pass_place.h"

#include <fmt/format.h>

#include "io/direct_writes.h"
#include "io/format.h"
#include "io/frame_file.h"
#include "io/pass_writer.h"
#include "io/preallocation.h"

namespace tdump::io {
namespace {

class FileOfOnePass final : public PassPlace {
 public:
  FileOfOnePass(Env* env, std::string directory, uint64_t ordinal, Durability durability,
                DirectWrites* direct)
      : env_(env),
        directory_(std::move(directory)),
        final_name_(PassFileName(ordinal)),
        durability_(durability),
        direct_(direct),
        file_name_(final_name_ + std::string(kPartSuffix)) {}

  Status Create() {
    TDUMP_ASSIGN_OR_RETURN(file_, env_->CreateExclusive(JoinPath(directory_, file_name_), 0600));
    return Status();
  }

  Status WriteAt(uint64_t offset, std::span<const std::byte> bytes) override {
    if (offset + bytes.size() > file_->Size())
      TDUMP_RETURN_IF_ERROR(room_.Ensure(file_.get(), offset, bytes.size()));
    return direct_ != nullptr ? direct_->WriteAt(file_.get(), offset, bytes)
                              : file_->WriteAt(offset, bytes);
  }
  uint64_t Size() const override { return file_->Size(); }

  Status Finish() override {
    if (SyncsPasses(durability_)) TDUMP_RETURN_IF_ERROR(file_->Sync());
    TDUMP_RETURN_IF_ERROR(file_->Close());
    const std::string part = JoinPath(directory_, file_name_);
    TDUMP_RETURN_IF_ERROR(ReadBackFooter(env_, part, 0, file_->Size()));
    TDUMP_RETURN_IF_ERROR(env_->Rename(part, JoinPath(directory_, final_name_)));
    file_name_ = final_name_;
    return durability_ == Durability::kPass ? env_->SyncDirectory(directory_) : Status();
  }
  void Fail() override { (void)file_->Close(); }
  const std::string& file_name() const override { return file_name_; }

 private:
  Env* const env_;
  const std::string directory_;
  const std::string final_name_;
  const Durability durability_;
  DirectWrites* const direct_;
  std::string file_name_;
  std::unique_ptr<WritableFile> file_;
  Preallocation room_;
};

}  // namespace

Result<std::unique_ptr<PassPlace>> NewFileOfOnePass(Env* env, const std::string& directory,
                                                    uint64_t ordinal, Durability durability,
                                                    DirectWrites* direct) {
  auto place = std::make_unique<FileOfOnePass>(env, directory, ordinal, durability, direct);
  TDUMP_RETURN_IF_ERROR(place->Create());
  return std::unique_ptr<PassPlace>(std::move(place));
}

Status ReadBackFooter(Env* env, const std::string& path, uint64_t offset, uint64_t bytes) {
  TDUMP_ASSIGN_OR_RETURN(const auto file, FrameFile::Open(env, path, kPassMagic, offset));
  if (file->size() != bytes)
    return file->Error(file->size(), fmt::format("read back: {} bytes were written", bytes));
  return file->Footer().status();
}

}  // namespace tdump::io
