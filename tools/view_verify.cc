#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/add_thread.h"
#include "core/text.h"
#include "io/manifest_reader.h"
#include "tools/coverage_json.h"
#include "tools/view.h"

namespace tdump::tools {
namespace {

struct Findings {
  std::vector<io::Damage> damage;      // bytes that are not what was written
  std::vector<io::Damage> unfinished;  // where a pass that was not finished ends
  std::vector<io::Damage> cut;         // manifests whose process was killed in their last entry
  std::vector<std::string> trouble;    // files that cannot be read
  uint64_t passes = 0, bytes = 0;
};

// A pass that was killed ends somewhere: no damage.
bool IsTheEnd(const io::PassEntry& entry, const io::Damage& damage) {
  return entry.part && (damage.offset >= entry.offset + entry.file_bytes ||
                        damage.what.ends_with("reading stopped here"));
}

void VerifyOne(const LoadedRun& run, const io::IndexedPass& place, std::mutex* mutex,
               Findings* findings) {
  const io::PassEntry& entry = run.store->processes()[place.process].passes[place.pass];
  if (entry.file.empty()) return;  // never made: the coverage says why
  std::vector<io::Damage> damage;
  const auto pass = Open(run, place);
  Status status = pass.ok() ? pass->reader->Verify(&damage) : pass.status();
  std::lock_guard lock(*mutex);
  ++findings->passes;
  findings->bytes += entry.file_bytes;
  for (io::Damage& item : damage)
    (IsTheEnd(entry, item) ? findings->unfinished : findings->damage).push_back(std::move(item));
  if (status.ok()) return;
  if (entry.part && entry.file_bytes == 0) {
    findings->unfinished.push_back({entry.file, 0, "empty"});
  } else if (status.code() == StatusCode::kCorrupt) {
    findings->damage.push_back({entry.file, 0, status.message()});
  } else {
    findings->trouble.push_back(status.message());
  }
}

Findings VerifyAll(const ViewRequest& request) {
  const auto passes = SelectPasses(request.run, request.filter);
  Findings findings;
  // What reading the manifests found: missing and cut files, damaged manifests.
  for (const io::Damage& item : request.run.index.damage)
    (item.what.ends_with(io::kCutEntry) ? findings.cut : findings.damage).push_back(item);
  std::mutex mutex;
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next.fetch_add(1); i < passes.size(); i = next.fetch_add(1))
      VerifyOne(request.run, *passes[i], &mutex, &findings);
  };
  const unsigned cores = std::clamp(std::thread::hardware_concurrency(), 1u, 16u);
  const size_t workers = std::min<size_t>(request.jobs != 0 ? request.jobs : cores, passes.size());
  std::vector<std::thread> threads;
  for (size_t i = 1; i < workers && AddThread(&threads, work);) ++i;
  work();
  for (std::thread& thread : threads) thread.join();
  const auto order = [](const io::Damage& a, const io::Damage& b) {
    return std::tie(a.file, a.offset) < std::tie(b.file, b.offset);
  };
  std::stable_sort(findings.damage.begin(), findings.damage.end(), order);
  std::stable_sort(findings.unfinished.begin(), findings.unfinished.end(), order);
  std::stable_sort(findings.cut.begin(), findings.cut.end(), order);
  return findings;
}

nlohmann::ordered_json DamageJson(const std::vector<io::Damage>& list) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const io::Damage& item : list)
    json.push_back({{"file", item.file}, {"offset", item.offset}, {"what", item.what}});
  return json;
}

std::string Lines(std::string_view word, const std::vector<io::Damage>& list, uint64_t most) {
  std::string text;
  for (size_t i = 0; i < std::min<uint64_t>(list.size(), most); ++i) {
    text += fmt::format("{}  {}, byte {}: {}\n", word, Printable(list[i].file), list[i].offset,
                        Printable(list[i].what));
  }
  if (list.size() > most)
    text += fmt::format("{}  {} more: --all\n", word, CountText(list.size() - most));
  return text;
}

}  // namespace

int ViewVerify(const ViewRequest& request) {
  const Findings findings = VerifyAll(request);
  const bool bad = !findings.damage.empty();
  if (request.common.json) {
    Print(JsonText({{"run", request.run.ref.path},
                    {"damaged", bad},
                    {"passes", findings.passes},
                    {"bytes", findings.bytes},
                    {"damage", DamageJson(findings.damage)},
                    {"unfinished", DamageJson(findings.unfinished)},
                    {"cut", DamageJson(findings.cut)},
                    {"trouble", findings.trouble}}));
  } else if (!request.common.quiet) {
    Print(fmt::format("{}  {}, {} read{}\n", bad ? "DAMAGED" : "SOUND",
                      Plural(findings.passes, "pass"), BytesText(findings.bytes),
                      findings.unfinished.empty()
                          ? ""
                          : fmt::format("; {} end before their time",
                                        Plural(findings.unfinished.size(), "pass"))));
    Print(Lines("damaged   ", findings.damage, request.top) +
          Lines("unfinished", findings.unfinished, request.top) +
          Lines("cut       ", findings.cut, request.top));
  }
  for (const std::string& text : findings.trouble) Fail(kViewTool, text);
  return bad ? kExitDiffers : findings.trouble.empty() ? kExitOk : kExitTrouble;
}

}  // namespace tdump::tools
