// Part of AttachServer: visit() and hold(), in which all ranks perform the actions that rank 0
// chooses, between two steps.
#include <ATen/ATen.h>

#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/control/frame.h"
#include "am/inspect/attached.h"
#include "am/inspect/messages.h"
#include "am/live/attach_server.h"

namespace am::live {

namespace {

// Largest number of commands that run between two steps while the job is not paused. The limit
// prevents a busy client from stopping the training.
constexpr int64_t kMostCommands = 32;

}  // namespace

bool AttachServer::wants_visit(int64_t steps) {
  if (!server_) return false;
  return server_->is_wanted() || break_.has_value() || (pause_at_ > 0 && steps >= pause_at_) ||
         any_cancelled_ || probe_is_due(steps);
}

AttachServer::Agreed AttachServer::agree(Kind kind, int64_t steps) {
  at::Tensor row = at::zeros({3}, at::kLong);
  auto* values = row.mutable_data_ptr<int64_t>();
  values[0] = world_.rank() == 0 ? static_cast<int64_t>(kind) : 0;
  values[1] = options_.stop_requested && options_.stop_requested() ? 1 : 0;
  values[2] = world_.rank() == 0 ? next_wanted(steps) : 0;
  row = row.to(world_.group().device());
  world_.group().all_reduce(row);
  row = row.cpu();
  values = row.mutable_data_ptr<int64_t>();
  next_visit_ = values[2];
  return {static_cast<Kind>(values[0]), values[1] > 0};
}

// Runs on rank 0. Returns the smallest number of finished steps above `steps` at which
// wants_visit() will return true even if no client sends a request; 0 if there is none.
int64_t AttachServer::next_wanted(int64_t steps) const {
  if (break_) return steps + 1;
  int64_t next = pause_at_ > steps ? pause_at_ : 0;
  for (const Probe& probe : probes_) {
    const int64_t due = probe.next_due(steps);
    if (next == 0 || due < next) next = due;
  }
  return next;
}

bool AttachServer::visit(const train::Boundary& boundary) {
  self_->status.set_phase("between steps");
  if (world_.rank() == 0) arrive(boundary);
  const bool goes_on = serve(boundary);
  self_->status.set_phase(sessions_->model().first_phase());
  return goes_on;
}

void AttachServer::hold(const train::Boundary& boundary, const std::string& reason,
                        std::chrono::minutes patience) {
  self_->status.set_phase("held after a failure");
  if (server_) {
    if (pause_.active()) end_pause(reason, boundary.steps, /*asked=*/false);
    if (stepping_) {
      reply(*stepping_, inspect::failed(control::text_in(stepping_->body, "input"), {},
                                        Error(ErrorKind::kNumeric, reason)));
      stepping_.reset();
    }
    end_watches_if([](const Probe&) { return true; });
    held_until_ = Pause::Clock::now() + patience;
    self_->status.set_paused("a failure");
    const std::string text = cat("held after a failure, for ", patience.count(), " min: ", reason);
    log(text);
    log(cat("am-repl ", run_, " attaches to the step that failed; `continue` ends the job"));
    tell_others(std::nullopt, {{"event", "paused"}, {"text", text}});
  }
  serve(boundary);
  held_until_.reset();
  if (server_) self_->status.set_paused({});
}

bool AttachServer::serve(const train::Boundary& boundary) {
  const bool first = world_.rank() == 0;
  int64_t budget = kMostCommands;
  bool looked = false;
  Agreed agreed{Kind::kWait, false};
  while (agreed.kind != Kind::kGo) {
    Turn turn;
    if (first && server_) turn = next_turn(boundary, budget);
    agreed = agree(turn.kind, boundary.steps);
    if (agreed.stop) {
      if (first && turn.kind != Kind::kGo && turn.kind != Kind::kWait && waits(turn)) {
        const Error stopped(ErrorKind::kUsage, "the job was asked to stop");
        reply(turn.request, inspect::failed({}, {}, stopped));
      }
      if (first && pause_.active()) end_pause("the job was asked to stop", boundary.steps, false);
      break;
    }
    if (agreed.kind == Kind::kCommand) run_command(turn, boundary);
    if (agreed.kind == Kind::kSave) save(turn, boundary);
    if (agreed.kind == Kind::kLearningRate) set_learning_rate(turn, boundary);
    looked = looked || agreed.kind == Kind::kCommand;
  }
  if (looked) sessions_->release();
  return !agreed.stop;
}

void AttachServer::run_command(const Turn& turn, const train::Boundary& boundary) {
  const bool first = world_.rank() == 0;
  std::string text;
  if (first) {
    Json clients = Json::array();
    Json session = Json::object();
    for (const control::ClientInfo& each : server_->clients()) {
      clients.push_back(each.number);
      const auto given = each.hello.find("session");
      const bool asks = each.number == turn.request.client && given != each.hello.end();
      if (asks && given->is_object()) session = *given;
    }
    for (const char* size : {"width", "height"}) {  // size of the client's terminal
      const auto now = turn.request.body.find(size);
      if (now != turn.request.body.end()) session[size] = *now;
    }
    const Json command = {{"client", turn.request.client},
                          {"clients", clients},
                          {"session", session},
                          {"input", turn.probe ? probes_[*turn.probe].input()
                                               : control::text_in(turn.request.body, "input")}};
    text = dump_json(command, -1);
    running_id_ = turn.request.id;
    running_client_ = turn.request.client;
    interrupted_ = !server_->client(turn.request.client).has_value();
  }
  const Json command = Json::parse(world_.group().broadcast_text(text));
  sessions_->keep_only(command.at("clients").get<std::vector<uint64_t>>());
  inspect::SessionOptions options = inspect::requested_session(command.at("session"));
  options.interrupted = [this] { return interrupted_.load(); };
  inspect::Outcome outcome =
      sessions_->execute(command.at("client").get<uint64_t>(), std::move(options),
                         command.at("input").get<std::string>(), boundary.steps);
  running_client_ = 0;
  // Collects the errors of all ranks: the result of rank 0 is valid only if no rank failed.
  const auto errors =
      world_.group().all_gather_text(outcome.error ? cat(" ", outcome.error->message) : "");
  if (!first) return;
  for (size_t rank = 0; rank < errors.size() && !outcome.error; ++rank) {
    if (!errors[rank].empty()) {
      outcome.error = {ErrorKind::kRuntime, cat("rank ", rank, ":", errors[rank]), {}};
    }
  }
  if (turn.probe) return probed(*turn.probe, outcome, boundary);
  if (outcome.command == "unshard" && !stands() && !outcome.error) {
    outcome.result.text +=
        "training continues, so the full tensors are freed again; `pause` first to keep them\n";
  }
  reply(turn.request, outcome);
}

void AttachServer::save(const Turn& turn, const train::Boundary& boundary) {
  const std::string folder = boundary.save().string();
  if (world_.rank() != 0) return;
  inspect::Outcome outcome;
  outcome.input = control::text_in(turn.request.body, "input");
  outcome.command = "save";
  if (folder.empty()) {
    outcome.error = {ErrorKind::kNumeric, "the state is not finite: no checkpoint is written", {}};
  } else {
    outcome.result.json = {{"step", boundary.steps}, {"checkpoint", folder}};
    outcome.result.text = cat(folder, "\n");
    log(cat("saved ", folder, " as asked"));
  }
  reply(turn.request, outcome);
}

void AttachServer::set_learning_rate(const Turn& turn, const train::Boundary& boundary) {
  const Json value = turn.learning_rate;
  const double lr = Json::parse(world_.group().broadcast_text(dump_json(value, -1))).get<double>();
  const double before = sessions_->model().set_learning_rate(lr);
  if (world_.rank() != 0) return;
  const auto who = server_->client(turn.request.client);
  const std::string text =
      cat("optimizer.lr ", lr, " instead of ", before, " after step ", boundary.steps);
  log(cat(text, ", by ", who ? describe(*who) : "a client that has left"));
  inspect::Outcome outcome;
  outcome.input = control::text_in(turn.request.body, "input");
  outcome.command = "set";
  outcome.result.json = {{"key", "optimizer.lr"}, {"value", lr}, {"step", boundary.steps}};
  outcome.result.text = cat(text, "\n");
  reply(turn.request, outcome);
}

}  // namespace am::live
