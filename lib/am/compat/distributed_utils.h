// The functions of OLMo-core's distributed.utils, under the same names. The first argument replaces
// torch.distributed's global state; a null `group` means all ranks. Outside a job (before
// init_distributed), the collectives and the functions that return ranks or sizes return the result
// for a job of one rank, as in OLMo-core.
//
// Differences from OLMo-core:
//   - init_distributed: an incomplete set of variables (for example RANK without WORLD_SIZE) is an
//     error that names the missing variables. If a variable already has another value than the
//     requested one, the warning shows the value that is kept.
//   - get_local_world_size: a missing LOCAL_WORLD_SIZE is an error with a hint, not a key error.
//   - get_num_nodes: if LOCAL_WORLD_SIZE does not divide the number of ranks, the last, smaller
//     node is counted too.
//   - synchronize_value, all_reduce_value: doubles stay doubles (OLMo-core converts them to
//     float32); the caller's tensor is never modified.
//   - all_gather: tensors may have different shapes with every engine (OLMo-core fails with Gloo).
//   - do_n_at_a_time: see its declaration.
//   - Objects are sent as JSON or bytes, never as pickles: received data cannot run code.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <concepts>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "am/base/json.h"
#include "am/compat/distributed.h"
#include "am/runtime/device_mesh.h"

namespace am::compat {

struct InitDistributedOptions {
  std::string backend = "nccl";  // PyTorch's backend string (config/backend.h)
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
  bool shared_filesystem = true;  // whether to set OLMO_SHARED_FS=1; see get_fs_local_rank
};

// Joins the job that the launcher's variables describe; without such variables, a job of this
// process only. First sets variables for NCCL and for the host (host_profile.h), but keeps
// variables that are already set. If a job is joined already, does not join again, but throws
// Error(kUsage) if that job has another backend. Also throws Error(kUsage) for invalid variables or
// backends, and the errors of Distributed::join(). Collective.
void init_distributed(Distributed& dist, const InitDistributedOptions& options = {});

// Throws Error(kUsage) if LOCAL_RANK, or both NUM_NODES and LOCAL_WORLD_SIZE, are missing. Does
// nothing outside a job.
void validate_env_vars(const Distributed& dist);

// Returns BEAKER_NODE_HOSTNAME if set, otherwise this machine's name.
std::string get_node_hostname(const Distributed& dist);

bool is_distributed(const Distributed& dist);
void barrier(const Distributed& dist, const runtime::Group* group = nullptr);

// Returns this rank's index in `group`; without a group, its global rank.
int64_t get_rank(const Distributed& dist, const runtime::Group* group = nullptr);
// Returns the global rank of the rank with index `group_rank` in the group; without a group,
// `group_rank` itself. Throws Error(kUsage) if the group has no such index.
int64_t get_global_rank(const Distributed& dist, int64_t group_rank,
                        const runtime::Group* group = nullptr);
int64_t get_world_size(const Distributed& dist, const runtime::Group* group = nullptr);
// Returns the variable LOCAL_RANK: this rank's number on its machine.
int64_t get_local_rank(const Distributed& dist);
// Returns this rank's index among the ranks that share a file system: FS_LOCAL_RANK if set,
// otherwise get_rank if OLMO_SHARED_FS=1, otherwise LOCAL_RANK.
int64_t get_fs_local_rank(const Distributed& dist, const runtime::Group* group = nullptr);
// Returns the variable LOCAL_WORLD_SIZE: the number of ranks on this machine. Throws Error(kUsage)
// if the variable is missing or below 1.
int64_t get_local_world_size(const Distributed& dist);
// Returns the variable NUM_NODES; without it, the number of ranks divided by LOCAL_WORLD_SIZE and
// rounded up.
int64_t get_num_nodes(const Distributed& dist);

// synchronize_value returns the value of rank `src` (a global rank, not an index in the group);
// all_reduce_value returns the reduction of all ranks' values. The result is on `device`, or if
// `device` is nullopt, on the group's device.
at::Tensor synchronize_value(const Distributed& dist, const at::Tensor& value, int64_t src = 0,
                             const runtime::Group* group = nullptr,
                             std::optional<c10::Device> device = std::nullopt);
at::Tensor all_reduce_value(const Distributed& dist, const at::Tensor& value,
                            runtime::ReduceOp op = runtime::ReduceOp::kSum,
                            const runtime::Group* group = nullptr,
                            std::optional<c10::Device> device = std::nullopt);
// Overloads for numbers: bool and integers are sent as int64, floating-point numbers as double.
template <typename T>
requires std::is_arithmetic_v<T> T synchronize_value(
    const Distributed& dist, T value, int64_t src = 0, const runtime::Group* group = nullptr,
    std::optional<c10::Device> device = std::nullopt);
template <typename T>
requires std::is_arithmetic_v<T> T all_reduce_value(
    const Distributed& dist, T value, runtime::ReduceOp op = runtime::ReduceOp::kSum,
    const runtime::Group* group = nullptr, std::optional<c10::Device> device = std::nullopt);
// Returns the flag of global rank 0 on every rank.
bool synchronize_flag(const Distributed& dist, bool flag, const runtime::Group* group = nullptr,
                      std::optional<c10::Device> device = std::nullopt);

// Return the object or the bytes of global rank `src`. Throw Error(kUsage) if rank `src` is not in
// the group, or if the object cannot be serialised.
Json broadcast_object(const Distributed& dist, const Json& object, int64_t src = 0,
                      const runtime::Group* group = nullptr);
std::string broadcast_bytes(const Distributed& dist, const std::string& bytes, int64_t src = 0,
                            const runtime::Group* group = nullptr);
// Returns the objects of all ranks of the group, in index order. Throws Error(kUsage) on every rank
// if an object cannot be serialised.
std::vector<Json> all_gather_object(const Distributed& dist, const Json& object,
                                    const runtime::Group* group = nullptr);
// Returns the tensors of all ranks of the group, in index order. Their shapes and numbers of dims
// may differ. Throws Error(kUsage) on every rank if their dtypes differ.
std::vector<at::Tensor> all_gather(const Distributed& dist, const at::Tensor& tensor,
                                   const runtime::Group* group = nullptr);

// Returns the coordinates of `rank` (nullopt: of this rank) along the axes mesh::kAxes; nullopt if
// the mesh has no such rank.
std::optional<std::vector<int64_t>> get_mesh_coordinates(
    const runtime::DeviceMesh& mesh, std::optional<int64_t> rank = std::nullopt);

// Return whether `backend` can communicate tensors on GPUs (backend_supports_cuda) or on the host
// (backend_supports_cpu). If `backend` is nullopt, it is the job's backend; outside a job,
// backend_supports_cuda then returns whether a GPU exists, and backend_supports_cpu returns true.
bool backend_supports_cuda(const Distributed& dist,
                           const std::optional<std::string>& backend = std::nullopt);
bool backend_supports_cpu(const Distributed& dist,
                          const std::optional<std::string>& backend = std::nullopt);

// Returns the factor by which PyTorch's FSDP divides float16 gradients before their reduction: the
// smallest power of two that is at least sqrt(world_size) or does not divide `world_size`. After
// the reduction, FSDP divides by world_size / factor.
double get_reduce_divide_factor(int64_t world_size);

struct NAtATimeOptions {
  std::optional<int64_t> n;  // number of ranks that run at a time; nullopt: the number of nodes
  const runtime::Group* process_group = nullptr;
  // `world_size` replaces the size of the group, and `local_rank` this rank's index in the group:
  // for example, outside a job.
  std::optional<int64_t> world_size, local_rank;
};

// Returns ceil(world_size / n), the number of rounds in which do_n_at_a_time runs all ranks. The
// rank with index r runs in round r modulo the number of rounds. Throws Error(kUsage) for n < 1.
int64_t rounds_of_n_at_a_time(int64_t world_size, int64_t n);

// Calls f once on every rank, in rounds of at most n ranks with a barrier after each round, and
// returns f's value. With ranks numbered node by node and the default n, one rank of each node runs
// at a time. Collective.
//
// Differences from OLMo-core: if f throws on a rank, all ranks still complete all rounds. Then the
// rank that failed rethrows the exception, and all other ranks throw Error(kPeer) with the
// exception's message. n = 0 is an error.
template <typename F>
auto do_n_at_a_time(const Distributed& dist, F&& f, const NAtATimeOptions& options = {});

// ---- templates

namespace detail {

at::Tensor as_scalar(double value);
at::Tensor as_scalar(int64_t value);
void run_in_rounds(const Distributed& dist, const std::function<void()>& f,
                   const NAtATimeOptions& options);

template <typename T>
using Wire = std::conditional_t<std::is_floating_point_v<T>, double, int64_t>;

}  // namespace detail

template <typename T>
requires std::is_arithmetic_v<T> T synchronize_value(const Distributed& dist, T value, int64_t src,
                                                     const runtime::Group* group,
                                                     std::optional<c10::Device> device) {
  using Wire = detail::Wire<T>;
  const at::Tensor scalar = detail::as_scalar(static_cast<Wire>(value));
  return static_cast<T>(synchronize_value(dist, scalar, src, group, device).template item<Wire>());
}

template <typename T>
requires std::is_arithmetic_v<T> T all_reduce_value(const Distributed& dist, T value,
                                                    runtime::ReduceOp op,
                                                    const runtime::Group* group,
                                                    std::optional<c10::Device> device) {
  using Wire = detail::Wire<T>;
  const at::Tensor scalar = detail::as_scalar(static_cast<Wire>(value));
  return static_cast<T>(all_reduce_value(dist, scalar, op, group, device).template item<Wire>());
}

template <typename F>
auto do_n_at_a_time(const Distributed& dist, F&& f, const NAtATimeOptions& options) {
  using Result = std::invoke_result_t<F>;
  if constexpr (std::is_void_v<Result>) {
    detail::run_in_rounds(
        dist, [&] { f(); }, options);
  } else {
    std::optional<Result> result;
    detail::run_in_rounds(
        dist, [&] { result = f(); }, options);
    return *std::move(result);
  }
}

}  // namespace am::compat
