// The global state of torch.distributed and os.environ as an object: whether this rank has joined a
// job, and the environment variables that identify the rank.
//
// The functions with names from OLMo-core and NeMo AutoModel take a Distributed as their first
// argument: distributed_utils.h, init_utils.h, utils.h, first_rank_per_node.h. Several objects can
// exist in one process, so that a test can run a whole job.
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
  // `log` receives the messages that the Python libraries log or print; empty: they are dropped.
  explicit Distributed(Variables variables = Variables::process(), Log log = {});
  Distributed(const Distributed&) = delete;
  Distributed& operator=(const Distributed&) = delete;
  ~Distributed();  // destroy_global_state

  Variables& variables() { return variables_; }
  const Variables& variables() const { return variables_; }
  void log(LogLevel level, const std::string& message) const;

  // Makes ranks of one process meet in this store instead of connecting to MASTER_ADDR:MASTER_PORT.
  void meet_in(c10::intrusive_ptr<c10d::Store> store) { store_ = std::move(store); }

  bool is_initialized() const { return world_.has_value(); }
  // Requires is_initialized().
  const runtime::World& world() const;

  // Returns this process's rank according to the variables; nothing if they indicate no launcher.
  // Throws Error(kUsage) for wrong or missing variables.
  std::optional<launch::RankEnvironment> detect() const;

  // Collective: joins the job that the variables describe; for Slurm's or MPI's variables, also
  // sets torchrun's. Throws Error(kUsage) for wrong or missing variables, otherwise what
  // World::connect throws.
  void join(const runtime::WorldOptions& options);
  // Joins as the given rank, whatever the variables say.
  void join(const launch::RankEnvironment& here, const runtime::WorldOptions& options);
  // Joins an existing world.
  void join(runtime::World world);
  // Runs the hooks and leaves the job; does nothing if no job is joined and no hooks are
  // registered.
  void leave();
  // Registers a hook that is called once before the connections are closed, newest first, even if
  // other hooks throw. Used, for example, to free an expert-parallel buffer.
  void before_leaving(std::string what, std::function<void()> hook);

 private:
  void export_variables(const launch::RankEnvironment& here);

  Variables variables_;
  Log log_;
  c10::intrusive_ptr<c10d::Store> store_;  // must outlive the job, since rank 0 may be its server
  int64_t joins_ = 0;
  std::optional<runtime::World> world_;
  std::vector<std::pair<std::string, std::function<void()>>> hooks_;
};

// Returns a variable's integer value; `otherwise` if it is missing or empty. Throws Error(kUsage)
// naming the variable if it is not an integer.
int64_t integer_variable(const Variables& variables, const std::string& name, int64_t otherwise);

// Returns the group, or all ranks of a joined job if it is null.
const runtime::Group& group_or_world(const Distributed& distributed, const runtime::Group* group);

}  // namespace am::compat
