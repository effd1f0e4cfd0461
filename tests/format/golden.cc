#include "tests/format/golden.h"

#include <memory>

#include "io/merged_manifest.h"
#include "io/pass_store.h"
#include "tests/format/fixed_env.h"
#include "tests/format/golden_writers.h"

namespace tdump::io::test {

std::map<std::string, std::string> GoldenFiles() {
  const std::unique_ptr<Env> env = NewFixedEnv();
  const auto read = [&](const std::string& path) {
    return Must(ReadFile(env.get(), path, 1 << 20));
  };
  std::map<std::string, std::string> files;
  Must(env->MakeDirs("/run/rank2_pid3069569", 0700));
  WritePass(env.get());
  const std::string& pass = files["pass.tdp"] = read("/run/rank2_pid3069569/pass00003.tdp");
  files["torn.tdp.part"] = pass.substr(0, 2700);
  files["later.tdp"] = LaterPass();
  WriteManifest(env.get(), "/run/rank2_pid3069569/manifest.tdm");
  files["manifest.tdm"] = read("/run/rank2_pid3069569/manifest.tdm") + std::string(64, '\0');
  Must(WriteMergedManifest(env.get(), *Must(PassStore::Open(env.get(), "/run")), {Index()}));
  files["merged.tdm"] = read("/run/manifest.tdm");
  Must(env->MakeDirs("/packed", 0700));
  WritePacked(env.get(), "/packed");
  files["packed.tdp"] = read("/packed/pack00000.tdp");
  Must(env->MakeDirs("/node", 0700));
  WriteNode(env.get(), "/node", files["packed.tdp"]);
  files["node.tdn"] = read("/node/node_a_0.tdn");
  WritePackedManifest(env.get(), "/packed/manifest.tdm");
  files["packed_manifest.tdm"] = read("/packed/manifest.tdm");
  Must(env->MakeDirs("/parts", 0700));
  WriteParts(env.get(), "/parts");
  files["parts.tdp"] = read("/parts/pass00000.tdp");
  Must(env->MakeDirs("/compressed", 0700));
  WriteCompressed(env.get(), "/compressed");
  files["compressed.tdp"] = read("/compressed/pass00000.tdp");
  files["process.slot"] = SlotFile(env.get());
  return files;
}

}  // namespace tdump::io::test
