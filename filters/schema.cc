// The keys of a configuration.
#include "filters/schema.h"

#include "filters/config_settings.h"
#include "filters/member_settings.h"
#include "filters/topology.h"

namespace tdump::filters {
namespace {

constexpr KeySpec<Config> kKeys[] = {
    {
        .path = "version",
        .type = "1",
        .value = "1",
        .doc = "Version of this layout.",
        .example = "1",
        .read = ReadVersion,
    },
    {
        .path = "output.dir",
        .type = "path",
        .value = "outputs/tdump_{job}",
        .doc = "Run directory; relative to where `tdump-run` is called (without it: where the job "
               "starts). `{job}` is Slurm's job.step, the torchelastic run id, the PMIx namespace, "
               "else the start time. `outputs/latest` points to the newest run.",
        .example = "runs/ref",
        .read = ReadDir,
        .print = PrintText<&Config::dir>,
    },
    {
        .path = "output.if_exists",
        .type = "generation | error",
        .value = "generation",
        .doc = "What to do when the directory already holds a run: put a new generation beside the "
               "old ones, or refuse. Nothing is ever overwritten.",
        .example = "error",
        .read = ReadIfExists,
        .print = PrintIfExists,
    },
    {
        .path = "output.limit",
        .type = "auto | bytes",
        .value = "auto",
        .doc =
            "Largest size of the whole run, shared by the ranks that record; auto is 10 % of the "
            "free space, at most 100 GiB. What happens there: `output.at_limit`; the coverage says "
            "it. It counts the pass files and each rank's manifest, which takes about 0.4 KB a "
            "step of a job whose steps are alike; no pass is begun once a manifest has half of its "
            "rank's share. It does not count the merged manifest, about as large as theirs "
            "together, the step numbers of steps after the last pass (80 bytes each), or pages "
            "that only a node file has.",
        .example = "20GiB",
        .read = ReadLimit,
        .print = PrintBytesOrAuto<&Config::limit_bytes>,
    },
    {
        .path = "output.at_limit",
        .type = "stop | ring",
        .value = "stop",
        .doc =
            "At the limit: stop and keep the first steps, or remove the oldest passes and keep the "
            "last. A ring keeps the first pass of a process (weights are captured there) while it "
            "takes at most a quarter of the limit.",
        .example = "ring",
        .read = ReadAtLimit,
        .print = PrintAtLimit,
    },
    {
        .path = "output.layout",
        .type = "auto | pass | packed | node",
        .value = "auto",
        .doc = "`pass`: a file per process and step. `packed`: the steps of a process behind one "
               "another in one file, an unchanged tensor stored once. `node`: that, and the files "
               "of all processes of a node in one. `auto`: `pass` while the run has less than "
               "10,000 files, then `packed`; `node` where the ranks are too many for that.",
        .example = "packed",
        .read = ReadLayout,
        .print = PrintLayout,
    },
    {
        .path = "output.staging",
        .type = "path",
        .value = "none",
        .doc = "Node-local directory to write to first.",
    },
    {
        .path = "output.compress",
        .type = "none | zstd",
        .value = "none",
        .doc = "Compression of payloads, unless the rule says otherwise: zstd, after the bytes or "
               "bits of like place were put together. One that does not shrink stays as it is.",
        .example = "zstd",
        .read = ReadCompress,
        .print = PrintCompress,
    },
    {
        .path = "output.durability",
        .type = "none | pass | step | finalize",
        .value = "none",
        .doc =
            "When files are forced to the disk, always by the writer thread while the job runs. "
            "`pass`: a pass, its name and its manifest entry, in that order, when it ends. `step`: "
            "the bytes of a pass when it ends. `finalize`: all files, once, at the end of the job.",
        .example = "pass",
        .read = ReadDurability,
        .print = PrintDurability,
    },
    {
        .path = "output.direct",
        .type = "auto | off",
        .value = "auto",
        .doc = "`auto`: tensors of more than 1 MiB are written past the page cache (O_DIRECT) "
               "where that is not much slower than into it; both ways are timed. It spares the "
               "job a copy and the memory of the cache. `off`: everything is written through the "
               "cache, for a file system that does not cope.",
        .example = "off",
        .read = ReadDirect,
        .print = PrintDirect,
    },
    {
        .path = "output.mode",
        .type = "octal",
        .value = "'0700'",
        .doc = "Permissions of the run directory.",
        .example = "'0750'",
        .read = ReadMode,
        .print = PrintMode,
    },
    {
        .path = "steps.select",
        .type = "SPEC",
        .value = "0-9",
        .doc = "Steps to record, inclusive: `0-9`, `100-200:50` (every 50th), `[3, 7]`, `all`, "
               "`none`. `steps: 0-9` is short for `steps: {select: 0-9}`.",
        .example = "100-200:50",
        .read = ReadIndices<&Config::steps>,
        .print = PrintIndices<&Config::steps>,
    },
    {
        .path = "steps.boundary",
        .type = "auto | optimizer | backward | forward[:REGEX] | op:REGEX | explicit",
        .value = "auto",
        .doc = "What ends a step. `auto`: the optimizer's step while gradients are on and an "
               "optimizer exists, else each outermost call of the first root module. "
               "`forward:REGEX`: a call of a module whose class or path matches. `op:REGEX`: an "
               "ATen operator. `explicit`: `tdump.step()`. The one found is printed at the start.",
        .example = "'forward:Decoder$'",
        .read = ReadBoundary,
        .print = PrintText<&Config::boundary>,
    },
    {
        .path = "steps.first",
        .type = "auto | number",
        .value = "auto",
        .doc = "Number of the first step; auto is 0.",
        .example = "41200",
        .read = ReadFirst,
        .print = PrintFirst,
    },
    {
        .path = "steps.skip",
        .type = "auto | number",
        .value = "auto",
        .doc = "Steps at the start that are not counted (warm-up, profiling); auto is 0.",
        .example = "3",
        .read = ReadSkip,
        .print = PrintNumber<&Config::skip_steps>,
    },
    {
        .path = "steps.micro",
        .type = "SPEC",
        .value = "all",
        .doc = "Micro-batches (calls of the root within a step) to record.",
        .example = "0",
        .read = ReadIndices<&Config::micro>,
        .print = PrintIndices<&Config::micro>,
    },
    {
        .path = "ranks",
        .type = "SPEC",
        .value = "all",
        .doc = "Ranks to record: `0-7,16`, `0-511:8`, `[-1]` (the last). All ranks agree on steps "
               "and appear in the coverage all the same. Later: `one-per-node`, coordinates such "
               "as `{dp: 0}`.",
        .example = "[1, 3]",
        .read = ReadRanks,
        .print = PrintIndices<&Config::ranks>,
    },
    {
        .path = "topology.order",
        .type = "auto | list",
        .value = "auto",
        .doc = "Axes of the parallel layout, fastest first: rank = tp + 8 * (pp + ...). Kept with "
               "each "
               "rank for tdump-diff, which puts shards together.",
        .example = "[tp, pp, dp]",
        .read = ReadTopologyOrder,
        .print = PrintTopologyOrder,
    },
    {
        .path = "topology.size",
        .type = "auto | map",
        .value = "auto",
        .doc = "How many places each axis has; the product is the number of ranks. A single axis "
               "needs "
               "no order.",
        .example = "{tp: 8, pp: 4, dp: 16}",
        .read = ReadTopologySize,
        .print = PrintTopologySize,
    },
    {
        .path = "collect.modules",
        .type = "auto | on | off",
        .value = "auto",
        .doc = "Calls of nn.Module, torch::nn modules given to `tdump::watch`, and scopes; auto: "
               "when LibTorch is in the process.",
        .example = "off",
        .read = ReadTri<&Config::modules>,
        .print = PrintTri<&Config::modules>,
    },
    {
        .path = "collect.taps",
        .type = "auto | on | off",
        .value = "auto",
        .doc = "Tensors named in the program by `tdump::tap` and `tdump.tap`.",
        .example = "off",
        .read = ReadTri<&Config::taps>,
        .print = PrintTri<&Config::taps>,
    },
    {
        .path = "collect.aten",
        .type = "on | off",
        .value = "off",
        .doc = "ATen operators, outermost ones only. Needed by rules with `op`; makes operators "
               "count as leaves.",
        .example = "on",
        .read = ReadOnOff<&Config::aten>,
        .print = PrintOnOff<&Config::aten>,
    },
    {
        .path = "collect.collectives",
        .type = "on | off",
        .value = "off",
        .doc = "Collectives of torch.distributed (c10d), as operators beside those of ATen; needs "
               "`aten: on`. What they are given is recorded; what they make only as shape and "
               "dtype, since it may not be there yet when the call returns. Later: MPI, NCCL.",
        .example = "on",
        .read = ReadOnOff<&Config::collectives>,
        .print = PrintOnOff<&Config::collectives>,
    },
    {
        .path = "collect.kernels",
        .type = "off | save | print | names",
        .value = "off",
        .doc = "Launches of the kernels in what Inductor compiled with its debug printer. `save` "
               "(or `on`): what each is given, before and after. `print`: name, shape, dtype, "
               "statistics and first values of it on standard error, nothing on the disk. `names`: "
               "only a breadcrumb of each launch, which outlives a crash. Without a rule that "
               "names a `kernel`: all of them; without `capture`: nothing else.",
        .example = "save",
        .read = ReadKernels,
        .print = PrintKernels,
    },
    {
        .path = "names.profile",
        .type = "auto | none",
        .value = "auto",
        .doc = "Framework whose conventions are known. Later: a framework's name.",
        .example = "none",
        .read = ReadProfile,
    },
    {
        .path = "names.roots",
        .type = "auto | map",
        .value = "auto",
        .doc = "Prefix of a further root module by its class; auto: class and number, such as "
               "`Critic#1.`",
        .example = "{EagleModel: draft}",
        .read = ReadRoots,
        .print = PrintRoots,
    },
    {
        .path = "filters",
        .type = "map of lists",
        .value = "{}",
        .doc = "Named lists of rules, for `use`.",
        .example = "{small: [{numel: 0-15, level: off}]}",
        .read = ReadFilters,
    },
    {
        .path = "capture",
        .type = "list of rules, or map of lists",
        .value = "[{leaf: true}]",
        .doc = "What to record: a list is one filter set, a map names several, each on its own. "
               "See [Rules](#rules).",
        .example = "[{name: '^encoder\\.', level: hash}]",
        .read = ReadCaptureSets,
    },
    {
        .path = "memory.host",
        .type = "auto | bytes",
        .value = "auto",
        .doc = "Arena per process for tensors on their way to the disk; auto is the lesser of 4 "
               "GiB and 5 % of the memory of cgroup or node, shared by the ranks of the node.",
        .example = "1GiB",
        .read = ReadHost,
        .print = PrintBytesOrAuto<&Config::host_bytes>,
    },
    {
        .path = "memory.device",
        .type = "bytes",
        .value = "256MiB",
        .doc =
            "Staging per GPU, and as much page-locked host memory; taken at the first step, kept "
            "to the end.",
        .example = "1GiB",
        .read = ReadDevice,
        .print = PrintBytesOrAuto<&Config::device_bytes>,
    },
    {
        .path = "memory.at_limit",
        .type = "block | drop | stats",
        .value = "block",
        .doc =
            "When the arena is full: wait for the writer; keep meta only; or keep the statistics "
            "and the hash of the tensor, made at once by the thread that runs the operator. "
            "Either way what is not kept is counted.",
        .example = "drop",
        .read = ReadFullArena,
        .print = PrintFullArena,
    },
    {
        .path = "memory.thread",
        .type = "true | false",
        .value = "true",
        .doc = "false: no writer thread; what was kept is written at step boundaries.",
        .example = "false",
        .read = ReadBool<&Config::thread>,
        .print = PrintBool<&Config::thread>,
    },
    {
        .path = "memory.max_block",
        .type = "percent",
        .value = "20%",
        .doc =
            "Longest wait per step with `at_limit: block`, as a share of the step's time. Beyond "
            "it tensors of that step that find no room are kept as with `stats`, and the "
            "coverage says so. `100%`: no limit.",
        .example = "5%",
        .read = ReadMaxBlock,
        .print = PrintMaxBlock,
    },
    {
        .path = "triggers",
        .type = "list",
        .value = "[]",
        .doc = "Conditions that start a capture.",
    },
    {
        .path = "signature",
        .type = "true | false",
        .value = "true",
        .doc = "Hash of the root's inputs in each recorded step, and of every parameter and buffer "
               "in the first: `tdump-diff` looks there first.",
        .example = "false",
        .read = ReadBool<&Config::signature>,
        .print = PrintBool<&Config::signature>,
    },
    {
        .path = "history.steps",
        .type = "number",
        .value = "0",
        .doc = "Flight recorder: steps held in memory.",
    },
    {
        .path = "history.level",
        .type = "level",
        .value = "stats",
        .doc = "Flight recorder: what it keeps.",
    },
    {
        .path = "history.survive",
        .type = "finalize | crash",
        .value = "finalize",
        .doc = "Flight recorder: what it outlives.",
    },
    {
        .path = "breadcrumbs.ranks",
        .type = "SPEC",
        .value = "none",
        .doc = "Ranks that leave behind which kernel each thread began last, for `tdump-view "
               "--crash`, recorded or not, in every mode of `collect.kernels`. none: with `names` "
               "those "
               "of `ranks`, else no rank.",
        .example = "all",
        .read = ReadCrumbRanks,
        .print = PrintIndices<&Config::crumb_ranks>,
    },
    {
        .path = "breadcrumbs.dir",
        .type = "path",
        .value = "auto",
        .doc =
            "Node-local directory of breadcrumbs, 256 KiB a rank, best in memory: on a disk that "
            "is slow or full the job may have to wait, or get a SIGBUS. auto is the run "
            "directory where that is in memory (tmpfs), else /dev/shm.",
        .example = "/dev/shm",
        .read = ReadCrumbDir,
        .print = PrintCrumbDir,
    },
    {
        .path = "signal",
        .type = "name",
        .value = "none",
        .doc = "Signal that starts a capture.",
    },
    {
        .path = "control",
        .type = "true | false",
        .value = "true",
        .doc = "tdump-ctl.",
    },
    {
        .path = "compile.taps",
        .type = "auto | on | off",
        .value = "auto",
        .doc =
            "on, an experiment: what the rules can want of modules inside what `torch.compile`, "
            "TorchScript and `torch.export` make is put into the graphs when they are made. off, "
            "and auto in this version: such graphs stay as they are without tdump, and nothing "
            "inside them is captured. What is exported with `on` needs tdump where it is loaded.",
        .example = "on",
        .read = ReadTri<&Config::compiled>,
        .print = PrintTri<&Config::compiled>,
    },
    {
        .path = "compile.cache",
        .type = "private | shared",
        .value = "private",
        .doc = "With `compile.taps: on`. private: an engine that keeps compiled code between jobs "
               "and does not look at hooks (vLLM) neither uses nor leaves any; it compiles anew. "
               "Inductor's own caches pass such graphs by.",
        .example = "shared",
        .read = ReadCompileCache,
        .print = PrintCompileCache,
    },
    {
        .path = "cuda_graphs.slots",
        .type = "bytes",
        .value = "256MiB",
        .doc = "Room for tensors of captured graphs.",
    },
    {
        .path = "cuda_graphs.armed_only",
        .type = "true | false",
        .value = "true",
        .doc = "Graphs copy only while armed.",
    },
    {
        .path = "cuda_graphs.rows",
        .type = "auto | name",
        .value = "auto",
        .doc = "What holds the real batch size.",
    },
    {
        .path = "recompute",
        .type = "mark | drop",
        .value = "mark",
        .doc = "What a checkpoint computes anew while backward runs. mark: recorded and marked. "
               "drop: the first forward only (nothing of a module that is called while backward "
               "runs and never before); gradients are recorded either way.",
        .example = "drop",
        .read = ReadRecompute,
        .print = PrintRecompute,
    },
    {
        .path = "exit.drain",
        .type = "time",
        .value = "30s",
        .doc = "Longest time that tdump may add at the end of the job to write what is still in "
               "memory.",
        .example = "2m",
        .read = ReadDrain,
        .print = PrintDrain,
    },
    {
        .path = "strict",
        .type = "true | false",
        .value = "false",
        .doc = "true: holes in the coverage make tdump-merge and tdump-diff exit non-zero.",
        .example = "true",
        .read = ReadBool<&Config::strict>,
        .print = PrintBool<&Config::strict>,
    },
    {
        .path = "log",
        .type = "debug | info | warning | error",
        .value = "info",
        .doc = "What is said on stderr, by rank 0 only; other ranks write to their manifest.",
        .example = "warning",
        .read = ReadLog,
        .print = PrintText<&Config::log>,
    },
};

}  // namespace

std::span<const KeySpec<Config>> ConfigKeys() { return kKeys; }

}  // namespace tdump::filters
