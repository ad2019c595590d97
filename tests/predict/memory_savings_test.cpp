#include "am/predict/memory/memory_savings.h"

#include <catch2/catch.hpp>

#include "am/base/text.h"
#include "am/job/job.h"
#include "am/predict/memory/memory.h"
#include "layout/plan_text.h"

namespace am::predict {
using job::Job;
using job::make_job;

namespace {

Job job_of(const std::string& strategy) {
  const config::Plan plan = test::plan_of(
      cat("[mesh]\nworld_size = 8\n[train]\nseq_len = 4096\nmicro_batch_size = 4\n[strategy]\n",
          strategy));
  Diagnostics found;
  const auto config = model::load_config(plan.resolve(plan.model.path), found);
  REQUIRE(config);
  return make_job(plan, *config, 8);
}

std::vector<std::string> keys(const Job& job) {
  std::vector<std::string> keys;
  int64_t before = kMostBytes;
  for (const MemorySaving& saving : memory_savings(job.plan, job.model, job.layout, 0)) {
    CHECK(saving.bytes > 0);
    CHECK(saving.bytes <= before);
    before = saving.bytes;
    keys.push_back(saving.key);
  }
  return keys;
}

}  // namespace

TEST_CASE("the keys that save memory are those that the plan lacks") {
  const std::vector<std::string> gpu = keys(job_of("name = \"fsdp2\"\nbackend = \"nccl\"\n"));
  CHECK_THAT(gpu, Catch::VectorContains(std::string("train.micro_batch_size = 2")));
  CHECK_THAT(gpu, Catch::VectorContains(std::string("strategy.offload_policy = {}")));
  const Job full = job_of("name = \"ddp\"\nactivation_checkpointing = \"full\"\n");
  CHECK(keys(full) == std::vector<std::string>{"train.micro_batch_size = 2"});
}

TEST_CASE("a saving is the difference of two predictions") {
  const Job job = job_of("name = \"ddp\"\n");
  Job smaller = job;
  smaller.plan.train.micro_batch_size = 2;
  const auto peak = [](const Job& of) {
    return estimate_memory(of.plan, of.model, of.layout, 0).components.total();
  };
  for (const MemorySaving& saving : memory_savings(job.plan, job.model, job.layout, 0)) {
    if (saving.key != "train.micro_batch_size = 2") continue;
    CHECK(saving.bytes == peak(job) - peak(smaller));
  }
}

}  // namespace am::predict
