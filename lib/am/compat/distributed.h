// A Distributed object replaces the global state of torch.distributed and os.environ. It records
// whether this rank has joined a job, and holds the environment variables that identify the rank.
//
// The functions with names from OLMo-core and NeMo AutoModel take a Distributed as their first
// argument: distributed_utils.h, init_utils.h, utils.h, first_rank_per_node.h. Several objects can
// exist in one process, so that a test can run all ranks of a job as threads.
//
//   Distributed dist;
//   initialize_distributed(dist, "gloo");
//   if (get_rank(dist) == 0) ...
//   destroy_global_state(dist);               // also done by the destructor, and at exit
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

#include "am/compat/variables.h"
#include "am/runtime/group.h"
#include "am/runtime/world.h"

namespace am::compat {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
using Log = std::function<void(LogLevel level, const std::string& message)>;

class Distributed {
 public:
  // `log` receives the messages that OLMo-core and AutoModel would log or print. If `log` is empty,
  // the messages are dropped.
  explicit Distributed(Variables variables = Variables::process(), Log log = {});
  Distributed(const Distributed&) = delete;
  Distributed& operator=(const Distributed&) = delete;
  ~Distributed();  // calls leave()

  Variables& variables() { return variables_; }
  const Variables& variables() const { return variables_; }
  void log(LogLevel level, const std::string& message) const;

  // Sets the store in which join() finds the other ranks, for ranks that share one process. Without
  // this call, join() connects to a store at MASTER_ADDR:MASTER_PORT.
  void meet_in(c10::intrusive_ptr<c10d::Store> store) { store_ = std::move(store); }

  bool is_initialized() const { return world_.has_value(); }
  // Returns the joined job's world. Requires is_initialized().
  const runtime::World& world() const;

  // Returns this rank's environment according to the variables; nullopt if no launcher has set
  // variables. Throws Error(kUsage) for wrong or missing variables.
  std::optional<launch::RankEnvironment> detect() const;

  // Joins the job that the launcher's variables describe; without such variables, a job of this
  // process only. If Slurm, MPI or Flux has set the variables, also sets torchrun's variables.
  // Throws Error(kUsage) for wrong or missing variables, and the errors of World::connect().
  // Collective.
  void join(const runtime::WorldOptions& options);
  // Joins as the rank that `here` describes, and ignores the launcher's variables (RANK, WORLD_SIZE
  // and others). Collective.
  void join(const launch::RankEnvironment& here, const runtime::WorldOptions& options);
  // Joins an existing world.
  void join(runtime::World world);
  // Calls the hooks of before_leaving() and leaves the job. Does nothing if no job is joined and no
  // hooks are registered.
  void leave();
  // Registers a hook that leave() calls once, before it closes the connections: for example, to
  // free an expert-parallel buffer. leave() calls the newest hook first, and calls every hook even
  // if another hook throws. `what` names the hook in the warning about its failure.
  void before_leaving(std::string what, std::function<void()> hook);

 private:
  void export_variables(const launch::RankEnvironment& here);

  Variables variables_;
  Log log_;
  c10::intrusive_ptr<c10d::Store> store_;  // kept after leave(), for later joins
  int64_t joins_ = 0;                      // number of jobs that were joined through store_
  std::optional<runtime::World> world_;
  std::vector<std::pair<std::string, std::function<void()>>> hooks_;  // names and hooks
};

// Returns a variable's integer value, or `otherwise` if the variable is missing or empty. Throws
// Error(kUsage), which names the variable, if the value is not an integer.
int64_t integer_variable(const Variables& variables, const std::string& name, int64_t otherwise);

// Returns `group` or, if `group` is null, the group of all ranks of the joined job.
const runtime::Group& group_or_world(const Distributed& distributed, const runtime::Group* group);

}  // namespace am::compat
