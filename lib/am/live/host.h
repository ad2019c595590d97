// A job that can be attached to: whoever comes is served between two steps, on all ranks at once.
//
//   Host host(world, run, options);         // every rank; rank 0 listens
//   train::Trainer trainer(...);
//   host.open(trainer, run);
//   trainer.run(stop, &host);               // see Note [Visits], train/guest.h
//   host.close("finished at step 20");
//
// Rank 0 has the socket (control/server.h) and decides what all do next; the others follow. In a
// visit it says so turn by turn: wait, run this command, save, go on. While nobody is attached, a
// step costs rank 0 a few atomic reads, and each rank a note of its collectives. Questions about
// ranks that hang are answered by other threads (helpers.h).
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
#include "am/live/helpers.h"
#include "am/live/pause.h"
#include "am/live/probe.h"
#include "am/live/rank_self.h"
#include "am/live/sessions.h"
#include "am/live/stack_probe.h"
#include "am/run_folder/run_folder.h"
#include "am/runtime/world.h"
#include "am/train/guest.h"
#include "am/train/trainer.h"

namespace am::live {

struct HostOptions {
  std::function<void(const std::string& line)> log;  // on rank 0, for people
  const launch::StopSignal* stop = nullptr;          // ends a pause too; may be null
  PauseLimits pause;
  std::optional<control::TcpAddress> tcp;  // whoever knows the job's token may attach there too
};

// "am-repl 0.1.0, process 4711 of user 1000"; "am-repl 0.1.0, from 10.1.2.3:50412"
std::string describe(const control::ClientInfo& who);
// How answers for it are drawn.
term::Style style_of(const control::ClientInfo& who);

class Host : public train::Guest {
 public:
  // Where there is no place for a socket, nobody can attach, and the log says why.
  Host(const runtime::World& world, const run_folder::RunFolder& run, HostOptions options);
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;
  ~Host() override;

  // The trainer outlives the visits.
  void open(train::Trainer& trainer);
  // On every rank, as the trainer's callbacks say it.
  void phase_over(const char* phase) { self_->status.phase_over(phase); }
  void stepped(const observe::StepMetrics& metrics) { self_->status.stepped(metrics); }
  // The job ends: everybody is told so.
  void close(const std::string& last_words);

  bool wants_visit(int64_t steps) override;
  bool visit(const train::Boundary& boundary) override;

 private:
  enum class Kind : int64_t { kGo, kWait, kCommand, kSave, kLearningRate };
  // What all ranks do next.
  struct Turn {
    Kind kind = Kind::kGo;
    control::Request request;
    double learning_rate = 0.0;   // of kLearningRate
    std::optional<size_t> probe;  // of kCommand: which one asks
  };

  // Of the listener's thread.
  Json welcome(const control::ClientInfo& who) const;
  bool at_once(const control::ClientInfo& who, const control::Request& request);
  bool cancel(const control::ClientInfo& who, const Json& id);
  inspect::Result tell_status(const term::Style& style) const;
  void ask_ranks(const control::Request& request, const std::string& input,
                 const term::Style& style);

  // Of rank 0's training thread.
  Turn next_turn(const train::Boundary& boundary, int64_t& budget);
  std::optional<Turn> turn_of(const control::Request& request, const train::Boundary& boundary);
  void arrive(const train::Boundary& boundary);
  void answer_step(const train::Boundary& boundary);
  std::set<std::pair<uint64_t, int64_t>> take_cancelled();
  void begin_pause(uint64_t client, int64_t steps);
  // `asked`: by the owner, who need not be told.
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
  // Answers it with what it saw.
  void end_watch(const Probe& probe);
  void end_watches_if(const std::function<bool(const Probe&)>& over);

  void reply(const control::Request& request, const inspect::Outcome& outcome);
  void log(const std::string& line) const;

  // Of every rank.
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
  std::shared_ptr<RankSelf> self_;
  StackProbe probe_;
  std::unique_ptr<Helpers> helpers_;
  std::unique_ptr<Sessions> sessions_;            // null until open()
  std::unique_ptr<control::ControlPlace> place_;  // of rank 0, and only where one was found
  std::unique_ptr<control::Server> server_;

  mutable std::mutex mutex_;  // of facts_ and cancelled_
  Json facts_ = Json::object();

  // The command that runs, for whoever takes it back.
  std::atomic<uint64_t> running_client_{0};
  std::atomic<int64_t> running_id_{0};
  std::atomic<bool> interrupted_{false};
  // What was taken back and is not in the queue any more, client and request: a `step` or a `watch`
  // may be under way.
  std::set<std::pair<uint64_t, int64_t>> cancelled_;  // under mutex_
  std::atomic<bool> any_cancelled_{false};
  std::atomic<int64_t> alive_{0};  // when the pause's owner showed a sign of life, in clock ticks
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
