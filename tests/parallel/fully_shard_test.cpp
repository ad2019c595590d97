// Compares shards, gradients and optimizer states of one step with those of PyTorch's fully_shard
// on the same weights and samples. scripts/fixtures/make_fsdp_fixtures.py wrote tests/data/fsdp.
#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <mutex>

#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/text.h"
#include "am/checkpoint/read_tensor.h"
#include "am/checkpoint/weights.h"
#include "am/frameworks/open_weights.h"
#include "am/optim/elementwise.h"
#include "am/optim/from_plan.h"
#include "support/plans.h"

namespace am {
namespace {

// Returns the sum, the 2-norm, the first and the last element of a tensor.
std::vector<double> facts(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().to(at::kDouble).reshape({-1});
  if (flat.numel() == 0) return {0.0, 0.0, 0.0, 0.0};
  return {flat.sum().item<double>(), flat.norm().item<double>(), flat[0].item<double>(),
          flat[-1].item<double>()};
}

struct Found {
  std::string name;
  Shape shape;
  std::vector<double> value, grad, exp_avg, exp_avg_sq;  // a frozen parameter has only a value
};

// Runs one training step on a rank and returns facts() about each shard: values, gradients and
// optimizer states.
std::vector<Found> step(const config::Plan& plan, const std::string& family,
                        const runtime::World& world) {
  test::RankModel rank(plan, world);
  parallel::ParallelModel& model = *rank.model;
  const std::string folder = test::data_path(cat("hf/", family));
  checkpoint::load(model, *frameworks::open_tensor_source(folder + "/model.safetensors"));
  const auto reference = frameworks::open_tensor_source(folder + "/reference.safetensors");
  const at::Tensor ids = (checkpoint::read_all(*reference, "input_ids") + world.rank())
                             .remainder(rank.config.vocab_size);
  const at::Tensor labels = checkpoint::read_all(*reference, "labels");
  const auto counted = labels.ne(parallel::kIgnoreIndex).sum().item<double>();
  // fully_shard averages gradients over the ranks.
  model.data_parallel().set_gradient_divide_factor(static_cast<double>(world.size()));
  (model.loss_sum(model.forward(ids), labels) / counted).backward();
  model.data_parallel().finish_backward();

  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> gradients;
  for (const auto& group : model.data_parallel().groups()) {
    parameters.push_back(group->trained());
    gradients.push_back(group->flat_grad());
  }
  optim::ElementwiseOptions options;
  options.eps = 1e-3;
  options.weight_decay = 0.01;
  optim::Elementwise optimizer(parameters, options);
  optimizer.step(gradients, 1e-2);

  std::vector<Found> found;
  const auto& groups = model.data_parallel().groups();
  for (size_t g = 0; g < groups.size(); ++g) {
    for (size_t i = 0; i < groups[g]->owned().size(); ++i) {
      const auto& owned = groups[g]->owned()[i];
      const auto part = [&](const at::Tensor& flat) { return facts(groups[g]->view_in(flat, i)); };
      found.push_back({owned.name, owned.box.shape, facts(owned.value), {}, {}, {}});
      if (!owned.trainable) continue;
      found.back().grad = part(gradients[g]);
      const auto states = optim::parameter_state(optimizer, model, g, i);
      found.back().exp_avg = facts(states[0].value);
      found.back().exp_avg_sq = facts(states[1].value);
    }
  }
  return found;
}

double largest_norm(const Json& parameters, const char* what) {
  double largest = 0.0;
  for (const auto& [name, each] : parameters.items()) {
    if (!each.contains(what)) continue;
    largest = std::max(largest, each[what][1].get<double>());
  }
  return largest;
}

// Compares with a tolerance of 1e-5, relative to the shard's norm or to a hundredth of the rank's
// largest norm, whichever is larger. The second bound is for key biases, whose gradient is zero
// apart from rounding.
void check_facts(const std::vector<double>& got, const Json& mine, const std::string& name,
                 const char* what) {
  INFO(name << " " << what);
  REQUIRE(got.empty() != mine.at(name).contains(what));
  if (got.empty()) return;
  const Json& wanted = mine.at(name)[what];
  const double scale = std::max(wanted[1].get<double>(), 1e-2 * largest_norm(mine, what));
  for (size_t i = 0; i < got.size(); ++i) {
    CHECK(std::abs(got[i] - wanted[i].get<double>()) <= 1e-5 * scale);
  }
}

// Compares a step with fully_shard's on every rank. `mesh`: key in the family's JSON file. `sizes`,
// `options`: further keys of [mesh] and of [strategy]. `frozen`: value of model.freeze_params.
void compare(const std::string& family, const std::string& mesh, int64_t ranks,
             const std::string& sizes, const std::string& options = {},
             const std::string& frozen = "[]") {
  const config::Plan plan = test::parse(
      cat("[model]\npath = \"hf/", family, "\"\nfreeze_params = ", frozen,
          "\n[train]\nseq_len = 16\nmicro_batch_size = 2\n", "[mesh]\nworld_size = ", ranks, "\n",
          sizes,
          "[strategy]\nname = \"fsdp2\"\nmp_policy = { param_dtype = \"float32\", reduce_dtype = "
          "\"float32\", output_dtype = \"float32\" }\n",
          options));
  const Json wanted =
      Json::parse(read_file(test::data_path(cat("fsdp/", family, ".json")))).at(mesh);
  std::mutex mutex;
  runtime::run_ranks(ranks, [&](const runtime::World& world) {
    const std::vector<Found> found = step(plan, family, world);
    const std::lock_guard lock(mutex);
    const Json& mine = wanted.at(static_cast<size_t>(world.rank()));
    CHECK(found.size() == mine.size());
    for (const Found& each : found) {
      INFO(family << " on " << mesh << ", rank " << world.rank() << ": " << each.name);
      const Json& theirs = mine.at(each.name);
      CHECK(each.shape == theirs["shape"].get<Shape>());
      check_facts(each.value, mine, each.name, "value");
      check_facts(each.grad, mine, each.name, "grad");
      check_facts(each.exp_avg, mine, each.name, "exp_avg");
      check_facts(each.exp_avg_sq, mine, each.name, "exp_avg_sq");
    }
  });
}

}  // namespace

TEST_CASE("shards, gradients and optimizer states equal fully_shard's") {
  const std::string family = GENERATE("llama", "qwen2", "qwen3");
  compare(family, "2", 2, "");
  compare(family, "3", 3, "");
  compare(family, "8", 8, "");
  compare(family, "2 x 2", 4, "dp_replicate_size = 2\n");
}

TEST_CASE("parameters placed on another dimension, frozen or ignored equal fully_shard's") {
  compare("llama", "2, placed", 2, "", "shard_placement = { \"*_proj.weight\" = 1 }\n");
  compare("llama", "2, ignored", 2, "", "ignored_params = [\"*norm.weight\", \"lm_head.*\"]\n");
  compare("llama", "2, frozen", 2, "", "",
          "[\"model.embed_tokens.*\", \"model.layers.0.*\", \"model.layers.1.mlp.*\"]");
}

}  // namespace am
