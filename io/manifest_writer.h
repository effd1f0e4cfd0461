// ManifestWriter: appends entries to a process's manifest.tdm. Room for the next 64 KiB is always
// preallocated, so that a full disk can still be told. Thread-safe.
//
// Append() returns when the entry is in the file, and waits for another thread that is writing.
// AppendLater() is for the job's threads: it writes the entry itself or, while another thread is
// writing, queues it for that one.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "core/env.h"
#include "core/status.h"
#include "io/format.h"
#include "io/sections.h"

namespace tdump::io {

class ManifestWriter {
 public:
  static Result<std::unique_ptr<ManifestWriter>> Create(Env* env, const std::string& path,
                                                        const FileHeader& header);
  ~ManifestWriter();

  // One frame of `kind` with the sections in `body` (made by EncodeSection, see io/archive.h);
  // several sections of one kind may share a frame. After an error, later appends are tried again
  // behind the last whole frame.
  Status Append(FrameKind kind, std::string_view body) noexcept;
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

  // Never waits for the disk of another thread. An entry that cannot be written is tried again with
  // the next one, and the next Append() meets the same disk and tells. While 64 KiB of them wait,
  // further ones are refused: a note behind those that waited says how many.
  void AppendLater(const StepMapSection& entry) noexcept;

  // Forces what was appended to the disk.
  Status Sync() noexcept;

  // That were appended, without what is reserved behind them. Any thread.
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  // As given to Create.
  const FileHeader& header() const { return header_; }

 private:
  ManifestWriter(Env* env, std::string path, std::unique_ptr<WritableFile> file,
                 const FileHeader& header);
  Status Start();
  template <class Fill>
  Status AppendFrame(FrameKind kind, const Fill& fill) noexcept;
  void Queue(const StepMapSection& entry);
  bool HasQueued();
  bool WriteQueued();  // false: another thread is writing, or it failed
  // While `file_mutex_` is held. What is queued is older and goes first; then how many were
  // refused, and what add() appends to frames_.
  template <class Add>
  Status WriteBehindQueued(const Add& add);
  uint64_t TakeQueued();  // into frames_; how many were refused
  void DropTaken(uint64_t refused);
  void PutTakenBack();
  Status Write();  // frames_

  Env* const env_;
  const std::string path_;
  const FileHeader header_;

  std::mutex file_mutex_;  // held while the disk works; guards what follows
  const std::unique_ptr<WritableFile> file_;
  std::string frames_;     // as they are built, their memory kept
  uint64_t end_ = 0;       // of the last whole frame
  uint64_t reserved_ = 0;  // end of the preallocated room

  std::atomic<uint64_t> bytes_{0};  // end_

  std::mutex queue_mutex_;  // held for a few instructions, never while the disk works
  std::string queued_;      // whole frames, their memory kept
  size_t taken_ = 0;        // bytes that were queued and are being written, at the head of frames_
  uint64_t refused_ = 0;    // entries of which no note in the file says so
};

}  // namespace tdump::io
