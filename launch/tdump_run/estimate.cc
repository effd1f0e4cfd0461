#include "launch/tdump_run/estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/operator_table.h"
#include "core/slice.h"
#include "core/text.h"
#include "filters/compiled_plan.h"
#include "io/format.h"
#include "io/pass_reader.h"
#include "io/pass_store.h"
#include "launch/tdump_run/estimate_limit.h"

namespace tdump::launch {
namespace {

constexpr uint64_t kSection = sizeof(io::SectionHeader);
constexpr uint64_t kRecordSections = 300;  // about what the metadata of a record takes
constexpr uint64_t kHashSection = kSection + 16;
constexpr uint64_t kPayloadSection = kSection + 40;
constexpr uint64_t kStatisticsSection = kSection + 168;  // with a histogram of four bins
constexpr uint64_t kSampleSection = kSection + 8;
constexpr size_t kTimedSteps = 3;  // from the second one on: what else runs has its share in each

// Rules whose predicate cannot be asked here count as if it had said yes.
filters::Config WithoutPredicates(filters::Config config) {
  for (filters::FilterSet& set : config.capture) {
    for (filters::Rule& rule : set.rules) rule.where.clear();
  }
  for (auto& [name, rules] : config.filters) {
    for (filters::Rule& rule : rules) rule.where.clear();
  }
  return config;
}

uint64_t TileBytes(uint64_t payload) {
  return kSection + 8 + (payload + io::kHashTile - 1) / io::kHashTile * 16;
}

// Elements of a slice of `sizes`.
uint64_t SliceElements(std::span<const SliceRange> slice, const std::vector<int64_t>& sizes) {
  uint64_t elements = 1;
  for (size_t i = 0; i < sizes.size(); ++i)
    elements *= static_cast<uint64_t>(ResolveDim(slice, i, sizes[i]).size);
  return elements;
}

// One pass, record by record.
class PassEstimator {
 public:
  PassEstimator(filters::CompiledPlan* plan, OperatorTable* operators, uint64_t step)
      : plan_(*plan), operators_(*operators), step_(step) {}

  void Add(const io::Record& record) {
    TensorMeta meta;
    meta.dtype = record.dtype;
    meta.layout = record.layout;
    meta.sizes = record.sizes;
    meta.strides = record.strides;
    if (record.filter_sets != filters::kSignatureSet)
      estimate_.roles |= 1u << static_cast<int>(record.key.role);
    StepWork& seen = estimate_.seen.work;
    ++seen.records;
    uint64_t bytes = 0;
    const bool has_bytes = record.reason == SkipReason::kNone && PayloadBytes(meta, &bytes);
    if (has_bytes && record.parts_kept != kPartMeta) seen.copied_bytes += bytes;
    if (has_bytes && (record.parts_kept & kPartStats) != 0) seen.statistics_bytes += bytes;
    const Decision decision = Decide(record);
    if (decision.parts == kPartNone) {
      not_kept_ += kRecordSections;
      return;
    }
    StepWork& asked = estimate_.work;
    ++asked.records;
    if (!has_bytes) return;
    const uint64_t unit = record.dtype.unit_bytes();
    const Parts parts = decision.parts;
    TakeAway(record, unit);
    if (record.hash && (parts & kPartHash) == 0) not_kept_ += kHashSection;
    if (!record.hash && (parts & kPartHash) != 0) added_ += kHashSection;
    if ((parts & kPartStats) != 0) {
      added_ += kStatisticsSection;
      asked.statistics_bytes += bytes;
    }
    if ((parts & kPartSample) != 0) {
      const uint64_t wanted = decision.sample == 0 ? kDefaultSample : decision.sample;
      added_ += kSampleSection + std::min(wanted, record.numel()) * unit;
    }
    uint64_t copied = parts == kPartMeta ? 0 : bytes;
    if ((parts & kPartSlice) != 0) {
      const uint64_t slice = SliceElements(decision.slice, record.sizes) * unit;
      added_ += kPayloadSection + TileBytes(slice) + Framed(slice);
      if ((parts & ~(kPartSlice | kPartMeta)) == 0) copied = slice;
    }
    asked.copied_bytes += copied;
    if ((parts & kPartPayload) == 0) return;
    added_ += kPayloadSection;
    if (!record.hash) ++estimate_.unknown;
    if (record.hash && !contents_.emplace(*record.hash, bytes, record.dtype.view()).second) return;
    added_ += TileBytes(bytes) + Framed(bytes);
  }

  // `meta_bytes`: of the file without payloads.
  StepEstimate Finish(uint64_t meta_bytes) {
    estimate_.work.file_bytes = meta_bytes + added_ - std::min(not_kept_, meta_bytes);
    return estimate_;
  }

 private:
  // What the run that is looked at has beside metadata, hash and payload.
  void TakeAway(const io::Record& record, uint64_t unit) {
    if ((record.parts_kept & kPartStats) != 0) not_kept_ += kStatisticsSection;
    if ((record.parts_kept & kPartSample) != 0)
      not_kept_ += kSampleSection + std::min(kDefaultSample, record.numel()) * unit;
  }
  // A payload frame with its header and the padding before and behind it, on average.
  static uint64_t Framed(uint64_t bytes) {
    return sizeof(io::FrameHeader) + bytes + sizeof(io::FrameHeader) + io::AlignOf(bytes) / 2;
  }

  Decision Decide(const io::Record& record) {
    OperatorInfo info;
    info.kind = record.kind;
    info.root = record.key.root;
    info.path = record.key.path;
    info.op = record.key.op;
    info.cls = record.cls;
    info.aliases = record.aliases;
    info.leaf = record.leaf;
    const RuleId rule = plan_.op(operators_.Intern(info), info, nullptr);
    if (rule == kNoRule) return {};
    ObservationKey key;
    key.role = record.key.role;
    key.phase = record.key.phase;
    key.arg = record.key.arg;
    key.dtype = record.dtype.view();
    key.numel = record.numel();
    key.call = record.key.call;
    key.step = step_;
    key.first_state = step_ == 0;
    return plan_.observe(rule, key);
  }

  filters::CompiledPlan& plan_;
  OperatorTable& operators_;
  const uint64_t step_;
  std::set<std::tuple<io::Hash128, uint64_t, std::string>> contents_;
  uint64_t added_ = 0, not_kept_ = 0;
  StepEstimate estimate_;
};

Result<StepEstimate> EstimatePass(const io::PassStore& store, const io::ProcessEntry& process,
                                  const io::PassEntry& pass, filters::CompiledPlan* plan,
                                  OperatorTable* operators, uint64_t step) {
  TDUMP_ASSIGN_OR_RETURN(const auto reader, store.OpenPass(process, pass));
  PassEstimator estimator(plan, operators, step);
  uint64_t payloads = 0, kept = 0;
  TDUMP_RETURN_IF_ERROR(reader->ForEachRecord([&](const io::Record& record) {
    estimator.Add(record);
    if (record.payload) {
      payloads += kPayloadSection;
      if (record.payload->same_as == 0 && record.payload->earlier == 0)
        kept += record.payload->stored_bytes + record.tile_digests.size() + kSection + 8 + 96;
    }
    return true;
  }));
  const uint64_t others = std::min(pass.file_bytes, payloads + kept);
  StepEstimate estimate = estimator.Finish(pass.file_bytes - others);
  estimate.seen.work.file_bytes = pass.file_bytes;
  return estimate;
}

// Without what a killed process was writing.
std::vector<io::PassEntry> FinishedPasses(const io::ProcessEntry& process) {
  std::vector<io::PassEntry> passes = process.passes;
  std::erase_if(passes, [](const io::PassEntry& pass) { return pass.part; });
  return passes;
}

// PassInfo of the manifest has no time; that of the file has.
Result<double> SecondsOfStep(const io::PassStore& store, const io::ProcessEntry& process,
                             const io::PassEntry& pass, const io::PassEntry& next) {
  TDUMP_ASSIGN_OR_RETURN(const auto first, store.OpenPass(process, pass));
  TDUMP_ASSIGN_OR_RETURN(const auto second, store.OpenPass(process, next));
  const io::PassInfo &from = first->info(), &to = second->info();
  if (to.started_ns <= from.started_ns || to.local_step <= from.local_step) return 0.0;
  return static_cast<double>(to.started_ns - from.started_ns) / 1e9 /
         static_cast<double>(to.local_step - from.local_step);
}

// How many steps are selected; endless: there is no last one.
uint64_t SelectedSteps(const Spec& steps, bool* endless) {
  constexpr uint64_t kMost = 1 << 24;
  *endless = steps.is_all() || (!steps.is_none() && steps.Max() > kMost);
  if (*endless || steps.is_none()) return 0;
  uint64_t count = 0;
  for (uint64_t step = steps.Min(); step <= steps.Max(); ++step) count += steps.Contains(step);
  return count;
}

// Of the steps that are selected, those that the process did not come to.
uint64_t StepsBeyond(const Spec& steps, const io::ProcessEntry& process) {
  if (!process.close || steps.is_none()) return 0;
  // The job may number its steps itself.
  const io::PassInfo& last = process.passes.back().info;
  const uint64_t ahead =
      last.job_step >= 0 ? static_cast<uint64_t>(last.job_step) - last.local_step : 0;
  uint64_t count = 0;
  for (uint64_t step = std::max(steps.Min(), process.close->steps_seen + ahead);
       step <= steps.Max(); ++step)
    count += steps.Contains(step);
  return count;
}

// Whether a record with this reason would be kept by a capture that has more room.
bool IsLoss(SkipReason reason) {
  return reason == SkipReason::kMemoryLimit || reason == SkipReason::kDiskLimit ||
         reason == SkipReason::kDiskError || reason == SkipReason::kPassEnded ||
         reason == SkipReason::kCopyFailed || reason == SkipReason::kStagingLimit ||
         reason == SkipReason::kDeviceError;
}

// The first two steps that `steps` selects and those after them, as a SPEC.
std::string FirstSteps(const Spec& steps) {
  if (steps.is_none()) return "none";
  if (steps.is_all()) return fmt::format("0-{}", 1 + kTimedSteps);
  const uint64_t first = steps.Min();
  for (uint64_t step = first + 1; step <= steps.Max(); ++step) {
    if (steps.Contains(step)) return fmt::format("{},{}-{}", first, step, step + kTimedSteps);
  }
  return fmt::format("{}-{}", first, first + kTimedSteps);
}

std::string RankLine(const RankEstimate& rank) {
  const StepEstimate& first = rank.steps.front();
  const StepEstimate& later = rank.steps.back();
  return fmt::format("  rank {:<5} {} a step, {} a step on disk ({} in the first), {} copied\n",
                     rank.rank, Plural(later.work.records, "record"),
                     BytesText(later.work.file_bytes), BytesText(first.work.file_bytes),
                     BytesText(later.work.copied_bytes));
}

// Each rank, or of many the one that writes least; then the one that writes most.
std::string RankLines(const std::vector<RankEstimate>& ranks) {
  constexpr size_t kMostLines = 8;
  const auto less = [](const RankEstimate& a, const RankEstimate& b) {
    return a.total_bytes() < b.total_bytes();
  };
  std::string text;
  if (ranks.size() <= kMostLines) {
    for (const RankEstimate& rank : ranks) text += RankLine(rank);
  } else {
    text += "  smallest\n" + RankLine(*std::min_element(ranks.begin(), ranks.end(), less));
  }
  if (ranks.size() < 2) return text;
  const RankEstimate& largest = *std::max_element(ranks.begin(), ranks.end(), less);
  if (ranks.size() > kMostLines) text += "  largest\n" + RankLine(largest);
  return text +
         fmt::format("  largest    rank {}: {}\n", largest.rank, BytesText(largest.total_bytes()));
}

bool Compresses(const filters::Config& config) {
  const auto does = [](const filters::Rule& rule) {
    return rule.compress.value_or(Compression::kNone) != Compression::kNone;
  };
  return config.compress != Compression::kNone ||
         std::any_of(config.capture.begin(), config.capture.end(), [&](const auto& set) {
           return std::any_of(set.rules.begin(), set.rules.end(), does);
         });
}

// Of steps without a last one there is no sum: what those looked at take, and one more.
std::string EndlessText(const std::vector<RankEstimate>& ranks, uint64_t total, uint64_t files,
                        uint64_t manifests, const filters::Config& config,
                        const std::optional<Room>& room) {
  size_t looked_at = 0;
  uint64_t further = 0;
  for (const RankEstimate& rank : ranks) {
    looked_at = std::max(looked_at, rank.steps.size());
    further += rank.steps.back().work.file_bytes;
  }
  std::string text = fmt::format(
      "  in all     {} ({} bytes) in {} for {} only, manifests of {} beside them; steps {} has no "
      "last one, each further step adds {} ({} bytes)",
      BytesText(total), total, Plural(files, "file"), Plural(looked_at, "step"),
      BytesText(manifests), config.steps.ToString(), BytesText(further), further);
  if (const auto fit = room ? StepsUntilFull(ranks, *room, true) : std::nullopt;
      fit && *fit >= looked_at) {
    text += fmt::format(", to {} after about {}",
                        room->disk_binds ? "the end of the disk" : "output.limit",
                        Plural(*fit, "step"));
  }
  return text + "; --steps 0-N sums N + 1 steps\n";
}

// What an estimate is worth that stands on fewer steps than it is for.
std::string StepsBeyondText(const std::vector<RankEstimate>& ranks) {
  const RankEstimate& rank = *std::max_element(
      ranks.begin(), ranks.end(), [](const auto& a, const auto& b) { return a.beyond < b.beyond; });
  if (rank.beyond == 0) return "";
  const uint64_t selected = rank.steps.size() + rank.later_steps;
  return fmt::format(
      "  note       stands on {}: the job ended after {}, so {} of {} selected steps are not "
      "in it; they count as the last of those\n",
      Plural(rank.steps.size(), "step"), Plural(rank.ran, "step"), CountText(rank.beyond),
      CountText(selected));
}

// Selected ranks that wrote nothing where it was looked.
std::string UnseenRanks(const std::vector<RankEstimate>& ranks, const filters::Config& config) {
  std::vector<uint64_t> unseen;
  for (int32_t rank = 0; rank < ranks.front().world; ++rank) {
    const bool seen = std::any_of(ranks.begin(), ranks.end(),
                                  [&](const RankEstimate& other) { return other.rank == rank; });
    if (!seen && config.ranks.Contains(rank, ranks.front().world)) unseen.push_back(rank);
  }
  if (unseen.empty()) return "";
  return fmt::format(
      "  note       without {} {}, which recorded no step or ran on another node; set TMPDIR to a "
      "folder that all nodes share\n",
      unseen.size() == 1 ? "rank" : "ranks", RangesText(unseen));
}

}  // namespace

uint64_t RankEstimate::total_bytes() const {
  uint64_t bytes = 0;
  for (const StepEstimate& step : steps) bytes += step.work.file_bytes;
  return bytes + (steps.empty() ? 0 : later_steps * steps.back().work.file_bytes);
}

uint64_t RankEstimate::files() const { return steps.size() + later_steps; }

Options ProbeOptions(Options options, const filters::Config& config, const std::string& directory) {
  options.settings.emplace_back("steps.select", "'" + FirstSteps(config.steps) + "'");
  options.settings.emplace_back("level", "hash");
  options.settings.emplace_back("output.dir", directory);
  options.settings.emplace_back("output.layout", "pass");
  // The probe keeps hashes, so it is small; the user's limit would cut what is to be estimated.
  options.settings.emplace_back("output.limit", "100GB");
  options.settings.emplace_back("output.at_limit", "stop");
  options.settings.emplace_back("log", "warning");
  options.settings.emplace_back("output.if_exists", "generation");
  return options;
}

Result<std::vector<RankEstimate>> EstimateFromRun(Env* env, const io::RunRef& run,
                                                  const filters::Config& config) {
  TDUMP_ASSIGN_OR_RETURN(const auto store, io::PassStore::Open(env, run.path));
  const uint32_t generation = io::GenerationOf(run, *store);
  const filters::Config asked = WithoutPredicates(config);
  std::vector<RankEstimate> ranks;
  for (const io::ProcessEntry& process : store->processes()) {
    const int rank = process.identity.rank, world = process.identity.world;
    const std::vector<io::PassEntry> passes = FinishedPasses(process);
    if (process.identity.generation != generation || passes.empty() ||
        !config.ranks.Contains(rank, world))
      continue;
    TDUMP_ASSIGN_OR_RETURN(const auto plan, filters::CompiledPlan::Compile(
                                                asked, {.rank = rank, .world = world, .note = {}}));
    OperatorTable operators;
    RankEstimate& estimate = ranks.emplace_back();
    estimate.rank = rank;
    estimate.world = world;
    estimate.host = process.identity.host;
    const uint64_t selected = SelectedSteps(config.steps, &estimate.endless);
    const size_t looked_at = std::min<size_t>(
        {passes.size(), 2, estimate.endless ? 2 : std::max<uint64_t>(selected, 1)});
    for (size_t i = 0; i < looked_at; ++i) {
      const io::PassEntry& pass = passes[i];
      if (!pass.error.empty()) return Corrupt(fmt::format("{}: {}", pass.file, pass.error));
      TDUMP_ASSIGN_OR_RETURN(StepEstimate step,
                             EstimatePass(*store, process, pass, plan.get(), &operators, i));
      const size_t next = i + 1 < looked_at ? i + 1 : std::min(i + kTimedSteps, passes.size() - 1);
      if (next > i) {
        TDUMP_ASSIGN_OR_RETURN(step.seen.seconds,
                               SecondsOfStep(*store, process, pass, passes[next]));
        const uint64_t steps = passes[next].info.local_step - pass.info.local_step;
        const auto captured = static_cast<double>(next - i);
        if (steps > 0) step.seen.captured = captured / static_cast<double>(steps);
        for (size_t timed = i; timed < next; ++timed)
          step.seen.blocked += static_cast<double>(passes[timed].blocked_ns) / 1e9 / captured;
      }
      for (const io::ReasonCount& count : pass.not_kept) {
        const auto reason = static_cast<SkipReason>(count.reason);
        if (IsLoss(reason) && count.count != 0) estimate.lost[reason] += count.count;
      }
      estimate.roles |= step.roles;
      estimate.steps.push_back(step);
    }
    estimate.rules = plan->Counts();
    const uint64_t last = passes[looked_at - 1].info.local_step;
    estimate.last_step = last;
    estimate.open_at_end = !process.close || process.close->steps_seen <= last + 1;
    const std::string manifest = run.path + "/" + process.directory + "/manifest.tdm";
    if (const auto info = env->Stat(manifest); info.ok()) estimate.manifest_bytes = info->bytes;
    estimate.later_steps = selected > looked_at ? selected - looked_at : 0;
    if (process.close) estimate.ran = process.close->steps_seen;
    if (!estimate.endless)
      estimate.beyond = std::min(StepsBeyond(config.steps, process), estimate.later_steps);
  }
  if (ranks.empty())
    return NotFound(run.path +
                    ": no pass of a selected rank, so there is nothing to estimate from");
  return ranks;
}

std::string EstimateText(const std::vector<RankEstimate>& ranks, const filters::Config& config,
                         const Rates& rates, std::optional<uint64_t> free_bytes,
                         uint64_t arena_bytes) {
  std::string text = fmt::format("tdump-run: estimate for steps {} on {}\n",
                                 config.steps.ToString(), Plural(ranks.size(), "rank"));
  text += RankLines(ranks);
  const uint64_t files = FilesOfPasses(ranks, config);
  uint64_t total = 0, manifests = 0, unknown = 0;
  bool endless = false;
  DiskLoad load{.arenas = arena_bytes * ranks.size()};
  for (const RankEstimate& rank : ranks) {
    const StepEstimate& first = rank.steps.front();
    const StepEstimate& later = rank.steps.back();
    total += rank.total_bytes();
    manifests += rank.manifest_bytes;
    unknown += first.unknown + later.unknown;
    endless |= rank.endless;
    load.written += later.work.file_bytes;
    load.copied += later.work.copied_bytes;
    load.steps = std::max(load.steps, rank.files());
  }
  if (endless) load.steps = 0;
  text += endless
              ? EndlessText(ranks, total, files, manifests, config,
                            RoomOfRun(ranks, config, free_bytes))
              : fmt::format("  in all     {} ({} bytes) in {}, manifests of {} beside them\n",
                            BytesText(total), total, Plural(files, "file"), BytesText(manifests));
  text += "  limit      output.limit " + LimitText(ranks, config, free_bytes) + "\n";
  uint64_t memory = 0;
  for (const RankEstimate& rank : ranks)
    memory = std::max(memory, rank.steps.back().work.copied_bytes);
  text += fmt::format(
      "  memory     at most {} of the arena a process, were the disk to take nothing "
      "during a step\n",
      BytesText(memory));
  StepCost slowest;
  for (const RankEstimate& rank : ranks) {
    const StepEstimate& timed =
        rank.steps.back().seen.seconds > 0 ? rank.steps.back() : rank.steps.front();
    const StepCost cost = CostOf(timed.work, timed.seen, load, rates, config);
    if (slowest.plain <= 0 || cost.high > slowest.high) slowest = cost;
  }
  text += CostText(slowest, load, rates, config);
  text += StepsBeyondText(ranks) + UnseenRanks(ranks, config);
  if (Compresses(config)) text += "  note       payloads count as they are before compression\n";
  if (unknown != 0) {
    text += fmt::format(
        "  note       {} without a hash count as all different: use a run of level "
        "hash or full\n",
        Plural(unknown, "record"));
  }
  return text;
}

}  // namespace tdump::launch
