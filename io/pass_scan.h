// The two ways into a pass file: by its index (a complete file), or frame by frame (a torn one).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/status.h"
#include "io/frame_file.h"
#include "io/name_table.h"
#include "io/records.h"
#include "io/sections.h"

namespace tdump::io {

// What is known of a pass file before any record is read.
struct PassContents {
  std::shared_ptr<const NameTable> names;  // never null
  IndexSection index;  // as stored, or rebuilt from the frames: equal for an undamaged file
  std::optional<PassSection> pass;
  std::optional<PassEndSection> end;
  std::vector<Frame> payloads;  // filled by a scan only
  std::vector<Damage> damage;
};

// Footer, index, and the frames of names and operators. A name or operator that cannot be read is
// damage; an error means that footer or index cannot be used.
// `tables`: where given, an equal table that is in use is not built again.
Result<PassContents> ReadByIndex(const FrameFile& file, NameTables* tables = nullptr);

// Every frame from the front, until the first place where none begins (that is damage, unless the
// file has a footer there). A frame whose body is wrong is damage and left out.
PassContents ScanFrames(const FrameFile& file);

// The first frame, when it stands.
std::optional<PassSection> ReadPassSection(const FrameFile& file);
// `pass` missing: what the header knows.
PassInfo InfoOf(const FileHeader& header, const std::optional<PassSection>& pass);

// What is said of the second of two records with the same number: neither is found by it.
std::string RepeatedNumber(uint64_t record);

Damage DamageAt(const FrameFile& file, uint64_t offset, std::string what);

}  // namespace tdump::io
