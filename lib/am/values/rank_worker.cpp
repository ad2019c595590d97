#include "am/values/rank_worker.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <iostream>

#include "am/base/error.h"
#include "am/base/first_line.h"
#include "am/base/text.h"
#include "am/inspect/interpreter.h"
#include "am/inspect/messages.h"
#include "am/inspect/worker_setup.h"
#include "am/job/job.h"
#include "am/launch/environment/environment.h"
#include "am/launch/supervise/signal_thread.h"
#include "am/parallel/parallel_model.h"
#include "am/runtime/engine_plugin.h"
#include "am/runtime/world.h"
#include "am/values/sharded_view.h"

namespace am::values {
namespace {

// Timeout of a rank in one collective.
constexpr auto kTimeout = std::chrono::minutes(10);

// Global, because the signal handler that sets the flag has no other access to it.
std::atomic<bool> interrupt_requested{false};

void on_interrupt(int) { interrupt_requested = true; }

// Returns the session for this rank of the plan. The session's view copies the plan, so the session
// may outlive `job`.
Session open_session(const inspect::WorkerSetup& setup) {
  Diagnostics found;
  const auto here = launch::detect_environment(launch::process_environment(), found);
  if (!here) throw Error(ErrorKind::kInternal, "a worker was started without a rank's variables");
  const auto job = job::open_job({.file = setup.plan,
                                  .overrides = setup.overrides,
                                  .world_size = here->world_size,
                                  .plugins = setup.plugins,
                                  .why_no_cuda = &runtime::why_no_cuda,
                                  .purpose = job::Purpose::kInspection},
                                 found);
  if (!job) {
    throw Error(ErrorKind::kPlan,
                cat(setup.plan.string(), ": the plan was changed while ranks started"));
  }
  const runtime::World world = runtime::World::connect(
      *here, {.timeout = kTimeout, .backend = parallel::backend_of(job->plan)});
  auto view = std::make_unique<ShardedView>(*job, world);
  SessionOptions options = setup.session;
  options.interrupted = [] { return interrupt_requested.load(); };
  return session_of(std::move(view), options);
}

Json ready_message(const Session& session) {
  const inspect::SessionFacts facts = inspect::facts_of(session);
  return {{"title", facts.title},
          {"parameters", facts.parameters},
          {"modules", facts.modules},
          {"note", facts.note}};
}

int serve(int socket) {
  const auto setup = inspect::receive_message(socket);
  if (!setup) return 0;
  Session session = open_session(inspect::worker_setup(*setup));
  const bool first = session.view().rank() == 0;
  inspect::send_message(socket, first ? ready_message(session) : Json::object());
  while (const auto request = inspect::receive_message(socket)) {
    interrupt_requested = false;
    session.set_window(request->at("width").get<int>(), request->at("height").get<int>());
    inspect::Outcome outcome = inspect::execute(session, request->at("input").get<std::string>());
    if (!first) outcome.result = {};  // am-repl shows the result of rank 0
    if (!inspect::send_message(socket, pack(outcome))) break;
  }
  return 0;
}

}  // namespace

int run_rank_worker(int socket) {
  const launch::SignalThread signals;
  launch::set_signal_handler(SIGINT, on_interrupt);
  inspect::Outcome failed;
  try {
    return serve(socket);
  } catch (const Error& error) {
    failed.error = {error.kind(), error.what(), error.hint()};
  } catch (const std::exception& error) {
    failed.error = {ErrorKind::kInternal, first_line(error), {}};
  }
  std::cerr << failed.error->message << "\n";  // written to the log of this rank
  try {
    inspect::send_message(socket, pack(failed));
  } catch (const Error&) {
    // The socket failed, so the error is only in the log of this rank.
  }
  return Error(failed.error->kind, failed.error->message).exit_status();
}

}  // namespace am::values
