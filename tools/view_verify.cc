#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "core/add_thread.h"
#include "core/text.h"
#include "io/manifest_reader.h"
#include "tools/coverage_json.h"
#include "tools/view.h"

namespace tdump::tools {
namespace {

// A pass that was not finished, as far as it goes.
struct CutPass {
  io::Damage end;
  uint64_t step = 0;
  int32_t rank = 0;
  uint64_t records = 0;  // that were committed, and are read
};

struct Findings {
  std::vector<io::Damage> damage;    // bytes that are not what was written
  std::vector<CutPass> unfinished;   // no damage
  std::vector<io::Damage> cut;       // manifests whose process was killed in their last entry
  std::vector<std::string> trouble;  // files that cannot be read
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
  std::optional<CutPass> ends;
  const auto end = [&](io::Damage item) {
    if (ends) return;  // that the footer is missing is told after where reading stopped
    const uint64_t records = pass.ok() ? pass->reader->record_count() : 0;
    const int32_t rank = run.store->processes()[place.process].identity.rank;
    ends = CutPass{std::move(item), place.global_step, rank, records};
  };
  Status status = pass.ok() ? pass->reader->Verify(&damage) : pass.status();
  std::lock_guard lock(*mutex);
  ++findings->passes;
  findings->bytes += entry.file_bytes;
  for (io::Damage& item : damage) {
    if (IsTheEnd(entry, item))
      end(std::move(item));
    else
      findings->damage.push_back(std::move(item));
  }
  if (entry.part && entry.file_bytes == 0) end({entry.file, 0, "empty"});
  if (ends) findings->unfinished.push_back(std::move(*ends));
  if (status.ok() || (entry.part && entry.file_bytes == 0)) return;
  if (status.code() == StatusCode::kCorrupt) {
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
  std::stable_sort(findings.unfinished.begin(), findings.unfinished.end(),
                   [](const CutPass& a, const CutPass& b) {
                     return std::tie(a.step, a.rank) < std::tie(b.step, b.rank);
                   });
  std::stable_sort(findings.cut.begin(), findings.cut.end(), order);
  return findings;
}

nlohmann::ordered_json DamageJson(const std::vector<io::Damage>& list) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const io::Damage& item : list)
    json.push_back({{"file", item.file}, {"offset", item.offset}, {"what", item.what}});
  return json;
}

nlohmann::ordered_json UnfinishedJson(const std::vector<CutPass>& list) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const CutPass& pass : list) {
    json.push_back({{"file", pass.end.file},
                    {"offset", pass.end.offset},
                    {"what", pass.end.what},
                    {"step", pass.step},
                    {"rank", pass.rank},
                    {"records", pass.records}});
  }
  return json;
}

std::string UnfinishedLines(const std::vector<CutPass>& list, uint64_t most) {
  std::string text;
  for (size_t i = 0; i < std::min<uint64_t>(list.size(), most); ++i) {
    const CutPass& pass = list[i];
    text += fmt::format("unfinished  step {}, rank {}: {} ends at byte {}; {} before it\n",
                        pass.step, pass.rank, Printable(pass.end.file), pass.end.offset,
                        Plural(pass.records, "sound record"));
  }
  if (list.size() > most)
    text += fmt::format("unfinished  {} more: --all\n", CountText(list.size() - most));
  return text;
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

// What a kill does to passes, told apart from damage.
std::string CutText(const Findings& findings) {
  if (findings.unfinished.empty()) return "";
  const bool one = findings.unfinished.size() == 1;
  return fmt::format("; {} {} unfinished (killed, or still running){}",
                     CountText(findings.unfinished.size()), one ? "is" : "are",
                     findings.damage.empty() ? ", what they had written until then is sound" : "");
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
                    {"unfinished", UnfinishedJson(findings.unfinished)},
                    {"cut", DamageJson(findings.cut)},
                    {"trouble", findings.trouble}}));
  } else if (!request.common.quiet) {
    Print(fmt::format("{}  {}, {} read{}\n", bad ? "DAMAGED" : "SOUND",
                      Plural(findings.passes, "pass"), BytesText(findings.bytes),
                      CutText(findings)));
    Print(Lines("damaged   ", findings.damage, request.top) +
          UnfinishedLines(findings.unfinished, request.top) +
          Lines("cut       ", findings.cut, request.top));
  }
  for (const std::string& text : findings.trouble) Fail(kViewTool, text);
  return bad ? kExitDiffers : findings.trouble.empty() ? kExitOk : kExitTrouble;
}

}  // namespace tdump::tools
