// Tests the choice of a communication backend for each type of device, the errors if NCCL cannot
// run, and the default settings of NCCL.
// Tests on a GPU are in tests/cuda/nccl_test.cpp.
#include "am/runtime/engine.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>
#include <stdexcept>

#include "am/base/error.h"
#include "am/launch/environment/gpu_driver.h"
#include "am/runtime/engine_plugin.h"
#include "am/runtime/nccl_environment.h"
#include "am/runtime/world.h"

namespace am::runtime {

namespace {

// A collective like NCCL's: the host does not wait for it, but queries whether it is completed. A
// test sets `done`, or sets `broken` to let the query throw.
class FakeObserver : public c10d::Work {
 public:
  bool isCompleted() override {
    if (broken) throw std::runtime_error("the GPU has fallen off the bus");
    return done;
  }

  bool done = false;
  bool broken = false;
};

Collective collective(uint64_t sequence) {
  static const auto id = std::make_shared<const CommunicatorId>(CommunicatorId{"tp/0", {0, 1}});
  return {"all_gather", "tp", id, sequence};
}

class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    value == nullptr ? ::unsetenv(name) : ::setenv(name, value, 1);
  }
  ~Environment() { old_.empty() ? ::unsetenv(name_) : ::setenv(name_, old_.c_str(), 1); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
  std::string old_;
};

}  // namespace

TEST_CASE("a backend string names an engine for each kind of device") {
  CHECK(parse_backend("gloo") == BackendSpec{.cpu = "gloo", .cuda = ""});
  CHECK(parse_backend("nccl") == BackendSpec{.cpu = "", .cuda = "nccl"});
  CHECK(parse_backend("cpu:gloo,cuda:nccl") == BackendSpec{.cpu = "gloo", .cuda = "nccl"});
  CHECK(parse_backend("cuda:nccl, cpu:gloo") == BackendSpec{.cpu = "gloo", .cuda = "nccl"});
  CHECK(parse_backend("cuda:gloo") == BackendSpec{.cpu = "", .cuda = "gloo"});
  CHECK(parse_backend("cpu:gloo,cuda:gloo") == BackendSpec{.cpu = "gloo", .cuda = "gloo"});
  CHECK(parse_backend("cuda:gloo").serves_gpus());
  CHECK_FALSE(parse_backend("cuda:gloo").uses_nccl());
  CHECK_FALSE(parse_backend("gloo").serves_gpus());
}

TEST_CASE("a wrong backend string is an error that names the legal ones") {
  using Catch::Contains;
  const auto legal = Contains("cpu:gloo,cuda:nccl");
  for (const auto& [backend, reason] : std::map<std::string, std::string>{
           {"", "unknown library \"\""},
           {"mpi", "unknown library \"mpi\""},
           {"cpu:nccl", "nccl supports only cuda tensors"},
           {"xpu:gloo", "unknown device \"xpu\""},
           {"gloo,cpu:gloo", "cpu is listed twice"},
           {"nccl,cuda:gloo", "cuda is listed twice"},
       }) {
    try {
      parse_backend(backend);
      FAIL("accepted " << backend);
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kUsage);
      CHECK_THAT(error.what(), Contains(reason));
      CHECK_THAT(error.hint(), legal);
    }
  }
}

TEST_CASE("who computes and whose collectives are, by a plan's backend") {
  for (const auto& [backend, host, without_nccl] :
       std::vector<std::tuple<std::optional<std::string>, bool, bool>>{
           {std::nullopt, false, false},
           {"gloo", true, true},
           {"nccl", false, false},
           {"cuda:gloo", false, true},
           {"cpu:gloo,cuda:nccl", false, false}}) {
    CHECK(config::computes_on_host(backend) == host);
    CHECK(config::runs_without_nccl(backend) == without_nccl);
  }
}

TEST_CASE("without a GPU nccl is an error that says what is missing and what to write") {
  if (launch::visible_gpus().count > 0)
    return;  // set CUDA_VISIBLE_DEVICES= to test this on a GPU machine
  const auto problem = why_no_cuda();
  REQUIRE(problem);
  CHECK_THAT(problem->what, Catch::Contains("GPU") || Catch::Contains("driver"));
  CHECK_THAT(problem->help, Catch::Contains("gloo"));
  CHECK(default_backend() == "gloo");
  for (const char* backend : {"nccl", "cpu:gloo,cuda:nccl", "cuda:gloo", "cpu:gloo,cuda:gloo"}) {
    const auto connect = [&] { World::connect({}, {.backend = backend}); };
    CHECK_THROWS_WITH(connect(), Catch::Contains(backend) && Catch::Contains(problem->what));
  }
}

TEST_CASE("NCCL's settings are defaults: what the user has set stays") {
  const Environment handling("TORCH_NCCL_ASYNC_ERROR_HANDLING", nullptr);
  const Environment old_name("TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "/mine/trace_");
  const Environment new_name("TORCH_FR_DUMP_TEMP_FILE", nullptr);
  const Environment wait("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "500");
  set_nccl_defaults("/run/logs");
  CHECK(std::getenv("TORCH_NCCL_ASYNC_ERROR_HANDLING") == std::string("2"));
  CHECK(std::getenv("TORCH_FR_DUMP_TEMP_FILE") == nullptr);
  CHECK(std::getenv("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC") == std::string("500"));

  ::unsetenv("TORCH_NCCL_DEBUG_INFO_TEMP_FILE");
  set_nccl_defaults("/run/logs");
  CHECK(std::getenv("TORCH_FR_DUMP_TEMP_FILE") == std::string("/run/logs/flight-recorder-rank-"));
}

TEST_CASE("a GPU's allocator expands its segments, unless the user says something of it") {
  const Environment name("PYTORCH_ALLOC_CONF", nullptr);
  const Environment old_name("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:64");
  set_nccl_defaults();
  CHECK(std::getenv("PYTORCH_ALLOC_CONF") == nullptr);
  ::unsetenv("PYTORCH_CUDA_ALLOC_CONF");
  set_nccl_defaults();
  CHECK(std::getenv("PYTORCH_ALLOC_CONF") == std::string("expandable_segments:True"));
}

TEST_CASE("ranks that share a GPU have settings of their own, where the user has set none") {
  const Environment ranks("AM_RANKS_PER_GPU", "4");
  const Environment many("NCCL_MULTI_RANK_GPU_ENABLE", nullptr);
  const Environment blocks("NCCL_MAX_CTAS", nullptr);
  const Environment sharp("NCCL_NVLS_ENABLE", "2");
  const Environment warning("TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING", nullptr);
  set_nccl_defaults();
  CHECK(std::getenv("NCCL_MULTI_RANK_GPU_ENABLE") == std::string("1"));
  CHECK(std::getenv("NCCL_MAX_CTAS") == std::string("2"));
  CHECK(std::getenv("NCCL_NVLS_ENABLE") == std::string("2"));
  CHECK(std::getenv("TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING") ==
        std::string("false"));

  ::unsetenv("NCCL_MAX_CTAS");
  ::setenv("AM_RANKS_PER_GPU", "16", 1);
  set_nccl_defaults();
  CHECK(std::getenv("NCCL_MAX_CTAS") == std::string("1"));
}

TEST_CASE("a rank of its own GPU gets none of them") {
  const Environment ranks("AM_RANKS_PER_GPU", nullptr);
  const Environment many("NCCL_MULTI_RANK_GPU_ENABLE", nullptr);
  set_nccl_defaults();
  CHECK(std::getenv("NCCL_MULTI_RANK_GPU_ENABLE") == nullptr);
  CHECK_NOTHROW(require_shared_gpus(22809));
}

TEST_CASE("ranks that share a GPU take an NCCL that can") {
  using Catch::Contains;
  const Environment ranks("AM_RANKS_PER_GPU", "2");
  CHECK_NOTHROW(require_shared_gpus(23007));
  try {
    require_shared_gpus(22809);
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK_THAT(error.what(), Contains("2 ranks per GPU need NCCL 2.30.0") && Contains("2.28.9"));
    CHECK_THAT(error.hint(), Contains("LD_PRELOAD") && Contains("cuda:gloo"));
  }
  ::setenv("AM_RANKS_PER_GPU", "none", 1);
  CHECK_THROWS_WITH(require_shared_gpus(23007), Contains("AM_RANKS_PER_GPU=none"));
}

TEST_CASE("a collective that only its GPU waits for counts as waited for until it is completed") {
  Progress progress;
  const auto first = c10::make_intrusive<FakeObserver>();
  const auto second = c10::make_intrusive<FakeObserver>();
  progress.track(collective(1), first, c10::kCPU);
  progress.track(collective(2), second, c10::kCPU);
  REQUIRE(progress.waiting());
  CHECK(progress.waiting()->collective.sequence == 1);
  first->done = true;
  REQUIRE(progress.waiting());
  CHECK(progress.waiting()->collective.sequence == 2);
  second->broken = true;
  CHECK(progress.state(0).waiting_sequence == 2);
  second->broken = false;
  second->done = true;
  CHECK_FALSE(progress.waiting());
}

TEST_CASE("completed collectives are forgotten although nobody asks for them") {
  Progress progress;
  const auto work = c10::make_intrusive<FakeObserver>();
  work->done = true;
  for (uint64_t i = 1; i <= 1000; ++i) progress.track(collective(i), work, c10::kCPU);
  CHECK(work.use_count() < 100);
}

TEST_CASE("memory of a group of one, or on the host, is ordinary memory") {
  const Group alone;
  const at::Tensor memory = alone.allocate(3, at::TensorOptions(at::kFloat));
  CHECK(memory.numel() == 3);
  CHECK(memory.is_cpu());
}

}  // namespace am::runtime
