// What golden.cc puts together: the passes and the manifests among the golden files. Private to the
// tests of the format.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "core/env.h"
#include "core/status.h"
#include "io/run_index.h"

namespace tdump::io::test {

inline constexpr uint64_t kJobHash = 0x0123456789ABCDEF;

inline void Must(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "golden files: %s\n", std::string(status.message()).c_str());
  std::exit(1);
}

template <class T>
T Must(Result<T>&& result) {
  Must(result.status());
  return std::move(*result);
}

// ---- golden_passes.cc ----

void WritePass(Env* env);  // /run/rank2_pid3069569/pass00003.tdp
// Two passes of one packed file: the second refers to the first one's tensor.
void WritePacked(Env* env, const std::string& directory);
// `packed`: the bytes of a member.
void WriteNode(Env* env, const std::string& run, const std::string& packed);
void WriteParts(Env* env, const std::string& directory);
// Its bytes depend on the version of zstd; what they expand to does not.
void WriteCompressed(Env* env, const std::string& directory);
// What a writer of a later version may put between what we know.
std::string LaterPass();

// ---- golden_manifests.cc ----

void WriteManifest(Env* env, const std::string& path);
void WritePackedManifest(Env* env, const std::string& path);
std::string SlotFile(Env* env);
RunIndex Index();

}  // namespace tdump::io::test
