// OLMo-core's distributed.utils, by the same names. The first argument is what torch.distributed
// keeps in globals; `group` null means all ranks. Outside a job (before init_distributed) each
// function gives what one rank alone would: OLMo-core's "non-distributed" results.
//
// Differences from OLMo-core, all of them mended faults unless said otherwise:
//   - init_distributed: half-set variables (RANK without WORLD_SIZE) are an error that names what
//   is
//     missing; a value of the environment that stays is the one that the warning shows.
//   - get_local_world_size: a missing LOCAL_WORLD_SIZE is an error with a hint, no bare key error.
//   - get_num_nodes: a world that LOCAL_WORLD_SIZE does not divide counts its last, smaller node.
//   - synchronize_value, all_reduce_value: doubles stay doubles (they went through float32); the
//     caller's tensor is never written to.
//   - all_gather: tensors of different shapes on every engine (they failed on Gloo).
//   - do_n_at_a_time: see there.
//   - Objects travel as JSON or as bytes, never as pickles: nothing that arrives can run code.
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
  std::string backend = "nccl";  // also "gloo", "cpu:gloo,cuda:nccl"
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
  bool shared_filesystem = true;  // sets OLMO_SHARED_FS=1
};

// Collective. Sets NCCL's and the host's variables (never over one that is set), makes a job of one
// rank where no launcher's variables say otherwise, and joins. When the job is joined already, only
// checks that the backend is the same. Throws Error(kUsage) for variables or a backend that cannot
// be right, and as Distributed::join.
void init_distributed(Distributed& dist, const InitDistributedOptions& options = {});

// Throws Error(kUsage): LOCAL_RANK, or the variables that get_fs_local_rank and get_num_nodes need,
// are missing. Nothing outside a job.
void validate_env_vars(const Distributed& dist);

// BEAKER_NODE_HOSTNAME where it is set, else this machine's name.
std::string get_node_hostname(const Distributed& dist);

bool is_distributed(const Distributed& dist);
void barrier(const Distributed& dist, const runtime::Group* group = nullptr);

int64_t get_rank(const Distributed& dist, const runtime::Group* group = nullptr);
// Throws Error(kUsage) when the group has no such rank.
int64_t get_global_rank(const Distributed& dist, int64_t group_rank,
                        const runtime::Group* group = nullptr);
int64_t get_world_size(const Distributed& dist, const runtime::Group* group = nullptr);
// LOCAL_RANK.
int64_t get_local_rank(const Distributed& dist);
// The rank among those that share a file system: FS_LOCAL_RANK where set, else get_rank with
// OLMO_SHARED_FS=1, else LOCAL_RANK.
int64_t get_fs_local_rank(const Distributed& dist, const runtime::Group* group = nullptr);
int64_t get_local_world_size(const Distributed& dist);
// NUM_NODES, else ranks over LOCAL_WORLD_SIZE.
int64_t get_num_nodes(const Distributed& dist);

// What rank `src` (of the job, not of the group) has. `device` absent: the group's own.
at::Tensor synchronize_value(const Distributed& dist, const at::Tensor& value, int64_t src = 0,
                             const runtime::Group* group = nullptr,
                             std::optional<c10::Device> device = std::nullopt);
at::Tensor all_reduce_value(const Distributed& dist, const at::Tensor& value,
                            runtime::ReduceOp op = runtime::ReduceOp::kSum,
                            const runtime::Group* group = nullptr,
                            std::optional<c10::Device> device = std::nullopt);
// The same for bool, integers (as int64) and floating-point numbers (as double).
template <typename T>
requires std::is_arithmetic_v<T> T synchronize_value(
    const Distributed& dist, T value, int64_t src = 0, const runtime::Group* group = nullptr,
    std::optional<c10::Device> device = std::nullopt);
template <typename T>
requires std::is_arithmetic_v<T> T all_reduce_value(
    const Distributed& dist, T value, runtime::ReduceOp op = runtime::ReduceOp::kSum,
    const runtime::Group* group = nullptr, std::optional<c10::Device> device = std::nullopt);
// Of rank 0.
bool synchronize_flag(const Distributed& dist, bool flag, const runtime::Group* group = nullptr,
                      std::optional<c10::Device> device = std::nullopt);

// Of rank `src` (of the job). Throws Error(kUsage) when it is not in the group.
Json broadcast_object(const Distributed& dist, const Json& object, int64_t src = 0,
                      const runtime::Group* group = nullptr);
std::string broadcast_bytes(const Distributed& dist, const std::string& bytes, int64_t src = 0,
                            const runtime::Group* group = nullptr);
// In the group's order.
std::vector<Json> all_gather_object(const Distributed& dist, const Json& object,
                                    const runtime::Group* group = nullptr);
// Every rank's tensor, in the group's order; shapes and numbers of dims may differ, dtypes may not
// (Error(kUsage) on every rank).
std::vector<at::Tensor> all_gather(const Distributed& dist, const at::Tensor& tensor,
                                   const runtime::Group* group = nullptr);

// Indices along mesh::kAxes of `rank` (absent: this one); nothing when the mesh has no such rank.
std::optional<std::vector<int64_t>> get_mesh_coordinates(
    const runtime::DeviceMesh& mesh, std::optional<int64_t> rank = std::nullopt);

// Whether tensors of that kind can be communicated. `backend` absent: the job's; outside a job,
// whether a GPU is there, and true for the host.
bool backend_supports_cuda(const Distributed& dist,
                           const std::optional<std::string>& backend = std::nullopt);
bool backend_supports_cpu(const Distributed& dist,
                          const std::optional<std::string>& backend = std::nullopt);

// What FSDP divides 16-bit gradients by before and after they are summed: a power of two near the
// square root of the number of ranks.
double get_reduce_divide_factor(int64_t world_size);

struct NAtATimeOptions {
  std::optional<int64_t> n;  // absent: the number of nodes
  const runtime::Group* process_group = nullptr;
  // Instead of the group's size and this rank's index in it. Outside a job they say who this is.
  std::optional<int64_t> world_size, local_rank;
};

// The rounds of do_n_at_a_time: ceil(W / n); rank r is in round r mod that. Throws Error(kUsage)
// for n < 1.
int64_t rounds_of_n_at_a_time(int64_t world_size, int64_t n);

// Collective: calls f on at most n ranks at a time, a barrier after each round, and returns its
// value. With ranks numbered node by node and the default n, one rank of each node works at a time.
//
// Mended: where f throws on some rank, the others still have their turns, all finish all rounds,
// then that rank throws its own error and every other one Error(kPeer) with it. n = 0 is an error.
template <typename F>
auto do_n_at_a_time(const Distributed& dist, F&& f, const NAtATimeOptions& options = {});

// ---- templates
// -----------------------------------------------------------------------------------

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
