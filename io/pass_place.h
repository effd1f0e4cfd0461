// PassPlace: where the bytes of one pass go: a file of its own, or the end of a packed file. Given
// out by PassFiles; used by one PassWriter.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/env.h"
#include "core/status.h"

namespace tdump::io {

class DirectWrites;
class EarlierPayloads;

// When a file's bytes are forced to the disk. kStep: a pass's bytes, when it ends. kPass: those,
// their file's name and then the manifest entry. kFinalize: everything, once, when the sink drains.
enum class Durability : uint8_t { kNone, kPass, kStep, kFinalize };  // as filters::SyncLevel
inline bool SyncsPasses(Durability durability) {
  return durability == Durability::kPass || durability == Durability::kStep;
}

// Not thread-safe.
class PassPlace {
 public:
  virtual ~PassPlace() = default;
  // `offset` counts from the start of the pass; beyond Size() it leaves a gap to be filled later.
  virtual Status WriteAt(uint64_t offset, std::span<const std::byte> bytes) = 0;
  // Bytes of the pass that stand in the file, after an error too.
  virtual uint64_t Size() const = 0;
  // The pass is whole: forces it to the disk if so configured, looks whether its end is there (a
  // file system may lose what it took without an error), and gives the file its final name.
  virtual Status Finish() = 0;
  // After an error: nothing more comes.
  virtual void Fail() = 0;

  // The final one once the pass is finished, also of a packed file that has it later only.
  virtual const std::string& file_name() const = 0;
  virtual uint64_t offset() const { return 0; }  // in the file
  // Bytes of the file in front of the pass that no pass has: a packed file's header, padding.
  virtual uint64_t overhead() const { return 0; }
  // Of a packed file: what its passes hold already. Else nullptr.
  virtual EarlierPayloads* earlier() { return nullptr; }
};

// `passNNNNN.tdp.part` in `directory`, created with O_EXCL. `direct` outlives it; nullptr:
// everything goes through the page cache.
Result<std::unique_ptr<PassPlace>> NewFileOfOnePass(Env* env, const std::string& directory,
                                                    uint64_t ordinal, Durability durability,
                                                    DirectWrites* direct);

// The footer of a pass of `bytes` at `offset` in `path` stands.
Status ReadBackFooter(Env* env, const std::string& path, uint64_t offset, uint64_t bytes);

}  // namespace tdump::io
