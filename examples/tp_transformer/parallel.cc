#include "parallel.h"

#include <cmath>
#include <unordered_set>

#include "observe.h"

namespace tp {
namespace {

constexpr double kInitStd = 0.02;

torch::Tensor AllReduceSum(const torch::Tensor& x, MPI_Comm comm) {
  TORCH_CHECK(x.scalar_type() == torch::kFloat32, "expected float32, got ", x.scalar_type());
  auto sum = x.clone(torch::MemoryFormat::Contiguous);
  MPI_Allreduce(MPI_IN_PLACE, sum.data_ptr<float>(), static_cast<int>(sum.numel()), MPI_FLOAT,
                MPI_SUM, comm);
  return sum;
}

struct CopyToRegionFunction : torch::autograd::Function<CopyToRegionFunction> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x,
                               int64_t comm) {
    context->saved_data["comm"] = comm;
    return x;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const auto comm = MPI_Comm_f2c(static_cast<MPI_Fint>(context->saved_data["comm"].toInt()));
    return {AllReduceSum(grads[0], comm), {}};
  }
};

struct ReduceFromRegionFunction : torch::autograd::Function<ReduceFromRegionFunction> {
  static torch::Tensor forward(torch::autograd::AutogradContext*, const torch::Tensor& partial,
                               int64_t comm) {
    return AllReduceSum(partial, MPI_Comm_f2c(static_cast<MPI_Fint>(comm)));
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list grads) {
    return {grads[0], {}};
  }
};

// Draws all of a weight [out, in] and keeps this rank's part of dimension `dim`.
torch::Tensor DrawShard(int64_t out_features, int64_t in_features, int64_t dim,
                        const Group& group) {
  const auto whole = torch::randn({out_features, in_features}) * kInitStd;
  TORCH_CHECK(whole.size(dim) % group.world == 0, "cannot split ", whole.size(dim),
              " features over ", group.world, " ranks");
  return whole.chunk(group.world, dim)[group.rank].clone(torch::MemoryFormat::Contiguous);
}

double SquaredNorm(const torch::Tensor& x) {
  return x.to(torch::kFloat64).square().sum().item<double>();
}

}  // namespace

Group::Group(MPI_Comm communicator) : comm(communicator) {
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &world);
}

// The communicator goes through autograd as its Fortran handle, which is an integer in every MPI.
torch::Tensor CopyToRegion(const torch::Tensor& x, const Group& group) {
  return CopyToRegionFunction::apply(x, static_cast<int64_t>(MPI_Comm_c2f(group.comm)));
}

torch::Tensor ReduceFromRegion(const torch::Tensor& partial, const Group& group) {
  return ReduceFromRegionFunction::apply(partial, static_cast<int64_t>(MPI_Comm_c2f(group.comm)));
}

ColumnParallelLinearImpl::ColumnParallelLinearImpl(int64_t in_features, int64_t out_features,
                                                   const Group& group)
    : group_(group) {
  weight = register_parameter("weight", DrawShard(out_features, in_features, 0, group));
}

torch::Tensor ColumnParallelLinearImpl::forward(const torch::Tensor& x) {
  tdump::scope scope(this, x);
  return scope.output(torch::nn::functional::linear(CopyToRegion(x, group_), weight));
}

RowParallelLinearImpl::RowParallelLinearImpl(int64_t in_features, int64_t out_features,
                                             const Group& group)
    : group_(group) {
  weight = register_parameter("weight", DrawShard(out_features, in_features, 1, group));
  bias = register_parameter("bias", torch::zeros(out_features));
}

torch::Tensor RowParallelLinearImpl::forward(const torch::Tensor& x) {
  tdump::scope scope(this, x);
  const auto partial = torch::nn::functional::linear(x, weight);
  tdump::tap(partial, "partial");
  return scope.output(ReduceFromRegion(partial, group_) + bias);
}

double GradientNorm(const torch::nn::Module& model, const Group& group) {
  std::unordered_set<const void*> shards;
  for (const auto& module : model.modules()) {
    if (const auto* column = module->as<ColumnParallelLinear>())
      shards.insert(column->weight.data_ptr());
    if (const auto* row = module->as<RowParallelLinear>()) shards.insert(row->weight.data_ptr());
  }
  double sharded = 0;
  double replicated = 0;
  for (const auto& parameter : model.parameters()) {
    (shards.contains(parameter.data_ptr()) ? sharded : replicated) += SquaredNorm(parameter.grad());
  }
  MPI_Allreduce(MPI_IN_PLACE, &sharded, 1, MPI_DOUBLE, MPI_SUM, group.comm);
  return std::sqrt(sharded + replicated);
}

}  // namespace tp
