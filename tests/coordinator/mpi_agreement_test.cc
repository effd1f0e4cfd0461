// The protocol suite over MPI: every process of `mpirun -n 4` is one rank and runs the same cases.
#include <mpi.h>

#include <cstdio>

#include "coordinator/mpi/transport_mpi.h"
#include "tests/coordinator/agreement_protocol.h"

namespace tdump::coordinator {
namespace {

class ProcessPeer final : public protocol::Peer {
 public:
  explicit ProcessPeer(bool lockstep, int32_t fan_out = kMpiFanOut) {
    int number = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &number);
    rank = number;
    Identity identity;
    identity.rank = number;
    identity.world = protocol::kWorld;
    slots = std::make_unique<SlotWriter>(env.get(), *env->CreateExclusive("/slot", 0600),
                                         MakeSlotHeader(identity, 0, 0));
    Start(std::unique_ptr<AgreementTransport>(tdump_mpi_transport(fan_out)), lockstep);
  }
  void Barrier() override { MPI_Barrier(MPI_COMM_WORLD); }
};

class MpiAgreement : public testing::TestWithParam<protocol::Case> {};

TEST_P(MpiAgreement, Protocol) {
  ProcessPeer peer(GetParam().lockstep);
  ASSERT_EQ(peer.agreement->transport_name(), "mpi");
  GetParam().body(peer);
  peer.Barrier();
}

// With a rank between rank 3 and the root.
TEST_P(MpiAgreement, ProtocolAlongATree) {
  if (GetParam().body == protocol::ASilentRank) return;  // it would hold up what goes through it
  ProcessPeer peer(GetParam().lockstep, 2);
  GetParam().body(peer);
  peer.Barrier();
}

INSTANTIATE_TEST_SUITE_P(Suite, MpiAgreement, testing::ValuesIn(protocol::Cases()),
                         protocol::NameOf);

// The job's own traffic, receives from anyone included, never meets the agreement's.
TEST(MpiAgreement, TheJobsMessagesStayItsOwn) {
  ProcessPeer peer(false);
  const int right = (peer.rank + 1) % protocol::kWorld;
  for (uint64_t local = 0; local < 20; ++local) {
    const int sent = peer.rank * 100 + static_cast<int>(local);
    int received = -1;
    MPI_Status status;
    MPI_Sendrecv(&sent, 1, MPI_INT, right, 1, &received, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG,
                 MPI_COMM_WORLD, &status);
    EXPECT_EQ(received, (peer.rank + 3) % 4 * 100 + static_cast<int>(local));
    peer.Step(local);
  }
  EXPECT_TRUE(peer.Settled(20));
  peer.Barrier();
  peer.agreement->Close();
}

// On a thread that may not call MPI nothing is called; the next
// boundary of the main thread does it.
TEST(MpiAgreement, AForbiddenThreadLeavesItsMessagesToTheNextBoundary) {
  ProcessPeer peer(false);
  for (uint64_t local = 0; local < 3; ++local) std::thread([&] { peer.Step(local); }).join();
  EXPECT_TRUE(peer.Settled(3));
  peer.Barrier();
  peer.agreement->Close();
  EXPECT_EQ(peer.Map(), "0 1 2");
}

// Rank 0 prints as usual, the others only what failed.
class FailuresOnly final : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "%s:%d: %s\n", result.file_name() != nullptr ? result.file_name() : "",
                 result.line_number(), result.summary());
  }
};

}  // namespace
}  // namespace tdump::coordinator

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  testing::InitGoogleTest(&argc, argv);
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size != tdump::coordinator::protocol::kWorld) {
    std::fprintf(stderr, "run this under mpirun -n %d\n", tdump::coordinator::protocol::kWorld);
    MPI_Finalize();
    return 2;
  }
  testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
  if (rank != 0) {
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new tdump::coordinator::FailuresOnly);
  }
  const int failed = RUN_ALL_TESTS();
  MPI_Finalize();
  return failed;
}
