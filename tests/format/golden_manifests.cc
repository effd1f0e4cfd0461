#include "coordinator/slot_file.h"
#include "io/manifest_writer.h"
#include "tests/format/fixed_env.h"
#include "tests/format/golden_writers.h"

namespace tdump::io::test {

void WritePackedManifest(Env* env, const std::string& path) {
  FileHeader header;
  header.job_hash = kJobHash;
  const auto manifest = Must(ManifestWriter::Create(env, path, header));
  for (uint64_t pass = 0; pass < 2; ++pass) {
    PassDoneSection done;
    done.ordinal = done.local_step = pass;
    done.file = "pack00000.tdp";
    done.file_bytes = 1234 + pass;
    Must(manifest->Append(done, PassPlaceSection{pass, 4096 * (pass + 1)}));
  }
  Must(manifest->Append(RemovedSection{7, 9, 1 << 20, "pack00001.tdp"}));
}

void WriteManifest(Env* env, const std::string& path) {
  FileHeader header;
  header.rank = 2;
  header.generation = 1;
  header.pid = 3'069'569;
  header.job_hash = kJobHash;
  const auto manifest = Must(ManifestWriter::Create(env, path, header));
  IdentitySection identity;
  identity.rank = 2;
  identity.world = 4;
  identity.local_rank = 1;
  identity.source = "MPI";
  identity.host = "node042";
  identity.pid = 3'069'569;
  identity.start_time = 987'654'321;
  identity.job_key = "slurm:8123456.0";
  identity.job_label = "8123456.0";
  identity.program = "python train.py";
  identity.generation = 1;
  identity.process = 0;
  identity.selected = 1;
  identity.started_ns = kFixedNs;
  identity.boundary = "optimizer (AdamW)";
  identity.versions = "tdump 0.1.0, torch 2.15.0";
  identity.config_hash = "00112233445566778899aabbccddeeff";
  identity.coordinates = "dp=3 tp=1 pp=2";
  identity.coordinates_source = "config";
  Must(manifest->Append(identity));
  Must(manifest->Append(RuleSection{0, 1, "{name: dwon}", "dwon", 0}));
  Must(manifest->Append(
      ExpectSection{0, "", "encoder.layer.0.dense", "", "torch.nn.modules.linear.Linear"}));
  Must(manifest->Append(OperatorCountSection{"", "encoder.layer.0.dense", "", 1, 12, 2}));
  Must(manifest->Append(StepMapSection{41, 41, 4, 0}));
  Must(manifest->Append(StepMapSection{41, 40, 1 | 4, 2}));
  PassDoneSection done;
  done.ordinal = 3;
  done.local_step = 41;
  done.mode_step = 12;
  done.job_step = 41'241;
  done.mode = static_cast<uint8_t>(StepMode::kTrain);
  done.file = "pass00003.tdp";
  done.file_bytes = 4096;
  done.records = 16;
  done.calls = 2;
  done.payload_bytes = 32'911;
  done.blocked_ns = 1234;
  done.not_kept = {{static_cast<uint8_t>(SkipReason::kSubclass), 1},
                   {static_cast<uint8_t>(SkipReason::kMemoryLimit), 1}};
  Must(manifest->Append(done));
  Must(manifest->Append(NoteSection{3, kFixedNs, "torch.compile region not captured"}));
  Must(manifest->Append(AgreementSection{"file", 2, {1, 3}}));
  Must(manifest->Append(CloseSection{kFixedNs, 310, 4, "exit"}));
}

std::string SlotFile(Env* env) {
  Identity identity;
  identity.rank = 2;
  identity.world = 4;
  identity.pid = 3'069'569;
  identity.start_time = 987'654'321;
  identity.job_key = "slurm:8123456.0";
  identity.host = "node042";
  coordinator::SlotWriter slot(env, Must(env->CreateExclusive("/run/process.slot", 0600)),
                               coordinator::MakeSlotHeader(identity, 1, kFixedNs));
  using Kind = coordinator::AgreementMessage::Kind;
  slot.Add({.kind = Kind::kReport,
            .mode = 2,
            .rank = 2,
            .local = 6,
            .shape = 0xABCD,
            .began_ns = 1'700'000'000'000'000'000});
  slot.Add({.kind = Kind::kExtra, .flags = 1, .rank = 3, .local = (1ull << 53) + 1, .global = 5});
  slot.SetLockstep();
  Must(slot.Flush(7, 5));
  Must(slot.SetState(coordinator::SlotState::kClosed));
  return Must(ReadFile(env, "/run/process.slot", 1 << 20));
}

RunIndex Index() {
  RunIndex index;
  index.generation = 1;
  index.job_key = "slurm:8123456.0";
  index.job_label = "8123456.0";
  index.world = 2;
  index.ranks = {{.rank = 0, .how = "never started"},
                 {.rank = 1,
                  .processes = {0},
                  .selected = true,
                  .closed = true,
                  .lost = true,
                  .last_step = 40,
                  .how = "exit"}};
  index.passes = {{.process = 0,
                   .pass = 0,
                   .local_step = 41,
                   .global_step = 40,
                   .agreed = true,
                   .extra = true}};
  index.operators = {{"encoder.layer.0.dense", "torch.nn.modules.linear.Linear",
                      OperatorKind::kModule, 2, 1, 1, 12, 2}};
  index.rules = {{{0, 1, "{name: dwon}", "dwon", 0}, {"encoder.layer.0.dense"}}};
  index.not_kept = {{"memory limit (rank 1)", 1}};
  index.notes = {"rank 1: torch.compile region not captured"};
  index.damage = {{"rank2_pid3069569/pass00003.tdp", 12, "torn"}};
  index.boundary = "optimizer (AdamW)";
  index.transport = "file";
  index.rank_source = "MPI";
  index.max_lag = 2;
  index.steps_seen = 310;
  index.bytes = 4096;
  index.files = 1;
  index.holes = {"rank 0 never started"};
  return index;
}

}  // namespace tdump::io::test
