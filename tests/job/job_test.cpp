// Tests that opening a job reports the errors of the loader, of the rules and of the runtime's
// limits together.
#include "am/job/job.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "support/folders.h"
#include "support/temporary_folder.h"

namespace am::job {
using namespace layout;
using namespace rules;

namespace {

const std::filesystem::path kModels = std::filesystem::path(test::kSourceFolder) / "plans/models";

class PlanFile {
 public:
  // `model`: a folder of plans/models, or an absolute path.
  explicit PlanFile(const std::filesystem::path& model, const std::string& rest)
      : path_(folder_ / "plan.toml") {
    write_file_atomically(
        path_,
        cat("[model]\npath = \"", (kModels / model).string(),
            "\"\n[data]\nkind = \"synthetic\"\n[train]\nseq_len = 64\nmax_steps = 1\n", rest));
  }

  std::optional<Job> open(const CudaProbe& why_no_cuda = {}, int64_t world_size = 0) {
    rules.clear();
    Diagnostics found;
    auto job =
        open_job({.file = path_, .world_size = world_size, .why_no_cuda = why_no_cuda}, found);
    for (const Diagnostic& each : found.items()) {
      if (each.severity == Severity::kError) rules.insert(each.rule);
    }
    return job;
  }

  // Returns the rules of the errors that check_file() and check_runs() report. check_runs() checks
  // whether am-run can run the plan.
  std::set<std::string> checked() const {
    Diagnostics found;
    check_runs(check_file(path_, {}, 0, found), found);
    std::set<std::string> errors;
    for (const Diagnostic& each : found.items()) {
      if (each.severity == Severity::kError) errors.insert(each.rule);
    }
    return errors;
  }

  std::set<std::string> rules;  // rules of the errors that the last open() reported

 private:
  TemporaryFolder folder_;
  std::filesystem::path path_;
};

}  // namespace

TEST_CASE("a job has its plan, its model and its layout", "[job]") {
  PlanFile file("llama-3.2-1b", "[mesh]\nworld_size = 4\ntp_size = 2\n");
  const auto job = file.open();
  REQUIRE(job.has_value());
  CHECK(job->layout.mesh.world_size() == 4);
  CHECK(job->layout.parameters.size() == job->layout.inventory.parameters.size());
  CHECK(job->model.model_type == "llama");
  CHECK(job->plan.train.seq_len == 64);
}

TEST_CASE("the loader, the rules and what runs are heard at once", "[job]") {
  const TemporaryFolder folder;
  std::string config = read_file(kModels / "falcon-7b/config.json");
  const std::string key = "\"alibi\": ";
  config.replace(config.find(key), key.size() + 5, key + "true");
  write_file_atomically(folder / "config.json", config);
  PlanFile file(folder / "config.json",
                "[mesh]\nworld_size = 4\ntp_size = 3\n[optimizer]\nlearning = 1\n");
  CHECK_FALSE(file.open().has_value());
  CHECK(file.rules.contains("plan.key"));
  CHECK(file.rules.contains("mesh.divide"));
  CHECK(file.rules.contains("runtime.unsupported"));
}

TEST_CASE("what a check says of am-run is what opens no job", "[job]") {
  struct Case {
    std::string rest;
    bool runs;
  };
  const std::string mesh = "[mesh]\nworld_size = 2\ntp_size = 2\n[strategy]\n";
  for (const Case& each : {Case{mesh, true},
                           {mesh + "backend = \"nccl\"\nsequence_parallel = true\n", true},
                           {mesh + "sequence_parallel = true\nenable_async_tensor_parallel = true\n"
                                   "backend = \"nccl\"\n",
                            false},
                           {"[mesh]\nworld_size = 2\n[strategy]\nname = \"megatron_fsdp\"\n"
                            "nccl_ub = true\n",
                            false}}) {
    INFO(each.rest);
    PlanFile file("llama-3.2-1b", each.rest);
    CHECK(file.open().has_value() == each.runs);
    CHECK(file.checked() == file.rules);
    CHECK(file.rules.empty() == each.runs);
  }
}

TEST_CASE("a backend is asked for where the job needs one", "[job]") {
  PlanFile file("llama-3.2-1b", "[mesh]\nworld_size = 1\n[strategy]\nbackend = \"nccl\"\n");
  const auto none = [] { return std::optional(launch::CudaProblem{}); };
  CHECK(file.open().has_value());
  CHECK_FALSE(file.open(none).has_value());
  CHECK(file.rules == std::set<std::string>{"runtime.backend"});
}

TEST_CASE("a program's job has the world it is made for", "[job]") {
  PlanFile file("llama-3.2-1b", "[mesh]\ntp_size = 2\n");
  const auto job = file.open({}, 2);
  REQUIRE(job.has_value());
  CHECK(make_job(job->plan, job->model, 8).layout.mesh.group_size("dp_shard_cp") == 4);
  CHECK_THROWS_AS(make_job(job->plan, job->model, 7), Error);
}

}  // namespace am::job
