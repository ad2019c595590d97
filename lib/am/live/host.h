// A job that clients can attach to. Their commands run between two steps, on all ranks together.
//
//   Host host(world, run, options);         // every rank; rank 0 listens
//   train::Trainer trainer(job, world, run, {});
//   host.open(trainer);
//   trainer.run(stop, &host);               // see Note [Visits], train/inspection_hook.h
//   host.close("finished at step 20");
//
// Rank 0 owns the socket (control/server.h) and decides what all ranks do next; the other ranks
// follow. During a visit it broadcasts one turn after another: wait, run this command, save,
// continue. While no client is attached, a step costs a few atomic reads on rank 0, and a record of
// the collectives on each rank. Other threads answer questions about ranks that hang
// (rank_agents.h).
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "am/control/place.h"
#include "am/control/server.h"
#include "am/inspect/command.h"
#include "am/launch/supervise/stop_signal.h"
#include "am/live/condition.h"
#include "am/live/pause.h"
#include "am/live/probe.h"
#include "am/live/rank_agents.h"
#include "am/live/rank_status.h"
#include "am/live/sessions.h"
#include "am/live/stack_probe.h"
#include "am/run_folder/run_folder.h"
#include "am/runtime/world.h"
#include "am/train/inspection_hook.h"
#include "am/train/trainer.h"

namespace am::live {

struct HostOptions {
  std::function<void(const std::string& line)> log;  // on rank 0, for people
  const launch::StopSignal* stop = nullptr;          // also ends a pause; may be null
  PauseLimits pause;
  std::optional<control::TcpAddress> tcp;  // address for clients that have the job's token
};

// "am-repl 0.1.0, process 4711 of user 1000"; "am-repl 0.1.0, from 10.1.2.3:50412"
std::string describe(const control::ClientInfo& who);
// Returns the style in which answers to this client are drawn.
term::Style style_of(const control::ClientInfo& who);

class Host : public train::InspectionHook {
 public:
  // If no socket can be created, no client can attach, and the reason is logged.
  Host(const runtime::World& world, const run_folder::RunFolder& run, HostOptions options);
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;
  ~Host() override;

  // The trainer must outlive all visits.
  void open(train::Trainer& trainer);
  // On every rank, called from the trainer's callbacks.
  void phase_over(const char* phase) { self_->status.phase_over(phase); }
  void stepped(const observe::StepMetrics& metrics) { self_->status.stepped(metrics); }
  // Ends the job's service and informs all clients.
  void close(const std::string& last_words);

  bool wants_visit(int64_t steps) override;
  bool visit(const train::Boundary& boundary) override;

 private:
  enum class Kind : int64_t { kGo, kWait, kCommand, kSave, kLearningRate };
  // The next action of all ranks.
  struct Turn {
    Kind kind = Kind::kGo;
    control::Request request;
    double learning_rate = 0.0;   // for kLearningRate
    std::optional<size_t> probe;  // for kCommand: the probe that asks
  };

  // Called on the listener's thread.
  Json welcome(const control::ClientInfo& who) const;
  bool at_once(const control::ClientInfo& who, const control::Request& request);
  bool cancel(const control::ClientInfo& who, const Json& id);
  inspect::Result tell_status(const term::Style& style) const;
  void ask_ranks(const control::Request& request, const std::string& input,
                 const term::Style& style);

  // Called on rank 0's training thread.
  Turn next_turn(const train::Boundary& boundary, int64_t& budget);
  std::optional<Turn> turn_of(const control::Request& request, const train::Boundary& boundary);
  void arrive(const train::Boundary& boundary);
  void answer_step(const train::Boundary& boundary);
  std::set<std::pair<uint64_t, int64_t>> take_cancelled();
  void begin_pause(uint64_t client, int64_t steps);
  // `asked`: the owner requested the end and need not be informed.
  void end_pause(const std::string& why, int64_t steps, bool asked);
  void tell_others(std::optional<uint64_t> but, const Json& event);
  void require_mine(uint64_t client) const;
  inspect::Result perform(const inspect::Command& command, const inspect::Arguments& arguments,
                          const control::Request& request, const train::Boundary& boundary);
  inspect::Result step_on(const inspect::Arguments& arguments, const control::Request& request,
                          int64_t steps);
  inspect::Result set_break(const inspect::Arguments& arguments, uint64_t client);
  // probing.cpp
  bool probe_is_due(int64_t steps) const;
  bool waits(const Turn& turn) const;
  std::optional<Turn> next_probe(const train::Boundary& boundary);
  inspect::Result set_tripwire(const inspect::Arguments& arguments, const control::Request& request,
                               bool& later);
  void start_watch(const inspect::Arguments& arguments, const control::Request& request);
  void probe_failed(const Probe& probe, inspect::Outcome outcome);
  void probed(size_t index, const inspect::Outcome& outcome, const train::Boundary& boundary);
  // Replies to the watch's request with its samples.
  void end_watch(const Probe& probe);
  void end_watches_if(const std::function<bool(const Probe&)>& over);

  void reply(const control::Request& request, const inspect::Outcome& outcome);
  void log(const std::string& line) const;

  // Called on every rank.
  struct Agreed {
    Kind kind;
    bool stop;
  };
  Agreed agree(Kind kind) const;
  void run_command(const Turn& turn, const train::Boundary& boundary);
  void save(const Turn& turn, const train::Boundary& boundary);
  void set_learning_rate(const Turn& turn, const train::Boundary& boundary);

  runtime::World world_;
  HostOptions options_;
  std::string run_;
  std::shared_ptr<RankStatus> self_;
  StackProbe probe_;
  std::unique_ptr<RankAgents> helpers_;
  std::unique_ptr<Sessions> sessions_;            // null until open()
  std::unique_ptr<control::ControlPlace> place_;  // on rank 0; null if no socket could be created
  std::unique_ptr<control::Server> server_;

  mutable std::mutex mutex_;  // guards facts_ and cancelled_
  Json facts_ = Json::object();

  // The running command, for cancel().
  std::atomic<uint64_t> running_client_{0};
  std::atomic<int64_t> running_id_{0};
  std::atomic<bool> interrupted_{false};
  // Requests (client and id) that were cancelled when they were no longer in the queue: a `step` or
  // a `watch` may be in progress.
  std::set<std::pair<uint64_t, int64_t>> cancelled_;  // under mutex_
  std::atomic<bool> any_cancelled_{false};
  std::atomic<int64_t> alive_{0};  // last sign of life of the pause's owner, in clock ticks
  std::atomic<uint64_t> owner_{0};

  Pause pause_;
  std::optional<control::Request> stepping_;  // `step N` that has not been answered
  int64_t pause_at_ = 0;                      // finished steps; 0: none
  struct Break {
    uint64_t client;
    Condition when;
  };
  std::optional<Break> break_;
  std::vector<Probe> probes_;
};

}  // namespace am::live
