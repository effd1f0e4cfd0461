// The sections of a record's parts (io/value_sections.h) as fields of a Record. Used by
// DecodeRecord.
#pragma once

#include "core/status.h"
#include "io/archive.h"
#include "io/records.h"
#include "io/value_sections.h"

namespace tdump::io {

// One of the three sections.
Status AddPart(const SectionCursor& cursor, Record* record);
// Once all sections are in: that they fit the record and its file. Puts samples into the byte order
// of this machine.
Status CheckParts(uint64_t file_bytes, bool swapped, Record* record);

}  // namespace tdump::io
