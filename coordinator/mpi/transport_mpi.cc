#include "coordinator/mpi/transport_mpi.h"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "coordinator/mpi/rank_tree.h"

namespace tdump::coordinator {
namespace {

using Kind = AgreementMessage::Kind;

constexpr int kTag = 1;
constexpr size_t kBatch = 64;           // messages in one MPI message
constexpr size_t kSendsUnderWay = 256;  // beyond it new messages are dropped
constexpr size_t kWaiting = 4096;       // messages, of one neighbour
constexpr int kReceivesPerPoll = 256;
// The duplicate takes several rounds among the ranks; a test advances it by one at most.
constexpr int kTestsOfOpening = 16;
// A job that finalises right after it initialised gives the duplicate this long to complete.
constexpr auto kOpeningAtClose = std::chrono::milliseconds(200);

struct Batch {
  std::array<AgreementMessage, kBatch> messages;
};

struct SendUnderWay {
  MPI_Request request = MPI_REQUEST_NULL;
  std::unique_ptr<Batch> batch;
};

class MpiTransport final : public AgreementTransport {
 public:
  MpiTransport(int32_t rank, int32_t world, int32_t fan_out, bool any_thread)
      : tree_(rank, world, fan_out), rank_(rank), any_thread_(any_thread) {}

  bool Open() { return PMPI_Comm_idup(MPI_COMM_WORLD, &communicator_, &opening_) == MPI_SUCCESS; }

  std::string_view name() const noexcept override { return "mpi"; }

  void Send(const AgreementMessage& message) noexcept override {
    try {
      const bool up =
          message.kind == Kind::kReport || (message.kind == Kind::kLeave && message.rank == rank_);
      if (up) Queue(tree_.parent(), message);
      // Children of a rank that leaves must know, and all when it is the root.
      if (!up || message.kind == Kind::kLeave) {
        for (int32_t child : tree_.children()) Queue(child, message);
      }
      if (MayCall()) Flush();
    } catch (...) {  // out of memory: the message is lost
    }
  }

  void Poll(int32_t, bool, const Take& take) noexcept override {
    try {
      if (!MayCall()) return;
      Receive(take);
      Flush();
    } catch (...) {
    }
  }

  void Close() noexcept override {
    const auto end = std::chrono::steady_clock::now() + kOpeningAtClose;
    while (opening_ != MPI_REQUEST_NULL && !MayCall() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const bool allowed = MayCall();
    closed_ = true;
    if (!allowed) return;
    TestSends();
    if (receive_ == MPI_REQUEST_NULL) return;
    PMPI_Cancel(&receive_);
    PMPI_Wait(&receive_, MPI_STATUS_IGNORE);  // cancelled or complete: returns at once
  }

  // Buffers that MPI still uses stay for good.
  ~MpiTransport() override {
    if (receive_ != MPI_REQUEST_NULL) (void)incoming_.release();
    for (SendUnderWay& send : sends_) (void)send.batch.release();
  }

 private:
  // On this thread, now: allowed, and the communicator is there.
  bool MayCall() {
    if (closed_) return false;
    int main_thread = 0;
    if (!any_thread_ && (PMPI_Is_thread_main(&main_thread) != MPI_SUCCESS || main_thread == 0))
      return false;
    if (opening_ == MPI_REQUEST_NULL) return true;
    int complete = 0;
    for (int i = 0; i < kTestsOfOpening && complete == 0; ++i) {
      if (PMPI_Test(&opening_, &complete, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
    }
    if (complete == 0) return false;
    PMPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN);
    PostReceive();
    return true;
  }

  void PostReceive() {
    const int status = PMPI_Irecv(incoming_->messages.data(), sizeof *incoming_, MPI_BYTE,
                                  MPI_ANY_SOURCE, kTag, communicator_, &receive_);
    if (status != MPI_SUCCESS) receive_ = MPI_REQUEST_NULL;
  }

  void Receive(const Take& take) {
    for (int i = 0; i < kReceivesPerPoll && receive_ != MPI_REQUEST_NULL; ++i) {
      int complete = 0;
      MPI_Status status;
      if (PMPI_Test(&receive_, &complete, &status) != MPI_SUCCESS || complete == 0) return;
      int bytes = 0;
      PMPI_Get_count(&status, MPI_BYTE, &bytes);
      const auto count = static_cast<size_t>(std::max(bytes, 0)) / sizeof(AgreementMessage);
      const std::vector<AgreementMessage> messages(
          incoming_->messages.begin(), incoming_->messages.begin() + static_cast<ptrdiff_t>(count));
      PostReceive();
      for (const AgreementMessage& message : messages) Handle(status.MPI_SOURCE, message, take);
    }
  }

  void Handle(int32_t from, const AgreementMessage& message, const Take& take) {
    const bool from_above = from == tree_.parent();
    const bool for_the_root =
        message.kind == Kind::kReport || (message.kind == Kind::kLeave && !from_above);
    // A neighbour that leaves is told to the root by itself, through its own parent.
    const bool own_leave = message.kind == Kind::kLeave && message.rank == from;
    if (message.kind == Kind::kLeave) tree_.Leave(message.rank);
    if (for_the_root && !tree_.is_root() && !(own_leave && from < rank_)) {
      Queue(tree_.parent(), message);
      if (message.kind == Kind::kReport) return;
    } else if (!for_the_root) {
      for (int32_t child : tree_.children()) Queue(child, message);
    }
    take(message);
  }

  void Queue(int32_t to, const AgreementMessage& message) {
    if (to < 0) return;
    std::vector<AgreementMessage>& waiting = waiting_[to];
    if (waiting.size() < kWaiting) waiting.push_back(message);
  }

  void TestSends() {
    std::erase_if(sends_, [](SendUnderWay& send) {
      int complete = 0;
      return PMPI_Test(&send.request, &complete, MPI_STATUS_IGNORE) == MPI_SUCCESS && complete != 0;
    });
  }

  void Flush() {
    TestSends();
    for (auto& [to, waiting] : waiting_) {
      size_t sent = 0;
      while (sent < waiting.size() && sends_.size() < kSendsUnderWay)
        sent += SendBatch(to, waiting, sent);
      waiting.erase(waiting.begin(), waiting.begin() + static_cast<ptrdiff_t>(sent));
    }
  }

  size_t SendBatch(int32_t to, const std::vector<AgreementMessage>& waiting, size_t begin) {
    const size_t count = std::min(waiting.size() - begin, kBatch);
    SendUnderWay send;
    send.batch = std::make_unique<Batch>();
    std::copy_n(waiting.begin() + static_cast<ptrdiff_t>(begin), count,
                send.batch->messages.begin());
    const int bytes = static_cast<int>(count * sizeof(AgreementMessage));
    const int status = PMPI_Isend(send.batch->messages.data(), bytes, MPI_BYTE, to, kTag,
                                  communicator_, &send.request);
    if (status == MPI_SUCCESS) sends_.push_back(std::move(send));
    return count;
  }

  RankTree tree_;
  const int32_t rank_;
  const bool any_thread_;
  MPI_Comm communicator_ = MPI_COMM_NULL;
  MPI_Request opening_ = MPI_REQUEST_NULL;
  MPI_Request receive_ = MPI_REQUEST_NULL;
  std::unique_ptr<Batch> incoming_ = std::make_unique<Batch>();
  std::vector<SendUnderWay> sends_;
  std::map<int32_t, std::vector<AgreementMessage>> waiting_;
  bool closed_ = false;
};

}  // namespace

std::unique_ptr<AgreementTransport> OpenMpiTransport(int32_t fan_out) {
  int32_t rank = 0, world = 1;
  tdump_mpi_world(&rank, &world);
  int level = MPI_THREAD_SINGLE;
  PMPI_Query_thread(&level);
  auto transport =
      std::make_unique<MpiTransport>(rank, world, fan_out, level == MPI_THREAD_MULTIPLE);
  if (!transport->Open()) return nullptr;
  return transport;
}

}  // namespace tdump::coordinator

#define TDUMP_MPI_EXPORT __attribute__((visibility("default")))

extern "C" {

TDUMP_MPI_EXPORT uint64_t tdump_mpi_stamp() { return tdump::kBuildStamp; }

TDUMP_MPI_EXPORT void tdump_mpi_world(int32_t* rank, int32_t* size) {
  int mpi_rank = 0, mpi_size = 1;
  PMPI_Comm_rank(MPI_COMM_WORLD, &mpi_rank);
  PMPI_Comm_size(MPI_COMM_WORLD, &mpi_size);
  *rank = mpi_rank;
  *size = mpi_size;
}

TDUMP_MPI_EXPORT tdump::coordinator::AgreementTransport* tdump_mpi_transport(int32_t fan_out) {
  try {
    return tdump::coordinator::OpenMpiTransport(fan_out).release();
  } catch (...) {
    return nullptr;
  }
}

}  // extern "C"
