// Tensor parallelism over MPI, as in Megatron-LM (Shoeybi et al. 2019,
// https://arxiv.org/abs/1909.08053, section 3).
//
// A pair of linear layers is split over the ranks: the first by output features (column parallel),
// the second by input features (row parallel). What lies between the two exists in shards;
// everything else is replicated. Two conjugate operators border the sharded region, so that forward
// and backward each need one sum over the ranks:
//
//                      forward            backward
//   CopyToRegion       identity           sum over ranks
//   ReduceFromRegion   sum over ranks     identity
#pragma once

#include <mpi.h>
#include <torch/torch.h>

#include <cstdint>

namespace tp {

// The ranks that share one model. Does not own the communicator.
struct Group {
  explicit Group(MPI_Comm communicator);

  MPI_Comm comm;
  int rank;
  int world;
};

// Enters the sharded region: `x`, equal on all ranks, is used by each rank's shard.
torch::Tensor CopyToRegion(const torch::Tensor& x, const Group& group);

// Leaves it: the sum of the ranks' partial results, equal on all ranks. float32 only.
torch::Tensor ReduceFromRegion(const torch::Tensor& partial, const Group& group);

// y = x W^T with W [out, in] split by rows: this rank holds [out / world, in] and returns
// [..., out / world]. No bias. Every rank draws the whole W from the default generator, so all
// world sizes start from the same weights.
class ColumnParallelLinearImpl : public torch::nn::Module {
 public:
  ColumnParallelLinearImpl(int64_t in_features, int64_t out_features, const Group& group);
  torch::Tensor forward(const torch::Tensor& x);

  torch::Tensor weight;

 private:
  Group group_;
};
TORCH_MODULE(ColumnParallelLinear);

// y = x W^T + b with W [out, in] split by columns: this rank takes [..., in / world], holds
// [out, in / world] and returns the whole [..., out], equal on all ranks. The bias is replicated
// and added after the sum.
class RowParallelLinearImpl : public torch::nn::Module {
 public:
  RowParallelLinearImpl(int64_t in_features, int64_t out_features, const Group& group);
  torch::Tensor forward(const torch::Tensor& x);

  torch::Tensor weight;
  torch::Tensor bias;

 private:
  Group group_;
};
TORCH_MODULE(RowParallelLinear);

// 2-norm of the gradient of the whole model: shards are summed over the ranks, replicated
// parameters counted once. Collective.
double GradientNorm(const torch::nn::Module& model, const Group& group);

}  // namespace tp
