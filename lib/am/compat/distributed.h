// What torch.distributed and os.environ keep in globals, as a value: whether this rank has joined a
// job, and the environment variables that say which rank it is.
//
// The functions that OLMo-core's and NeMo AutoModel's users know take it as their first argument:
// distributed_utils.h, init_utils.h, utils.h, first_rank_per_node.h. Several can live in one
// process, so a test can hold a whole job.
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
  // `log` receives what the Python libraries log or print; absent: nobody.
  explicit Distributed(Variables variables = Variables::process(), Log log = {});
  Distributed(const Distributed&) = delete;
  Distributed& operator=(const Distributed&) = delete;
  ~Distributed();  // destroy_global_state

  Variables& variables() { return variables_; }
  const Variables& variables() const { return variables_; }
  void log(LogLevel level, const std::string& message) const;

  // Ranks of one process meet in this store instead of connecting to MASTER_ADDR:MASTER_PORT.
  void meet_in(c10::intrusive_ptr<c10d::Store> store) { store_ = std::move(store); }

  bool is_initialized() const { return world_.has_value(); }
  // Only while initialized.
  const runtime::World& world() const;

  // Which rank the variables make this process; nothing when they name no launcher. Throws
  // Error(kUsage) for variables that are wrong or missing.
  std::optional<launch::RankEnvironment> detect() const;

  // Collective: joins the job of the variables; where Slurm's or MPI's describe it, sets torchrun's
  // beside them. Throws Error(kUsage) for variables that are wrong or
  // missing, otherwise as World::connect.
  void join(const runtime::WorldOptions& options);
  // The same as this rank, whatever the variables say.
  void join(const launch::RankEnvironment& here, const runtime::WorldOptions& options);
  // Joins a world that the caller has made.
  void join(runtime::World world);
  // Runs the hooks and leaves the job; nothing when it is not joined and no hook is left.
  void leave();
  // Called before the connections are closed, newest first, once; whether they throw or not. An
  // expert-parallel buffer is freed in one.
  void before_leaving(std::string what, std::function<void()> hook);

 private:
  void export_variables(const launch::RankEnvironment& here);

  Variables variables_;
  Log log_;
  c10::intrusive_ptr<c10d::Store> store_;  // outlives the job: rank 0 may be its server
  int64_t joins_ = 0;
  std::optional<runtime::World> world_;
  std::vector<std::pair<std::string, std::function<void()>>> hooks_;
};

// The environment's number; absent or empty: `otherwise`. Throws Error(kUsage) that names the
// variable when it is no whole number.
int64_t integer_variable(const Variables& variables, const std::string& name, int64_t otherwise);

// The group, or all ranks of an initialized job.
const runtime::Group& group_or_world(const Distributed& distributed, const runtime::Group* group);

}  // namespace am::compat
