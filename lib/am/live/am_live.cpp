#include "am/live/am_live.h"

#include <ATen/ATen.h>

#include <atomic>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/first_line.h"
#include "am/base/number.h"
#include "am/base/text.h"
#include "am/launch/environment/environment.h"
#include "am/live/program.h"
#include "am/runtime/process_group_engine.h"
#include "am/runtime/torch_version.h"
#include "am/tensor/dtype.h"

struct am_live {
  std::unique_ptr<am::live::Program> program;
};

namespace am::live {

namespace {

thread_local std::string t_error;

std::string text_of(const char* text) { return text == nullptr ? std::string() : text; }

// Returns the device that the member `device` of a C struct selects: GPU `index`, or the host if
// `index` is negative.
c10::Device device_of(int32_t index) {
  return index < 0 ? c10::Device(c10::kCPU) : c10::Device(c10::kCUDA, static_cast<int8_t>(index));
}

// Parses the placements of an am_live_tensor with `dims` dims, for example "dp_shard:S0 tp:R".
std::vector<std::pair<std::string, mesh::Placement>> parse_placements(const std::string& text,
                                                                      int32_t dims) {
  std::vector<std::pair<std::string, mesh::Placement>> placements;
  for (const std::string& word : split(text, ' ')) {
    if (word.empty()) continue;
    const size_t colon = word.rfind(':');
    const std::string what = colon == std::string::npos ? "" : word.substr(colon + 1);
    const auto dim = parse_integer(what.empty() ? "" : what.substr(1));
    mesh::Placement placement;
    if (what == "P") {
      placement = mesh::Placement::partial();
    } else if (!what.empty() && what.front() == 'S' && dim && *dim >= 0 && *dim < dims) {
      placement = mesh::Placement::shard(static_cast<int>(*dim));
    } else if (what != "R") {
      throw Error(ErrorKind::kUsage,
                  cat("`", word, "` is not a placement of a tensor with ", dims, " dims"),
                  "for example: dp_shard:S0 tp:R");
    }
    placements.emplace_back(word.substr(0, colon), placement);
  }
  return placements;
}

// Parses the sizes of am_live_options::mesh, for example "dp_shard=2 tp=2".
mesh::MeshSizes parse_mesh(const std::string& text, int64_t world_size) {
  mesh::MeshSizes sizes;
  if (text.empty()) sizes.dp_replicate = world_size;
  for (const std::string& word : split(text, ' ')) {
    if (word.empty()) continue;
    const size_t equals = word.find('=');
    const std::string axis = word.substr(0, equals);
    const auto size = parse_integer(equals == std::string::npos ? "" : word.substr(equals + 1));
    int64_t* const target = axis == "pp"             ? &sizes.pp
                            : axis == "dp_replicate" ? &sizes.dp_replicate
                            : axis == "dp_shard"     ? &sizes.dp_shard
                            : axis == "cp"           ? &sizes.cp
                            : axis == "tp"           ? &sizes.tp
                                                     : nullptr;
    if (target == nullptr || !size || *size < 1) {
      throw Error(ErrorKind::kUsage, cat("`", word, "` is not the size of a mesh axis"),
                  "axes: pp, dp_replicate, dp_shard, cp, tp; for example dp_shard=2 tp=2");
    }
    *target = *size;
  }
  if (sizes.world_size() != world_size) {
    throw Error(ErrorKind::kUsage, cat("the mesh `", text, "` has ", sizes.world_size(),
                                       " ranks, and the job has ", world_size));
  }
  return sizes;
}

values::ProgramTensor tensor_of(const am_live_tensor& from) {
  values::ProgramTensor tensor;
  tensor.name = text_of(from.name);
  const auto list = [&](const int64_t* values) { return Shape(values, values + from.dims); };
  if (tensor.name.empty() || from.dims < 0 || (from.dims > 0 && from.shape == nullptr)) {
    throw Error(ErrorKind::kUsage, cat("a tensor needs a name and a shape: `", tensor.name, "`"));
  }
  const Shape shape = from.dims == 0 ? Shape() : list(from.shape);
  tensor.shape = from.global_shape == nullptr ? shape : list(from.global_shape);
  tensor.offset = from.offset == nullptr ? Shape(shape.size(), 0) : list(from.offset);
  tensor.placements = parse_placements(text_of(from.placements), from.dims);
  const c10::Device device = device_of(from.device);
  const auto options = at::TensorOptions(tensor::parse_dtype(text_of(from.dtype)));
  if (numel(shape) == 0) {
    tensor.part = at::empty(shape, options.device(device));
  } else if (from.data == nullptr) {
    throw Error(ErrorKind::kUsage, cat(tensor.name, ": the address is null"));
  } else if (from.strides == nullptr) {
    tensor.part = at::from_blob(from.data, shape, options.device(device));
  } else {
    tensor.part = at::from_blob(from.data, shape, list(from.strides), options.device(device));
  }
  return tensor;
}

std::vector<values::ProgramTensor> tensors_of(const am_live_tensor* tensors, size_t count) {
  std::vector<values::ProgramTensor> list;
  for (size_t i = 0; i < count; ++i) list.push_back(tensor_of(tensors[i]));
  return list;
}

// Returns the world of a program's ranks. Each connection of a process uses its own key prefix in
// the group's store. The prefix contains the number of the connection. This number is equal on all
// ranks, because all ranks open their connections in the same order.
runtime::World world_of(const am_live_options& options) {
  static std::atomic<int> connections{0};
  launch::RankEnvironment here;
  here.rank = options.rank;
  here.world_size = options.world_size;
  const launch::EnvironmentLookup environment = launch::process_environment();
  here.local_rank = parse_integer(environment("LOCAL_RANK").value_or("0")).value_or(0);
  here.local_world_size = parse_integer(environment("LOCAL_WORLD_SIZE").value_or("1")).value_or(1);
  here.launcher = "program";
  const c10::Device device = device_of(options.device);
  const std::string prefix = cat("automesh/live/", ++connections);
  if (options.world_size == 1) {
    return runtime::World::meet_in(here, nullptr, {}, runtime::engines_of({}, device));
  }
  const std::string name = text_of(options.group);
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  try {
    group = c10d::resolve_process_group(name);
  } catch (const std::exception& error) {
    throw Error(ErrorKind::kUsage,
                cat("there is no process group `", name, "`: ", first_line(error)));
  }
  if (group->getSize() != options.world_size || group->getRank() != options.rank) {
    throw Error(ErrorKind::kUsage,
                cat("this process is rank ", group->getRank(), " of ", group->getSize(),
                    " in the process group `", name, "`, but rank ", options.rank, " of ",
                    options.world_size, " in the job"));
  }
  if (!group->getStore()) {
    throw Error(ErrorKind::kUsage, cat("the process group `", name, "` has no store"));
  }
  auto store = c10::make_intrusive<c10d::PrefixStore>(prefix, group->getStore());
  return runtime::World::meet_in(here, std::move(store), {}, runtime::engines_of(group, device));
}

// Calls `action` and returns its result. If `action` throws, records the message for
// am_live_error() and returns `failure`.
template <typename Result, typename Action>
Result guarded(Result failure, const Action& action) {
  try {
    return action();
  } catch (const Error& error) {
    t_error = error.hint().empty() ? error.what() : cat(error.what(), "; ", error.hint());
  } catch (const std::exception& error) {
    t_error = first_line(error);
  }
  return failure;
}

}  // namespace

}  // namespace am::live

using am::live::guarded;

am_live* am_live_open(const am_live_options* options, const am_live_tensor* tensors, size_t count) {
  return guarded<am_live*>(nullptr, [&] {
    using namespace am;
    if (options == nullptr || options->size != sizeof(am_live_options)) {
      throw Error(ErrorKind::kUsage,
                  "am_live_options is null or has another size than in this library's am_live.h");
    }
    runtime::require_compiled_torch();
    live::ProgramOptions program;
    program.run = live::text_of(options->run);
    program.model = live::text_of(options->model);
    program.mesh = live::parse_mesh(live::text_of(options->mesh), options->world_size);
    program.first_step = options->first_step;
    program.max_steps = options->max_steps;
    program.stack = {options->stack_signal, options->stack_read_fd};
    program.collectives = options->collectives;
    program.config = live::text_of(options->config);
    program.model_folder = live::text_of(options->model_folder);
    if (options->waiting != nullptr) {
      program.waiting = [waiting = options->waiting] { return waiting() != 0; };
    }
    if (options->stack_of != nullptr) {
      program.stack_of = [stack_of = options->stack_of](pid_t process) {
        return live::text_of(stack_of(process));
      };
    }
    if (options->log != nullptr) {
      program.log = [log = options->log](const std::string& line) { log(line.c_str()); };
    }
    auto live = std::make_unique<am_live>();
    live->program = std::make_unique<live::Program>(live::world_of(*options), std::move(program),
                                                    live::tensors_of(tensors, count));
    return live.release();
  });
}

int am_live_step(am_live* live, int64_t steps) {
  return guarded(-1, [&] { return live->program->step(steps) ? 1 : 0; });
}

int am_live_visit(am_live* live, const am_live_tensor* tensors, size_t count,
                  const am_live_numbers* numbers) {
  return guarded(-1, [&] {
    am::live::ProgramNumbers known;
    if (numbers != nullptr) {
      known = {numbers->loss, numbers->grad_norm, numbers->learning_rate, numbers->step_seconds,
               numbers->tokens_per_second};
    }
    // Visits even if the tensors are invalid, because the other ranks wait for this one.
    std::vector<am::values::ProgramTensor> list;
    const int described = guarded(-1, [&] {
      list = am::live::tensors_of(tensors, count);
      return 0;
    });
    live->program->visit(std::move(list), known);
    return described;
  });
}

void am_live_close(am_live* live, const char* last_words) {
  guarded(0, [&] {
    const std::unique_ptr<am_live> owner(live);
    if (live != nullptr) live->program->close(am::live::text_of(last_words));
    return 0;
  });
}

const char* am_live_error(void) { return am::live::t_error.c_str(); }
