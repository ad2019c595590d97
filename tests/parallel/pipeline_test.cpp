// Runs every pipeline schedule: loss and gradients equal those of one rank, the executed actions
// are those that am-plan draws, and the largest number of micro-batches in flight is the one that
// am-plan predicts.
#include "am/parallel/pp/pipeline.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/text.h"
#include "am/checkpoint/weights.h"
#include "am/layout/precision.h"
#include "am/tensor/dtype.h"
#include "support/plans.h"
#include "support/rank_check.h"
#include "support/temporary_folder.h"

namespace am::parallel {
namespace {

constexpr int64_t kLength = 16;
constexpr double kDivisor = 500.0;

struct PipelineCase {
  std::string family = "llama";
  std::string schedule = "1f1b";
  int64_t pp = 2;
  int64_t virtual_stages = 1;
  int64_t microbatches = 4;
  int64_t rounds = 1;
  int64_t inside = 1;  // ranks per stage
  std::string mesh = {}, strategy = {};
  std::string split_points = {};  // empty: an even split of the eight layers

  std::string name() const {
    return cat(family, ", ", schedule, ", pp ", pp, " x ", virtual_stages, ", ", microbatches,
               " micro-batches x ", rounds, ", ", inside, " ranks a stage ", mesh, strategy,
               split_points);
  }
};

// Writes the family's config with eight layers, of the kinds that the family has by default, into
// `folder`. Returns the folder's path.
std::string write_config(const std::string& family, const TemporaryFolder& folder) {
  Json config = Json::parse(read_file(test::data_path(cat("hf/", family, "/config.json"))));
  config[config.contains("n_layer") ? "n_layer" : "num_hidden_layers"] = 8;
  config.erase("layer_types");
  write_text(folder / "config.json", config.dump());
  return folder.path().string();
}

config::Plan plan_of(const PipelineCase& one, const std::string& model) {
  return test::parse(
      cat("[model]\npath = \"", model, "\"\n[train]\nseq_len = ", kLength,
          "\nmicro_batch_size = 2\n[pipeline]\nschedule = \"", one.schedule,
          "\"\nvirtual_stages = ", one.virtual_stages, "\nmicrobatches = ", one.microbatches,
          one.split_points.empty() ? "" : cat("\nsplit_points = ", one.split_points),
          "\n[mesh]\nworld_size = ", one.pp * one.inside, "\npp_size = ", one.pp, "\n", one.mesh,
          "[strategy]\nname = \"fsdp2\"\n", test::kFullPrecision, one.strategy));
}

class Rows final : public MicroBatches {
 public:
  Rows(int64_t count, int64_t dp_index, int64_t dp_size)
      : count_(count), index_(dp_index), size_(dp_size) {}
  int64_t count() const override { return count_; }
  MicroBatch read(int64_t m) override {
    ++reads;
    const at::Tensor places = at::arange(2 * kLength).view({2, kLength});
    const at::Tensor ids = (places * 7 + (m * size_ + index_) * 11).remainder(61);
    return {ids, (ids * 3 + 1).remainder(61), {}, 0};
  }

  int64_t reads = 0;

 private:
  int64_t count_, index_, size_;
};

class WrongToken final : public MicroBatches {
 public:
  explicit WrongToken(int64_t count) : rows_(count, 0, 1) {}
  int64_t count() const override { return rows_.count(); }
  MicroBatch read(int64_t m) override {
    MicroBatch batch = rows_.read(m);
    if (m == 2) batch.ids_BT[0][3] = 500;
    return batch;
  }

 private:
  Rows rows_;
};

using NamedTensors = std::map<std::string, at::Tensor>;

struct Outcome {
  double loss = 0;
  NamedTensors gradients;  // full gradients
};

// Returns the full gradients of all trainable parameters. All ranks must call this function.
NamedTensors gradients_of(const ParallelModel& model) {
  NamedTensors gradients;
  for (const auto& parameter : model.layout().parameters) {
    if (!parameter.trainable) continue;
    gradients[parameter.name] = model.full_gradient(parameter.name).clone();
  }
  return gradients;
}

Outcome on_one_rank(const PipelineCase& one, const std::string& folder, int64_t batches) {
  const config::Plan plan = plan_of({.family = one.family, .pp = 1}, folder);
  Outcome outcome;
  runtime::run_ranks(1, [&](const runtime::World& world) {
    test::RankModel rank(plan, world);
    checkpoint::initialize(*rank.model, 3);
    Rows rows(batches, 0, 1);
    rank.model->zero_grad();
    outcome.loss = rank.model->forward_backward(rows, {.divisor = kDivisor}).item<double>();
    outcome.gradients = gradients_of(*rank.model);
  });
  return outcome;
}

// Returns the number of micro-batches in flight, summed over the rank's stages.
int64_t in_flight(const Pipeline& pipeline) {
  int64_t sum = 0;
  for (const auto& [number, stage] : pipeline.stages()) sum += stage.in_flight();
  return sum;
}

void check_case(const PipelineCase& one) {
  INFO(one.name());
  const TemporaryFolder files;
  const std::string folder = write_config(one.family, files);
  const config::Plan plan = plan_of(one, folder);
  const pipeline::Schedule schedule =
      pipeline::make_schedule({one.schedule, one.pp, one.virtual_stages, one.microbatches});
  const auto lists = pipeline::with_communication(schedule);
  std::mutex mutex;
  Outcome got;
  int64_t readers = 0;  // number of data-parallel ranks, which read different samples
  runtime::run_ranks(one.pp * one.inside, [&](const runtime::World& world) {
    test::RankModel mine(plan, world);
    ParallelModel& model = *mine.model;
    checkpoint::initialize(model, 3);
    model.zero_grad();
    const auto& mesh = model.mesh();
    const auto rank = static_cast<size_t>(mesh.group("pp").index());
    Pipeline& pipeline = *model.pipeline();
    Rows rows(one.microbatches * one.rounds, mesh.group("dp").index(), mesh.group("dp").size());
    const at::Tensor without_graph = model.forward_only(rows);
    std::vector<pipeline::Action> executed, wanted;
    int64_t most = 0;
    pipeline.on_action = [&](const pipeline::Action& action) {
      executed.push_back(action);
      most = std::max(most, in_flight(pipeline));
    };
    const at::Tensor loss = model.forward_backward(rows, {.divisor = kDivisor});
    RANK_CHECK(at::equal(loss, without_graph));
    RANK_CHECK(rows.reads == 2 * rows.count());  // once in each of the two passes
    for (int64_t round = 0; round < one.rounds; ++round) {
      for (const auto& slot : lists[rank]) {
        wanted.insert(wanted.end(), slot.actions().begin(), slot.actions().end());
      }
    }
    RANK_CHECK(executed == wanted);
    const auto counted = pipeline::in_flight_by_stage(lists[rank], schedule.stages());
    RANK_CHECK(most == std::accumulate(counted.begin(), counted.end(), int64_t{0}));
    RANK_CHECK(in_flight(pipeline) == 0);
    NamedTensors gradients = gradients_of(model);
    const std::lock_guard lock(mutex);
    readers = mesh.group("dp").size();
    if (mesh.group("tp").index() == 0) got.loss += loss.item<double>();
    if (world.rank() == 0) got.gradients = std::move(gradients);
  });
  const Outcome wanted = on_one_rank(one, folder, one.microbatches * one.rounds * readers);
  CHECK(got.loss == Approx(wanted.loss).epsilon(1e-6));
  REQUIRE(got.gradients.size() == wanted.gradients.size());
  for (const auto& [name, gradient] : wanted.gradients) {
    INFO(name);
    const at::Tensor apart = got.gradients.at(name) - gradient;
    CHECK(apart.norm().item<double>() <= 2e-6 * gradient.norm().item<double>() + 1e-9);
  }
}

}  // namespace

TEST_CASE("every schedule gives one rank's loss and gradients", "[pipeline]") {
  const auto one = GENERATE(
      PipelineCase{.schedule = "gpipe"}, PipelineCase{.schedule = "1f1b"},
      PipelineCase{.schedule = "1f1b", .pp = 4, .microbatches = 6},
      PipelineCase{.schedule = "1f1b", .pp = 3, .microbatches = 3, .rounds = 2},
      PipelineCase{.schedule = "looped_bfs", .virtual_stages = 2},
      PipelineCase{.schedule = "interleaved_1f1b", .virtual_stages = 2},
      PipelineCase{.schedule = "interleaved_1f1b", .virtual_stages = 4, .rounds = 2},
      PipelineCase{.schedule = "interleaved_zero_bubble", .virtual_stages = 2},
      PipelineCase{.schedule = "interleaved_zero_bubble", .pp = 4, .microbatches = 8},
      PipelineCase{.schedule = "zbv_zero_bubble", .virtual_stages = 2},
      PipelineCase{.schedule = "zbv_zero_bubble", .pp = 3, .virtual_stages = 2, .microbatches = 6},
      PipelineCase{.schedule = "dual_pipe_v", .virtual_stages = 2});
  check_case(one);
}

TEST_CASE("the first stage can be the embedding alone, and the last the head", "[pipeline]") {
  const auto one = GENERATE(
      PipelineCase{.split_points = "[0]"}, PipelineCase{.split_points = "[8]"},
      PipelineCase{.pp = 4, .split_points = "[0, 5, 8]"},
      PipelineCase{
          .schedule = "interleaved_1f1b", .virtual_stages = 2, .split_points = "[0, 4, 8]"},
      PipelineCase{.schedule = "zbv_zero_bubble", .virtual_stages = 2, .split_points = "[0, 4, 8]"},
      PipelineCase{.family = "gemma", .pp = 3, .inside = 2, .split_points = "[0, 8]"},
      PipelineCase{.family = "gpt2", .pp = 3, .split_points = "[0, 8]"},
      PipelineCase{.pp = 3,
                   .inside = 2,
                   .mesh = "tp_size = 2\n",
                   .strategy = "sequence_parallel = true\n",
                   .split_points = "[0, 8]"});
  check_case(one);
}

TEST_CASE("a pipeline is any family's", "[pipeline]") {
  const std::string family =
      GENERATE("phi", "phi3", "qwen2_moe", "olmo2", "mistral", "qwen3_moe", "deepseek_v3");
  const auto [schedule, virtual_stages] =
      GENERATE(table<std::string, int64_t>({{"1f1b", 1}, {"zbv_zero_bubble", 2}}));
  check_case({.family = family, .schedule = schedule, .virtual_stages = virtual_stages});
}

// With a tied head, the first and the last stage each hold a copy of the weight, and the model's
// gradient is the sum of the copies' gradients.
TEST_CASE("a tied head is on the last stage", "[pipeline]") {
  const std::string sp = "sequence_parallel = true\n";
  const auto one = GENERATE_COPY(
      PipelineCase{.family = "gemma"}, PipelineCase{.family = "gpt2", .pp = 4},
      PipelineCase{.family = "falcon-7b", .schedule = "interleaved_1f1b", .virtual_stages = 2},
      PipelineCase{.family = "gemma2", .schedule = "zbv_zero_bubble", .virtual_stages = 2},
      PipelineCase{.family = "gemma3_text", .schedule = "gpipe", .rounds = 2, .inside = 2},
      PipelineCase{.family = "gemma", .inside = 2, .mesh = "tp_size = 2\n", .strategy = sp},
      PipelineCase{.family = "gpt2", .inside = 4, .mesh = "dp_replicate_size = 2\n"});
  check_case(one);
}

TEST_CASE("a pass adds to a tied head's gradient of earlier passes", "[pipeline]") {
  const bool reduce = GENERATE(false, true);  // whether the first pass reduces its gradients
  const PipelineCase one{.family = "gemma", .strategy = "defer_fsdp_grad_sync = false\n"};
  const TemporaryFolder files;
  const config::Plan plan = plan_of(one, write_config(one.family, files));
  runtime::run_ranks(one.pp, [&](const runtime::World& world) {
    test::RankModel mine(plan, world);
    checkpoint::initialize(*mine.model, 3);
    Rows rows(one.microbatches, 0, 1);
    mine.model->forward_backward(rows, {.divisor = kDivisor});
    const NamedTensors of_one = gradients_of(*mine.model);
    mine.model->zero_grad();
    mine.model->forward_backward(rows, {.divisor = kDivisor, .reduce = reduce});
    mine.model->forward_backward(rows, {.divisor = kDivisor});
    for (const auto& [name, gradient] : gradients_of(*mine.model)) {
      RANK_CHECK(at::allclose(gradient, 2 * of_one.at(name), 1e-5, 1e-6));
    }
  });
}

TEST_CASE("stages are sharded, cut and checkpointed as whole models are", "[pipeline]") {
  const std::string full = "activation_checkpointing = true\n";
  const auto one =
      GENERATE_COPY(PipelineCase{.inside = 2},
                    PipelineCase{.inside = 2, .strategy = "reshard_after_forward = true\n"},
                    PipelineCase{.schedule = "gpipe", .rounds = 2, .inside = 2, .strategy = full},
                    PipelineCase{.schedule = "interleaved_1f1b", .virtual_stages = 2, .inside = 2},
                    PipelineCase{.schedule = "zbv_zero_bubble", .virtual_stages = 2, .inside = 2},
                    PipelineCase{.schedule = "interleaved_zero_bubble",
                                 .virtual_stages = 2,
                                 .inside = 2,
                                 .strategy = full},
                    PipelineCase{.inside = 2, .mesh = "tp_size = 2\n"},
                    PipelineCase{.schedule = "dual_pipe_v",
                                 .virtual_stages = 2,
                                 .inside = 2,
                                 .mesh = "tp_size = 2\n",
                                 .strategy = "sequence_parallel = true\n"},
                    PipelineCase{.family = "phi", .inside = 2, .mesh = "tp_size = 2\n"},
                    PipelineCase{.inside = 4, .mesh = "dp_replicate_size = 2\n"});
  check_case(one);
}

TEST_CASE("an error says in which action it was", "[pipeline]") {
  const PipelineCase one{.schedule = "gpipe"};
  const TemporaryFolder files;
  const config::Plan plan = plan_of(one, write_config(one.family, files));
  std::string why;
  try {
    runtime::run_ranks(2, [&](const runtime::World& world) {
      test::RankModel mine(plan, world);
      Rows rows(6, 0, 1);
      std::string said;
      try {
        mine.model->forward_backward(rows, {});
      } catch (const Error& error) {
        said = error.what();
      }
      RANK_CHECK(said ==
                 "6 micro-batches are not a multiple of the 4 micro-batches of schedule gpipe");
      // The first stage detects the wrong token in its third forward, and notifies the other stage.
      WrongToken wrong(4);
      mine.model->forward_backward(wrong, {});
    });
  } catch (const Error& error) {
    why = error.what();
  }
  INFO(why);
  CHECK(why.find("in 0F2 (stage 0, forward of micro-batch 2): token id 500 is outside the "
                 "vocabulary") == 0);
}

}  // namespace am::parallel
