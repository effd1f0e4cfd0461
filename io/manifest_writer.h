// ManifestWriter: appends entries to a process's manifest.tdm. Room for the next 64 KiB is always
// preallocated, so that a full disk can still be told. Thread-safe.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "core/env.h"
#include "core/status.h"
#include "io/format.h"
#include "io/sections.h"

namespace tdump::io {

class ManifestWriter {
 public:
  static Result<std::unique_ptr<ManifestWriter>> Create(Env* env, const std::string& path,
                                                        const FileHeader& header);
  virtual ~ManifestWriter() = default;

  // One frame of `kind` with the sections in `body` (made by EncodeSection, see io/archive.h);
  // several sections of one kind may share a frame. After an error, later appends are tried again
  // behind the last whole frame.
  virtual Status Append(FrameKind kind, const std::string& body) noexcept = 0;
  // Forces what was appended to the disk.
  virtual Status Sync() noexcept = 0;

  // Typed forms of the above.
  Status Append(const IdentitySection& entry) noexcept;
  Status Append(const PassDoneSection& entry,
                const std::optional<PassPlaceSection>& place = std::nullopt) noexcept;
  Status Append(const RemovedSection& entry) noexcept;
  Status Append(const StepMapSection& entry) noexcept;
  Status Append(const ExpectSection& entry) noexcept;
  Status Append(const OperatorCountSection& entry) noexcept;
  Status Append(const RuleSection& entry) noexcept;
  Status Append(const NoteSection& entry) noexcept;
  Status Append(const AgreementSection& entry) noexcept;
  Status Append(const CloseSection& entry) noexcept;

  // As given to Create.
  const FileHeader& header() const { return header_; }

 protected:
  FileHeader header_;

 private:
  template <class Section>
  Status AppendOne(FrameKind kind, const Section& entry) noexcept;

  std::mutex body_mutex_;
  std::string body_;  // of AppendOne, its memory kept
};

}  // namespace tdump::io
