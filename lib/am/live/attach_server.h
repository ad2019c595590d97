// Lets clients attach to a running job. The commands of clients run between two steps, on all ranks
// together.
//
//   AttachServer server(world, run, options);   // every rank; rank 0 listens
//   train::Trainer trainer(job, world, run, {});
//   server.open(model_of(trainer, run.root()));
//   trainer.run(stop, &server);                 // see Note [Visits], train/inspection_hook.h
//   server.close("finished at step 20");
//
// Rank 0 owns the socket (control/server.h) and decides what all ranks do next. A visit is a time
// between two steps in which commands run. During a visit, rank 0 chooses one action after another,
// which all ranks then perform: wait, run a command, save, set the learning rate, or continue
// training. Turn stores one action.
//
// While no client is attached, a step costs a few atomic reads on rank 0, and each rank records its
// collectives. Other threads (rank_agents.h) report on ranks that hang.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "am/control/place.h"
#include "am/control/server.h"
#include "am/inspect/command.h"
#include "am/live/attached_model.h"
#include "am/live/condition.h"
#include "am/live/pause.h"
#include "am/live/probe.h"
#include "am/live/rank_agents.h"
#include "am/live/rank_status.h"
#include "am/live/sessions.h"
#include "am/live/stack_probe.h"
#include "am/live/state_dumps.h"
#include "am/mesh/layout.h"
#include "am/run_folder/run_folder.h"
#include "am/runtime/world.h"
#include "am/train/inspection_hook.h"

namespace am::live {

struct AttachServerOptions {
  std::function<void(const std::string& line)> log;  // called on rank 0 with lines for the user
  // Returns whether this rank was asked to stop. A request to stop also ends a pause. Called by the
  // training thread during visits, several times a second while the job is paused. May be empty.
  std::function<bool()> stop_requested;
  PauseLimits pause;
  RankStatus::Complete complete;       // see RankStatus::set_complete; may be empty
  std::function<void()> agents_ended;  // see RankAgents; may be empty
  // Returns the stack of another process on this machine, one frame per line, innermost first, or
  // an empty text. Called, by another thread, for processes that are stopped and therefore cannot
  // write their own stacks. May be empty.
  std::function<std::string(pid_t process)> stack_of;
  // Time between two files in the folder `states` of the run folder (state_dumps.h); 0: no files
  // are written.
  std::chrono::duration<double> dump_interval{0.0};
  // Mesh by which commands select ranks, for example `tp=0`. Absent: all ranks are data-parallel
  // replicas.
  std::optional<mesh::MeshLayout> mesh;
  std::optional<control::TcpAddress> tcp;  // address at which clients with the job's token attach
};

// Returns a description of a client for the user, for example "am-repl 0.1.0, process 4711 of user
// 1000" or "am-repl 0.1.0, from 10.1.2.3:50412".
std::string describe(const control::ClientInfo& who);
// Returns the style for the text of answers to this client.
term::Style style_of(const control::ClientInfo& who);

class AttachServer : public train::InspectionHook {
 public:
  // Creates the socket on rank 0. If the creation fails, logs the reason; clients then cannot
  // attach.
  AttachServer(const runtime::World& world, const run_folder::RunFolder& run,
               AttachServerOptions options);
  AttachServer(const AttachServer&) = delete;
  AttachServer& operator=(const AttachServer&) = delete;
  ~AttachServer() override;

  // Begins to serve clients, whose commands run on `model`. Collective.
  void open(std::unique_ptr<AttachedModel> model);
  // Must be called from the callbacks of the trainer: phase_over() on every rank from
  // TrainerCallbacks::phase, and stepped() on rank 0 from TrainerCallbacks::step.
  void phase_over(const char* phase) { self_->status.phase_over(phase); }
  void stepped(const observe::StepMetrics& metrics) { self_->status.stepped(metrics); }
  // Must be called on every rank, from TrainerCallbacks::times.
  void timed(const observe::RankTimes& times, int64_t steps) {
    self_->times.add(times, steps, RecentTimes::Clock::now());
  }
  // Sends `last_words` to all clients and disconnects them.
  void close(const std::string& last_words);

  // Sets the number of finished steps, for a job that does not call stepped() after every step.
  void set_step(int64_t steps) { self_->status.set_step(steps); }
  // On rank 0: requests reports from all ranks, as RankAgents::ask() does, even if many requests
  // are queued.
  void ask_all(const Json& question, std::function<void(const Answers&)> use) {
    helpers_->ask(question, std::nullopt, std::move(use), /*urgent=*/true);
  }
  // Returns the next number of finished steps at which all ranks must visit even if no client sends
  // a further request; 0: none. The last visit has computed the number, which is equal on all
  // ranks.
  int64_t next_visit() const { return next_visit_; }

  bool wants_visit(int64_t steps) override;
  bool visit(const train::Boundary& boundary) override;
  void hold(const train::Boundary& boundary, const std::string& reason,
            std::chrono::minutes patience) override;

 private:
  enum class Kind : int64_t { kGo, kWait, kCommand, kSave, kLearningRate };
  // The action that all ranks perform next, between two steps of the training.
  struct Turn {
    Kind kind = Kind::kGo;
    control::Request request;     // request of the client that caused the action
    double learning_rate = 0.0;   // value to set, for kLearningRate
    std::optional<size_t> probe;  // index in probes_, if a `watch` or `tripwire` caused kCommand
  };

  // The next functions run on the thread that listens to clients, unless noted otherwise.
  Json welcome(const control::ClientInfo& who) const;
  bool at_once(const control::ClientInfo& who, const control::Request& request);
  bool cancel(const control::ClientInfo& who, const Json& id);
  inspect::Result tell_status(const term::Style& style) const;
  // Runs on the thread of RankAgents.
  void add_stopped(Answers& answers) const;
  // Calls `use` with the answers of the commands `ranks`, `collectives` and `stack all`. Runs on
  // the thread of StateDumps.
  void report_ranks(const std::function<void(const std::string& text)>& use);
  void ask_ranks(const control::Request& request, const std::string& input,
                 const term::Style& style);

  // The next functions run on rank 0's training thread, between two steps.
  Turn next_turn(const train::Boundary& boundary, int64_t& budget);
  std::optional<Turn> turn_of(const control::Request& request, const train::Boundary& boundary);
  void arrive(const train::Boundary& boundary);
  void answer_step(const train::Boundary& boundary);
  std::set<std::pair<uint64_t, int64_t>> take_cancelled();
  void begin_pause(uint64_t client, int64_t steps);
  // Ends the pause, and sends a message about the end to the clients. If `asked` is true, the owner
  // of the pause has requested the end, and receives no message.
  void end_pause(const std::string& why, int64_t steps, bool asked);
  void tell_others(std::optional<uint64_t> but, const Json& event);
  void require_mine(uint64_t client) const;
  inspect::Result perform(const inspect::Command& command, const inspect::Arguments& arguments,
                          const control::Request& request, const train::Boundary& boundary);
  inspect::Result step_on(const inspect::Arguments& arguments, const control::Request& request,
                          int64_t steps);
  inspect::Result set_break(const inspect::Arguments& arguments, uint64_t client);
  // The next functions are implemented in probing.cpp, except for next_wanted().
  int64_t next_wanted(int64_t steps) const;
  bool probe_is_due(int64_t steps) const;
  bool waits(const Turn& turn) const;
  std::optional<Turn> next_probe(const train::Boundary& boundary);
  inspect::Result set_tripwire(const inspect::Arguments& arguments, const control::Request& request,
                               bool& later);
  void start_watch(const inspect::Arguments& arguments, const control::Request& request);
  void probe_failed(const Probe& probe, inspect::Outcome outcome);
  void probed(size_t index, const inspect::Outcome& outcome, const train::Boundary& boundary);
  // Answers the request of a `watch` command with the samples that its probe has collected.
  // `failure` is the message of the error that ended the watch; empty if no error occurred.
  void end_watch(const Probe& probe, const std::string& failure = {});
  void end_watches_if(const std::function<bool(const Probe&)>& over);

  // Adds the title of the session, with the current step, to a message. Does nothing before open().
  void add_title(Json& message) const;
  void reply(const control::Request& request, const inspect::Outcome& outcome);
  void log(const std::string& line) const;

  // Returns whether the ranks wait for commands, because a client has paused the job or hold() runs
  // after a failure.
  bool stands() const { return pause_.active() || held_until_; }
  // Throws Error(kUsage) if hold() runs, because no further step runs then.
  void require_running(std::string_view command) const;

  // The next functions run on every rank.

  // Performs the actions that rank 0 chooses, until rank 0 chooses to continue (returns true) or a
  // rank is asked to stop (returns false).
  bool serve(const train::Boundary& boundary);
  struct Agreed {
    Kind kind;  // the action that rank 0 chose
    bool stop;  // whether any rank was asked to stop
  };
  Agreed agree(Kind kind, int64_t steps);
  void run_command(const Turn& turn, const train::Boundary& boundary);
  void save(const Turn& turn, const train::Boundary& boundary);
  void set_learning_rate(const Turn& turn, const train::Boundary& boundary);

  runtime::World world_;
  AttachServerOptions options_;
  mesh::MeshLayout mesh_;
  std::string run_;
  std::shared_ptr<RankStatus> self_;
  StackProbe probe_;
  std::unique_ptr<RankAgents> helpers_;
  std::unique_ptr<StateDumps> dumps_;   // only on rank 0; null without dump_interval
  std::unique_ptr<Sessions> sessions_;  // null before open()
  std::unique_ptr<control::ControlPlace>
      place_;  // only on rank 0; null if no socket could be created
  std::unique_ptr<control::Server> server_;

  mutable std::mutex mutex_;  // guards facts_ and cancelled_
  Json facts_ =
      Json::object();  // result of Sessions::facts(), sent to new clients; {} before open()

  // Client and request id of the running command, so that cancel() can interrupt the command.
  std::atomic<uint64_t> running_client_{0};
  std::atomic<int64_t> running_id_{0};
  std::atomic<bool> interrupted_{false};
  // Clients and ids of cancelled requests that are no longer queued and run no command at present,
  // for example of a `step N` or a `watch` that waits for further steps. Guarded by mutex_.
  std::set<std::pair<uint64_t, int64_t>> cancelled_;
  std::atomic<bool> any_cancelled_{false};
  // Time of the last keep-alive message from the owner of the pause, in ticks of Pause::Clock.
  std::atomic<int64_t> alive_{0};
  std::atomic<uint64_t> owner_{0};  // client that owns the pause; 0 without a pause

  Pause pause_;
  std::optional<Pause::Clock::time_point> held_until_;  // latest end of hold(); only on rank 0
  std::optional<control::Request> stepping_;            // request `step N` that has no answer yet
  int64_t next_visit_ = 0;                              // see next_visit()
  int64_t pause_at_ = 0;  // number of finished steps at which `step N` ends; 0: no `step`
  struct Break {
    uint64_t client;
    Condition when;
  };
  std::optional<Break> break_;
  std::vector<Probe> probes_;
};

}  // namespace am::live
