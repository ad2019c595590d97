// Tests am-repl's commands on a program that trains a sharded torch module.
#include "am/live/module_program.h"

#include <ATen/ATen.h>
#include <torch/optim/adamw.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <map>

#include "am/control/client.h"
#include "am/control/place.h"
#include "am/inspect/messages.h"
#include "am/live/program.h"
#include "am/run_folder/run_folder.h"
#include "am/runtime/world.h"
#include "support/gpt_module.h"
#include "support/temporary_folder.h"

namespace am::live {

using namespace am::test;
using namespace std::chrono_literals;

namespace {

// Waits until a job runs in the run folder `run`, sends commands to the job, and returns the
// answers.
std::vector<inspect::Outcome> ask(const std::filesystem::path& run,
                                  const std::vector<std::string>& commands) {
  std::optional<control::FoundJob> job;
  while (!job) job = control::find_job(run_folder::RunFolder(run));
  control::Client client(job->address, {{"name", "test"}}, 20s);
  std::vector<inspect::Outcome> answers;
  for (const std::string& command : commands) {
    const int64_t id = client.send({{"input", command}});
    while (true) {
      const auto message = client.receive(20s);
      REQUIRE(message);
      if (message->value("id", int64_t{-1}) != id) continue;
      answers.push_back(inspect::unpack(message->at("reply")));
      break;
    }
  }
  return answers;
}

double norm_of(const at::Tensor& tensor) {
  return at::linalg_vector_norm(tensor, 2, {}, false, at::kDouble).item<double>();
}

// Returns the L2 norms that the answer to `norms` lists, by name.
std::map<std::string, double> norms_in(const inspect::Outcome& answer) {
  std::map<std::string, double> norms;
  for (const Json& row : answer.result.json.at("norms")) {
    norms[row.at("name").get<std::string>()] = row.at("l2").get<double>();
  }
  return norms;
}

TEST_CASE("am-repl reads a sharded module while its program trains it") {
  struct Case {
    mesh::MeshSizes mesh;
    config::DistributedConfig strategy;
  };
  config::FSDP2Config fsdp2;
  fsdp2.mp_policy = {.param_dtype = {}, .reduce_dtype = {}};
  for (const auto& [sizes, strategy] :
       {Case{{.dp_shard = 3}, fsdp2}, Case{{.dp_replicate = 2}, config::DDPConfig{}},
        Case{{.dp_replicate = 2, .dp_shard = 2}, fsdp2}}) {
    const TemporaryFolder folder;
    const auto run = folder.path() / "run";
    std::atomic<bool> over = false;
    std::map<std::string, double> expected;
    auto answers = std::async(std::launch::async, [&] {
      auto found = ask(run, {"pause", "norms all grad.* optim.state.*.exp_avg", "checksum"});
      over = true;
      return found;
    });
    runtime::run_ranks(sizes.world_size(), [&, mesh_sizes = sizes,
                                            chosen = strategy](const runtime::World& world) {
      const runtime::DeviceMesh mesh(world, mesh::MeshLayout(mesh_sizes));
      const auto model = make_gpt();
      parallel::ShardedModule sharded(model, mesh, chosen);
      torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-2));
      ProgramOptions options;
      options.run = run.string();
      options.model = "gpt";
      options.mesh = mesh_sizes;
      Program program(world, options, tensors_of(sharded, &optimizer));
      for (int64_t step = 1;; ++step) {
        optimizer.zero_grad();
        loss_of(*model, ids_of(step)).backward();
        optimizer.step();
        std::map<std::string, double> now;
        for (const auto& parameter : sharded.layout().parameters) {
          now[parameter.name] = norm_of(sharded.full_parameter(parameter.name));
          now["grad." + parameter.name] = norm_of(sharded.full_gradient(parameter.name));
        }
        if (world.rank() == 0 && !over) expected = now;  // the norms at the step of the pause
        if (program.step(step)) program.visit(tensors_of(sharded, &optimizer));
        at::Tensor ends = at::full({1}, over ? 1.0 : 0.0);
        world.group().all_reduce(ends);
        if (ends.item<double>() > 0) break;
      }
      program.close("the test has ended");
    });
    const std::vector<inspect::Outcome> found = answers.get();
    for (const inspect::Outcome& each : found) CHECK_FALSE(each.error);
    const auto norms = norms_in(found[1]);
    CHECK(norms.contains("optim.state.blocks.0.qkv.weight.exp_avg"));
    CHECK(expected.size() > 20);
    for (const auto& [name, norm] : expected) {
      INFO(name);
      CHECK(norms.at(name) == Approx(norm).epsilon(1e-6));
    }
    for (const Json& each : found[2].result.json.at("parameters")) CHECK(each.at("equal") == true);
  }
}

}  // namespace
}  // namespace am::live
