#include "am/compat/distributed_utils.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "am/base/error.h"
#include "am/base/first_line.h"
#include "am/base/host.h"
#include "am/base/number.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/compat/host_profile.h"
#include "am/launch/environment/port.h"
#include "am/runtime/engine_plugin.h"

namespace am::compat {

namespace {

constexpr const char* kSharedFilesystem = "OLMO_SHARED_FS";
constexpr const char* kFsLocalRank = "FS_LOCAL_RANK";
constexpr const char* kLocalRank = "LOCAL_RANK";
constexpr const char* kLocalWorldSize = "LOCAL_WORLD_SIZE";
constexpr const char* kNumNodes = "NUM_NODES";

void set_variable(Distributed& dist, const std::string& name, const std::string& value) {
  const auto result = set_variable(dist.variables(), name, value);
  dist.log(result.warning ? LogLevel::kWarning : LogLevel::kInfo, result.message);
}

// Whether this process is the whole job: RANK and WORLD_SIZE are not set, or WORLD_SIZE is 1 and
// RANK is 0 or not set.
bool is_single_process(const Variables& variables) {
  const auto rank = variables.get("RANK");
  const auto world = variables.get("WORLD_SIZE");
  if (!rank && !world) return true;
  return world == "1" && (!rank || rank == "0");
}

void make_single_process_variables(Distributed& dist) {
  const bool unlaunched = !dist.variables().get("RANK") && !dist.variables().get("WORLD_SIZE");
  if (unlaunched) {
    dist.log(LogLevel::kInfo, "no launcher's variables are set, so this process is the whole job");
  }
  for (const auto& [name, value] : {std::pair{"RANK", "0"},
                                    {"WORLD_SIZE", "1"},
                                    {kLocalRank, "0"},
                                    {kLocalWorldSize, "1"},
                                    {kNumNodes, "1"},
                                    {"MASTER_ADDR", "127.0.0.1"}}) {
    set_variable(dist, name, value);
  }
  if (!dist.variables().get("MASTER_PORT")) {
    set_variable(dist, "MASTER_PORT", std::to_string(launch::free_port()));
  }
}

void apply_host_profile(Distributed& dist, std::chrono::milliseconds timeout) {
  const auto* profile = find_host_profile(dist.variables());
  if (profile == nullptr) return;
  const int64_t nodes = integer_variable(dist.variables(), kNumNodes, 1);
  for (const auto& [name, value] : profile_variables(*profile, nodes, timeout)) {
    set_variable(dist, name, value);
  }
}

// Whether a launcher other than torchrun, for example Slurm or MPI, has set variables that describe
// the job. If so, init_distributed must not set the variables of a job of a single process.
bool other_launcher(const Variables& variables) {
  Diagnostics ignored;
  const auto here = launch::detect_environment(variables.lookup(), ignored);
  return here && here->launcher != "torchrun";
}

int64_t index_in(const runtime::Group& group, int64_t rank) {
  const auto& ranks = group.ranks();
  const auto found = std::find(ranks.begin(), ranks.end(), rank);
  if (found == ranks.end()) {
    throw Error(ErrorKind::kUsage, cat("rank ", rank, " is not in group ", group.name()));
  }
  return found - ranks.begin();
}

at::Tensor own_copy(const at::Tensor& value, c10::Device device) {
  return value.detach()
      .to(device, value.scalar_type(), /*non_blocking=*/false, /*copy=*/true)
      .contiguous();
}

// Returns a message to other ranks: "=" and the object as JSON. If the object cannot be serialised,
// for example because of invalid UTF-8, returns "!" and the reason. unpack() then throws on every
// rank, so no rank waits for a message that never comes.
std::string pack(const Json& object) {
  try {
    return cat("=", object.dump());
  } catch (const Json::exception& error) {
    return cat("!", json_reason(error));
  }
}

Json unpack(const std::string& text) {
  if (starts_with(text, "!")) {
    throw Error(ErrorKind::kUsage, cat("an object cannot be sent: ", text.substr(1)));
  }
  return Json::parse(text.substr(1));
}

}  // namespace

void init_distributed(Distributed& dist, const InitDistributedOptions& options) {
  runtime::parse_backend(options.backend);
  // With this variable, c10d keeps the tensors of a collective alive until wait(). Without it, c10d
  // calls recordStream(), which delays the reuse of the tensors' memory.
  set_variable(dist, "TORCH_NCCL_AVOID_RECORD_STREAMS", "1");
  set_variable(dist, "TORCH_DIST_INIT_BARRIER", "1");
  if (is_single_process(dist.variables()) && !other_launcher(dist.variables())) {
    make_single_process_variables(dist);
  }
  if (options.shared_filesystem) set_variable(dist, kSharedFilesystem, "1");
  apply_host_profile(dist, options.timeout);
  if (dist.is_initialized()) {
    if (dist.world().backend() != options.backend) {
      throw Error(ErrorKind::kUsage,
                  cat("the job was joined with backend \"", dist.world().backend(), "\", not \"",
                      options.backend, "\""));
    }
  } else {
    dist.join({.timeout = options.timeout, .backend = options.backend});
    if (dist.variables().get("TORCH_DIST_INIT_BARRIER") == "1") barrier(dist);
  }
  validate_env_vars(dist);
  dist.log(LogLevel::kInfo,
           cat("global rank ", get_rank(dist), " = local rank ", get_local_rank(dist),
               " = file-system local rank ", get_fs_local_rank(dist)));
}

void validate_env_vars(const Distributed& dist) {
  if (!is_distributed(dist)) return;
  const auto& variables = dist.variables();
  const auto missing = [](const std::string& what, const std::string& help) {
    throw Error(ErrorKind::kUsage, cat("missing environment variable ", what), help);
  };
  if (!variables.get(kLocalRank)) {
    missing(kLocalRank, "set it to this rank's number on its machine, from 0");
  }
  if (!variables.get(kNumNodes) && !variables.get(kLocalWorldSize)) {
    missing(cat(kNumNodes, " or ", kLocalWorldSize),
            "set one of them, to the number of machines or to the number of ranks on this machine");
  }
}

bool is_distributed(const Distributed& dist) { return dist.is_initialized(); }

void barrier(const Distributed& dist, const runtime::Group* group) {
  if (is_distributed(dist)) group_or_world(dist, group).barrier();
}

int64_t get_rank(const Distributed& dist, const runtime::Group* group) {
  if (!is_distributed(dist)) return 0;
  return group != nullptr ? group->index() : dist.world().rank();
}

int64_t get_global_rank(const Distributed& dist, int64_t group_rank, const runtime::Group* group) {
  if (!is_distributed(dist) || group == nullptr) return group_rank;
  if (group_rank < 0 || group_rank >= group->size()) {
    throw Error(ErrorKind::kUsage, cat("group ", group->name(), " has the indices 0 to ",
                                       group->size() - 1, ", but the index is ", group_rank));
  }
  return group->ranks()[static_cast<size_t>(group_rank)];
}

int64_t get_world_size(const Distributed& dist, const runtime::Group* group) {
  if (!is_distributed(dist)) return 1;
  return group != nullptr ? group->size() : dist.world().size();
}

int64_t get_local_rank(const Distributed& dist) {
  if (!is_distributed(dist)) return 0;
  return integer_variable(dist.variables(), kLocalRank, 0);
}

int64_t get_fs_local_rank(const Distributed& dist, const runtime::Group* group) {
  if (!is_distributed(dist)) return 0;
  constexpr int64_t kAbsent = -1;
  const int64_t given = integer_variable(dist.variables(), kFsLocalRank, kAbsent);
  if (given != kAbsent) return given;
  const bool shared = dist.variables().get(kSharedFilesystem) == "1";
  return shared ? get_rank(dist, group) : get_local_rank(dist);
}

int64_t get_local_world_size(const Distributed& dist) {
  if (!is_distributed(dist)) return 1;
  const int64_t size = integer_variable(dist.variables(), kLocalWorldSize, 0);
  if (size < 1) {
    throw Error(ErrorKind::kUsage,
                cat("environment variable ", kLocalWorldSize, " is missing or below 1"),
                "set it to the number of ranks on this machine");
  }
  return size;
}

std::string get_node_hostname(const Distributed& dist) {
  return dist.variables().get("BEAKER_NODE_HOSTNAME").value_or(host_name());
}

int64_t get_num_nodes(const Distributed& dist) {
  if (!is_distributed(dist)) return 1;
  const int64_t given = integer_variable(dist.variables(), kNumNodes, 0);
  return given > 0 ? given : ceil_div(get_world_size(dist), get_local_world_size(dist));
}

at::Tensor synchronize_value(const Distributed& dist, const at::Tensor& value, int64_t src,
                             const runtime::Group* group, std::optional<c10::Device> device) {
  if (!is_distributed(dist)) return value;
  const runtime::Group& ranks = group_or_world(dist, group);
  at::Tensor copy = own_copy(value, device.value_or(ranks.device()));
  ranks.broadcast(copy, index_in(ranks, src));
  return copy;
}

at::Tensor all_reduce_value(const Distributed& dist, const at::Tensor& value, runtime::ReduceOp op,
                            const runtime::Group* group, std::optional<c10::Device> device) {
  if (!is_distributed(dist)) return value;
  if (op == runtime::ReduceOp::kAvg && !value.is_floating_point()) {
    throw Error(ErrorKind::kUsage, "an AVG reduction needs a floating-point tensor");
  }
  const runtime::Group& ranks = group_or_world(dist, group);
  at::Tensor copy = own_copy(value, device.value_or(ranks.device()));
  ranks.all_reduce(copy, op);
  return copy;
}

bool synchronize_flag(const Distributed& dist, bool flag, const runtime::Group* group,
                      std::optional<c10::Device> device) {
  return synchronize_value(dist, flag, 0, group, device);
}

std::string broadcast_bytes(const Distributed& dist, const std::string& bytes, int64_t src,
                            const runtime::Group* group) {
  if (!is_distributed(dist)) return bytes;
  const runtime::Group& ranks = group_or_world(dist, group);
  return ranks.broadcast_text(bytes, index_in(ranks, src));
}

Json broadcast_object(const Distributed& dist, const Json& object, int64_t src,
                      const runtime::Group* group) {
  if (!is_distributed(dist)) return object;
  const bool sends = get_rank(dist) == src;  // the objects of all other ranks are ignored
  return unpack(broadcast_bytes(dist, sends ? pack(object) : std::string(), src, group));
}

std::vector<Json> all_gather_object(const Distributed& dist, const Json& object,
                                    const runtime::Group* group) {
  if (!is_distributed(dist)) return {object};
  std::vector<Json> objects;
  for (const std::string& text : group_or_world(dist, group).all_gather_text(pack(object))) {
    objects.push_back(unpack(text));
  }
  return objects;
}

// Gathers the shapes and dtypes first. Then one all-gather gathers the tensors, each flattened and
// padded to the longest, because not every engine supports an all-gather of different sizes.
std::vector<at::Tensor> all_gather(const Distributed& dist, const at::Tensor& tensor,
                                   const runtime::Group* group) {
  if (!is_distributed(dist)) return {tensor};
  const runtime::Group& ranks = group_or_world(dist, group);
  const std::string dtype = c10::toString(tensor.scalar_type());
  const auto headers =
      all_gather_object(dist, {{"shape", tensor.sizes().vec()}, {"dtype", dtype}}, &ranks);
  std::vector<std::vector<int64_t>> shapes;
  int64_t longest = 0;
  for (size_t i = 0; i < headers.size(); ++i) {
    if (headers[i].at("dtype") != headers[0].at("dtype")) {
      throw Error(ErrorKind::kUsage,
                  cat("all_gather: rank ", ranks.ranks()[i], " has dtype ",
                      headers[i].at("dtype").get<std::string>(), ", rank ", ranks.ranks()[0],
                      " has ", headers[0].at("dtype").get<std::string>()));
    }
    shapes.push_back(headers[i].at("shape").get<std::vector<int64_t>>());
    longest = std::max(longest, c10::multiply_integers(shapes.back()));
  }
  at::Tensor mine = at::zeros({longest}, tensor.options().requires_grad(false));
  mine.narrow(0, 0, tensor.numel()).copy_(tensor.detach().reshape(-1));
  const at::Tensor all = at::empty({ranks.size(), longest}, mine.options());
  ranks.all_gather(all, mine);
  std::vector<at::Tensor> tensors;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const int64_t numel = c10::multiply_integers(shapes[i]);
    tensors.push_back(all[static_cast<int64_t>(i)].narrow(0, 0, numel).clone().view(shapes[i]));
  }
  return tensors;
}

std::optional<std::vector<int64_t>> get_mesh_coordinates(const runtime::DeviceMesh& mesh,
                                                         std::optional<int64_t> rank) {
  const int64_t wanted = rank.value_or(mesh.rank());
  if (wanted < 0 || wanted >= mesh.layout().world_size()) return std::nullopt;
  const auto coordinate = mesh.layout().coordinate(wanted);
  return std::vector<int64_t>(coordinate.begin(), coordinate.end());
}

bool backend_supports_cuda(const Distributed& dist, const std::optional<std::string>& backend) {
  if (backend) return runtime::parse_backend(*backend).serves_gpus();
  if (is_distributed(dist)) return runtime::parse_backend(dist.world().backend()).serves_gpus();
  // Finds GPUs without ATen: see Note [Load CUDA first] in engine_plugin.h.
  return !runtime::why_no_cuda();
}

bool backend_supports_cpu(const Distributed& dist, const std::optional<std::string>& backend) {
  if (backend) return !runtime::parse_backend(*backend).cpu.empty();
  if (is_distributed(dist)) return !runtime::parse_backend(dist.world().backend()).cpu.empty();
  return true;
}

double get_reduce_divide_factor(int64_t world_size) {
  int64_t factor = 1;
  while (world_size % factor == 0 && world_size > factor * factor) factor *= 2;
  return static_cast<double>(factor);
}

int64_t rounds_of_n_at_a_time(int64_t world_size, int64_t n) {
  if (n < 1) {
    throw Error(ErrorKind::kUsage, cat("do_n_at_a_time: n = ", n, " is out of range"),
                "n must be at least 1");
  }
  return ceil_div(world_size, n);
}

namespace detail {

at::Tensor as_scalar(double value) { return at::scalar_tensor(value, at::kDouble); }
at::Tensor as_scalar(int64_t value) { return at::scalar_tensor(value, at::kLong); }

void run_in_rounds(const Distributed& dist, const std::function<void()>& f,
                   const NAtATimeOptions& options) {
  const runtime::Group* group = options.process_group;
  const int64_t size = options.world_size.value_or(get_world_size(dist, group));
  const int64_t rank = options.local_rank.value_or(get_rank(dist, group));
  const int64_t n = options.n ? *options.n : get_num_nodes(dist);
  const int64_t rounds = rounds_of_n_at_a_time(size, n);
  std::exception_ptr own;
  std::string message;
  for (int64_t round = 0; round < rounds; ++round) {
    if (round == rank % rounds) {
      try {
        f();
      } catch (const std::exception& error) {
        own = std::current_exception();
        message = cat("rank ", get_rank(dist), ": ", first_line(error));
      } catch (...) {
        own = std::current_exception();
        message = cat("rank ", get_rank(dist), ": an exception that is not a std::exception");
      }
    }
    barrier(dist, group);
  }
  std::vector<std::string> failures = {message};
  if (is_distributed(dist)) failures = group_or_world(dist, group).all_gather_text(message);
  if (own) std::rethrow_exception(own);
  std::erase(failures, "");
  if (!failures.empty()) {
    throw Error(ErrorKind::kPeer, cat("do_n_at_a_time failed on ", join(failures, "; ")));
  }
}

}  // namespace detail

}  // namespace am::compat
