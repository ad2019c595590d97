// live_program KIND STEPS [--diverge RANK STEP] [--hang RANK STEP] [--nap MS]: a program that
// trains without automesh's training loop, and lets am-repl attach through the C interface
// am_live.h. `am-run --nproc N --exec live_program ...` starts the program. KIND is the layout of
// the program's tensors:
//
//   ddp     every rank holds all tensors
//   fsdp    every rank holds rows of each tensor, sharded as by FSDP2
//   clash   the ranks report different shapes of the tensors
//
// A step adds 0.5 to the parameter `w` [7, 4] and 0.25 to `norm.weight` [3], sets their gradients
// to the number of the step, and runs one all-reduce. --diverge changes one element of `w` on one
// rank at the end of a step. --hang lets a rank loop without an end at the beginning of a step, so
// that the other ranks wait in the all-reduce. --nap sleeps MS milliseconds in every step. At the
// end, rank 0 prints "sum S", the sum of the elements of its part of `w`.
#include <ATen/ATen.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "am/live/am_live.h"

// Loops without an end. Exported and not inlined, so that stack traces contain its name.
extern "C" __attribute__((noinline)) void loop_without_an_end() {
  for (;;) std::this_thread::yield();
}

namespace {

struct Arguments {
  std::string kind;
  int64_t steps = 0;
  int64_t diverge_rank = -1, diverge_step = -1, hang_rank = -1, hang_step = -1, nap = 0;
};

int64_t number_of(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? 0 : std::atol(text);
}

// Joins the job and registers its process group under the name "0", as init_process_group does.
c10::intrusive_ptr<c10d::ProcessGroup> join(int rank, int size) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(number_of("MASTER_PORT"));
  const char* shared = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  options.isServer = rank == 0 && (shared == nullptr || std::strcmp(shared, "True") != 0);
  auto store = c10::make_intrusive<c10d::TCPStore>(std::getenv("MASTER_ADDR"), options);
  auto gloo = c10d::ProcessGroupGloo::Options::create(std::chrono::minutes(1));
  gloo->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  auto backend = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, std::move(gloo));
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, rank, size);
  group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO, backend);
  group->setGroupName("0");
  c10d::register_process_group("0", group);
  return group;
}

// One rank's part of a parameter, with its gradient.
struct Parameter {
  std::string name;
  std::vector<int64_t> shape, offset;
  at::Tensor part, grad;
};

Parameter parameter(const std::string& name, std::vector<int64_t> shape, const Arguments& arguments,
                    int64_t rank, int64_t size) {
  Parameter made{name, shape, std::vector<int64_t>(shape.size(), 0), {}, {}};
  const at::Tensor whole = at::arange(at::empty(shape).numel()).to(at::kFloat).view(shape);
  const int64_t rows = (shape[0] + size - 1) / size;
  const int64_t first = std::min(rank * rows, shape[0]);
  const bool cut = arguments.kind == "fsdp";
  if (cut) made.offset[0] = first;
  made.part =
      cut ? whole.narrow(0, first, std::min(rows, shape[0] - first)).clone() : whole.clone();
  made.grad = at::zeros_like(made.part);
  if (arguments.kind == "clash") made.shape[0] += rank;
  return made;
}

// Descriptions of the parameters and gradients for am_live.h. The descriptions point to names in
// this object, and to data and shapes in `parameters`.
class Description {
 public:
  explicit Description(const std::vector<Parameter>& parameters) {
    for (const Parameter& each : parameters) {
      add(each.name, each, each.part);
      add("grad." + each.name, each, each.grad);
    }
  }
  const am_live_tensor* data() const { return tensors_.data(); }
  size_t size() const { return tensors_.size(); }

 private:
  void add(const std::string& name, const Parameter& of, const at::Tensor& part) {
    am_live_tensor tensor = {};
    tensor.name = names_.emplace_back(name).c_str();
    tensor.data = part.mutable_data_ptr();
    tensor.dtype = "float32";
    tensor.dims = static_cast<int32_t>(part.dim());
    tensor.device = -1;
    tensor.shape = part.sizes().data();
    tensor.strides = part.strides().data();
    tensor.global_shape = of.shape.data();
    tensor.offset = of.offset.data();
    tensor.placements = of.part.sizes() == at::IntArrayRef(of.shape) ? nullptr : "dp_shard:S0";
    tensors_.push_back(tensor);
  }

  std::deque<std::string> names_;
  std::vector<am_live_tensor> tensors_;
};

int run(const Arguments& arguments) {
  const int rank = static_cast<int>(number_of("RANK"));
  const int size = static_cast<int>(number_of("WORLD_SIZE"));
  const auto group = size > 1 ? join(rank, size) : nullptr;
  std::vector<Parameter> parameters;
  parameters.push_back(parameter("w", {7, 4}, arguments, rank, size));
  parameters.push_back(parameter("norm.weight", {3}, arguments, rank, size));
  am_live_options options = {};
  options.size = sizeof options;
  options.run = std::getenv("AM_RUN_DIR");
  options.rank = rank;
  options.world_size = size;
  options.group = "0";
  const std::string mesh = "dp_shard=" + std::to_string(size);
  options.mesh = arguments.kind == "fsdp" ? mesh.c_str() : nullptr;
  options.model = "toy";
  options.max_steps = arguments.steps;
  options.device = -1;
  options.log = [](const char* line) { std::fprintf(stderr, "%s\n", line); };
  const Description first(parameters);
  am_live* live = am_live_open(&options, first.data(), first.size());
  if (live == nullptr) {
    std::fprintf(stderr, "cannot open: %s\n", am_live_error());
    return 3;
  }
  for (int64_t step = 1; step <= arguments.steps; ++step) {
    if (rank == arguments.hang_rank && step == arguments.hang_step) loop_without_an_end();
    if (arguments.nap > 0) std::this_thread::sleep_for(std::chrono::milliseconds(arguments.nap));
    std::vector<at::Tensor> loss = {at::full({1}, 10.0 / static_cast<double>(step))};
    if (group) group->allreduce(loss)->wait();
    parameters[0].part.add_(0.5);
    parameters[1].part.add_(0.25);
    for (Parameter& each : parameters) each.grad.fill_(static_cast<double>(step));
    if (rank == arguments.diverge_rank && step == arguments.diverge_step) {
      parameters[0].part.view(-1)[5] += 1.0;
    }
    if (am_live_step(live, step) == 0) continue;
    const am_live_numbers numbers = {loss[0].item<double>() / size, NAN, 0.125, NAN, NAN};
    const Description now(parameters);
    if (am_live_visit(live, now.data(), now.size(), &numbers) != 0) {
      std::fprintf(stderr, "cannot visit: %s\n", am_live_error());
      return 4;
    }
  }
  am_live_close(live, "the program has ended");
  if (rank == 0) std::printf("sum %.17g\n", parameters[0].part.sum().item<double>());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  if (argc < 3) return 2;
  arguments.kind = argv[1];
  arguments.steps = std::atol(argv[2]);
  for (int i = 3; i < argc; ++i) {
    const std::string word = argv[i];
    const auto next = [&] { return ++i < argc ? std::atol(argv[i]) : -1; };
    if (word == "--diverge") {
      arguments.diverge_rank = next();
      arguments.diverge_step = next();
    } else if (word == "--hang") {
      arguments.hang_rank = next();
      arguments.hang_step = next();
    } else if (word == "--nap") {
      arguments.nap = next();
    }
  }
  return run(arguments);
}
