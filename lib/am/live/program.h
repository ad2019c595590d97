// Lets am-repl attach to a program that trains with another framework, in the same way as to a job
// of am-run. Programs in C and Python call this class through the C interface am_live.h.
//
//   Program program(world, options, tensors);   // every rank
//   if (program.step(steps)) program.visit(tensors, numbers);
//
// See Note [Visits of programs] in visit_agreement.h.
#pragma once

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "am/live/attach_server.h"
#include "am/live/visit_agreement.h"
#include "am/mesh/layout.h"
#include "am/run_folder/run_lock.h"
#include "am/runtime/world.h"
#include "am/values/program_tensors.h"

namespace am::live {

// Signal and pipe by which the library reads the stack of an interpreter: see
// am_live_options::stack_signal.
struct InterpreterStack {
  int signal = 0;
  int read_fd = -1;
};

struct ProgramOptions {
  std::string run;                     // run folder
  std::string model;                   // name of the model, for titles
  std::string config;                  // see am_live_options::config
  std::filesystem::path model_folder;  // see am_live_options::model_folder
  mesh::MeshSizes mesh;
  int64_t first_step = 0;
  int64_t max_steps = 0;  // 0: unknown
  InterpreterStack stack;
  // Returns the recent collectives as a JSON text, or null: see am_live_options::collectives.
  // Called by another thread. May be empty.
  std::function<const char*()> collectives;
  std::function<void(const std::string& line)> log;  // may be empty
  std::function<bool()> waiting;                     // see am_live_options::waiting; may be empty
  std::function<std::string(pid_t)> stack_of;        // see AttachServerOptions::stack_of
};

// Numbers of the step that has just ended; NaN: unknown.
struct ProgramNumbers {
  double loss = std::numeric_limits<double>::quiet_NaN();
  // If NaN, Program computes the norm of the gradients among the tensors.
  double grad_norm = std::numeric_limits<double>::quiet_NaN();
  double learning_rate = std::numeric_limits<double>::quiet_NaN();
  double step_seconds = std::numeric_limits<double>::quiet_NaN();       // NaN: Program measures it
  double tokens_per_second = std::numeric_limits<double>::quiet_NaN();  // over all ranks
};

class Program {
 public:
  // Collective. Throws Error(kUsage) on all ranks if ProgramTensors::set() refuses the tensors, and
  // Error(kIo) on all ranks if rank 0 cannot use the run folder.
  Program(const runtime::World& world, ProgramOptions options,
          std::vector<values::ProgramTensor> tensors);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program();

  // Works like am_live_step().
  bool step(int64_t steps);
  // Works like am_live_visit(). Collective.
  void visit(std::vector<values::ProgramTensor> tensors, const ProgramNumbers& numbers = {});
  // Sends `last_words` to the clients and disconnects them.
  void close(const std::string& last_words);

 private:
  void propose(int64_t steps);
  void complete(const std::string& what, const Json& question, Json& answer);
  std::vector<std::string> interpreter_frames();

  runtime::World world_;
  ProgramOptions options_;
  pthread_t thread_;  // thread that trains
  values::ProgramTensors tensors_;
  std::optional<run_folder::RunLock> lock_;  // lock of the run folder, on rank 0
  std::shared_ptr<VisitAgreement> agreement_ = std::make_shared<VisitAgreement>();
  std::atomic<bool> proposing_{false};
  // Number of steps from the current step to the step that rank 0 proposes for a visit. Doubled
  // when a rank refuses, because the rank is further ahead; halved when all ranks accept.
  std::atomic<int64_t> margin_{1};
  std::chrono::steady_clock::time_point last_step_{};  // end of the last step, on rank 0
  std::chrono::duration<double> step_time_{1.0};       // duration of the last step, on rank 0
  std::unique_ptr<AttachServer> server_;
};

}  // namespace am::live
