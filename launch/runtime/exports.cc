#include "launch/runtime/exports.h"

#include <string>

#include "core/beside.h"
#include "launch/runtime/session.h"
#include "launch/runtime/torch_stamp.h"

namespace tdump::launch {
namespace {

// The stamp of the collector that lies beside this object.
Result<TorchStamp> StampBeside() {
  TDUMP_ASSIGN_OR_RETURN(
      const std::string path,
      PathBeside(reinterpret_cast<void*>(&tdump_runtime_start), "libtdump_torch.info"));
  return ReadTorchStamp(path);
}

int Fits(const Result<TorchStamp>& present) {
  Session* session = Session::Current();
  if (session == nullptr) return 0;
  const auto built_for = StampBeside();
  std::string reason;
  if (!built_for.ok()) {
    reason = "no LibTorch collector is installed: nothing of torch is captured (" +
             built_for.status().message() + ")";
  } else if (!present.ok()) {
    reason = "the version of torch is not known: nothing of torch is captured (" +
             present.status().message() + ")";
  } else {
    reason = TorchMismatch(*built_for, *present);
  }
  if (reason.empty()) return 1;
  session->TorchDoesNotFit(reason);
  return 0;
}

void Tell(const Boundary& boundary) {
  if (Session* session = Session::Current()) session->Boundary(boundary);
}

}  // namespace
}  // namespace tdump::launch

using tdump::launch::Session;

int tdump_runtime_start() { return Session::Start() != nullptr ? 1 : 0; }

tdump::Runtime* tdump_runtime() {
  Session* session = Session::Current();
  return session != nullptr ? session->runtime() : nullptr;
}

void tdump_runtime_stop() {
  if (Session* session = Session::Current()) session->Close(0);
}

int tdump_runtime_check_torch(const char* version, int cxx11_abi) {
  return tdump::launch::Fits(tdump::launch::PublicVersion(version, cxx11_abi));
}

int tdump_runtime_torch_matches() { return tdump::launch::Fits(tdump::launch::MappedTorch()); }

void tdump_runtime_torch_unseen() {
  if (Session* session = Session::Current()) session->TorchUnseen();
}

void tdump_runtime_remark(const char* text) {
  if (Session* session = Session::Current()) session->Remark(text);
}

tdump::KernelReports* tdump_runtime_kernels(int* answered) {
  Session* session = Session::Current();
  *answered = session != nullptr;
  return session != nullptr ? session->kernels() : nullptr;
}

void tdump_on_first_operator() {
  tdump::launch::Tell({.kind = tdump::BoundaryKind::kFirstOperator});
}

void tdump_on_mpi_initializing(int thread_level) {
  if (Session* session = Session::Current()) session->MpiInitializing(thread_level);
}

void tdump_on_mpi_init() {
  if (Session* session = Session::Current()) session->MpiInitialized();
}

void tdump_on_mpi_finalize() {
  if (Session* session = Session::Current()) session->MpiFinalizing();
}

void tdump_on_optimizer_created(const void* optimizer) {
  if (Session* session = Session::Current()) session->optimizers().Created(optimizer);
}

void tdump_on_optimizer_step(const void* optimizer, const char* cls) {
  if (Session* session = Session::Current()) session->optimizers().Stepped(optimizer, cls);
}
