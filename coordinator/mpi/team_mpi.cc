#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include "coordinator/mpi_team.h"
#include "core/runtime.h"

namespace tdump::coordinator {
namespace {

constexpr int kTag = 2;
constexpr uint64_t kPiece = 1 << 30;  // MPI counts in int

Status Checked(int error, const char* call) {
  if (error == MPI_SUCCESS) return {};
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(error, text, &length);
  return Internal(std::string(call) + ": " + std::string(text, static_cast<size_t>(length)));
}

// MPI's own calls wait in a loop that takes a whole core, which the process they wait for may need:
// what may take long is asked for now and then.
Status Await(MPI_Request* request, const char* call) {
  constexpr auto kLongest = std::chrono::microseconds(1000);
  for (auto pause = std::chrono::microseconds(1);; pause = std::min(2 * pause, kLongest)) {
    int done = 0;
    TDUMP_RETURN_IF_ERROR(Checked(MPI_Test(request, &done, MPI_STATUS_IGNORE), call));
    if (done != 0) return {};
    std::this_thread::sleep_for(pause);
  }
}

class WorldTeam final : public MpiTeam {
 public:
  WorldTeam() {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  ~WorldTeam() override { MPI_Finalize(); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  Status Send(std::string_view bytes) override {
    const uint64_t count = bytes.size();
    MPI_Request request;
    TDUMP_RETURN_IF_ERROR(Checked(
        MPI_Issend(&count, 1, MPI_UINT64_T, 0, kTag, MPI_COMM_WORLD, &request), "MPI_Issend"));
    TDUMP_RETURN_IF_ERROR(Await(&request, "MPI_Issend"));
    for (uint64_t at = 0; at < count; at += kPiece) {
      const auto piece = static_cast<int>(std::min(kPiece, count - at));
      TDUMP_RETURN_IF_ERROR(Checked(
          MPI_Send(bytes.data() + at, piece, MPI_BYTE, 0, kTag, MPI_COMM_WORLD), "MPI_Send"));
    }
    return {};
  }

  Result<std::string> Receive(int from) override {
    uint64_t count = 0;
    MPI_Request request;
    TDUMP_RETURN_IF_ERROR(Checked(
        MPI_Irecv(&count, 1, MPI_UINT64_T, from, kTag, MPI_COMM_WORLD, &request), "MPI_Irecv"));
    TDUMP_RETURN_IF_ERROR(Await(&request, "MPI_Irecv"));
    std::string bytes(count, '\0');
    for (uint64_t at = 0; at < count; at += kPiece) {
      const auto piece = static_cast<int>(std::min(kPiece, count - at));
      TDUMP_RETURN_IF_ERROR(Checked(MPI_Recv(bytes.data() + at, piece, MPI_BYTE, from, kTag,
                                             MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                                    "MPI_Recv"));
    }
    return bytes;
  }

  Result<int> Largest(int value) override {
    int largest = 0;
    MPI_Request request;
    TDUMP_RETURN_IF_ERROR(
        Checked(MPI_Iallreduce(&value, &largest, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &request),
                "MPI_Iallreduce"));
    TDUMP_RETURN_IF_ERROR(Await(&request, "MPI_Iallreduce"));
    return largest;
  }

 private:
  int rank_ = 0, size_ = 1;
};

}  // namespace
}  // namespace tdump::coordinator

extern "C" {

__attribute__((visibility("default"))) uint64_t tdump_mpi_team_stamp() {
  return tdump::kBuildStamp;
}

__attribute__((visibility("default"))) tdump::coordinator::MpiTeam* tdump_mpi_team() {
  int provided = MPI_THREAD_SINGLE;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS)
    return nullptr;
  if (provided < MPI_THREAD_SERIALIZED) {
    MPI_Finalize();
    return nullptr;
  }
  return new tdump::coordinator::WorldTeam();
}
}
