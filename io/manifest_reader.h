// Reads one process's manifest.tdm into a ProcessEntry. A journal that may still be written: it
// ends at its first bytes that are no frame, which is clean when only zeros follow (the
// preallocated tail).
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "core/env.h"
#include "core/status.h"
#include "io/count_history.h"
#include "io/frame_file.h"
#include "io/pass_store.h"

namespace tdump::io {

// What Damage::what ends with for an entry that its process was killed in: all before it stands.
inline constexpr std::string_view kCutEntry =
    "the process ended while it wrote this last entry; all before it stands";

// Walks over the frames of a manifest, process or merged. What is wrong goes to `damage`; the
// status is not ok only when the file cannot be opened or is no manifest, or when `visit` says so.
Status ForEachManifestFrame(
    const FrameFile& file, std::vector<Damage>* damage,
    const std::function<Status(const Frame&, std::span<const std::byte> body)>& visit);

// `process->directory` is the caller's; passes are those that are done, by ordinal, with `file`
// relative to the run. A manifest that cannot be read at all is one Damage. `history`: what each
// pass added to the counts, for who asks.
void ReadManifest(Env* env, const std::string& path, ProcessEntry* process,
                  CountHistory* history = nullptr);

}  // namespace tdump::io
