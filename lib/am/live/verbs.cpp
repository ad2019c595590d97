// Part of AttachServer: commands that control a job (pause, step, continue, break, save, and set
// for the learning rate). They run on rank 0's training thread, between two steps.
#include <cmath>
#include <string_view>
#include <utility>

#include "am/base/error.h"
#include "am/base/number.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/control/frame.h"
#include "am/inspect/messages.h"
#include "am/inspect/training_answers.h"
#include "am/inspect/words.h"
#include "am/live/attach_server.h"

namespace am::live {

namespace {

using inspect::Arguments;
using inspect::Command;
using inspect::Result;

bool may_write(const std::optional<control::ClientInfo>& who) {
  if (!who) return false;
  const auto write = who->hello.find("write");
  return write != who->hello.end() && write->is_boolean() && write->get<bool>();
}

void require_write(const std::optional<control::ClientInfo>& who, const Command& command,
                   const std::string& run) {
  if (may_write(who)) return;
  throw Error(ErrorKind::kUsage,
              cat("`", command.name,
                  "` changes the job or writes files, which needs --write: nothing was done"),
              cat("am-repl ", run, " --write"));
}

bool holds(const Condition& when, const observe::StepMetrics& metrics) {
  return when.holds([&](std::string_view name) { return step_number(metrics, name); });
}

constexpr std::string_view kLearningRateKey = "optimizer.lr";

// Returns whether a `set` command sets the job's learning rate instead of a setting of the session.
bool names_the_job(const std::string& input) {
  const std::vector<std::string> words = inspect::split_words(input);
  return words.size() > 1 && words[1] == kLearningRateKey;
}

double learning_rate_in(const Arguments& arguments) {
  const std::string& word = arguments.words[1];
  const auto value = parse_number(word);
  if (!value || !std::isfinite(*value) || *value < 0.0) {
    throw Error(ErrorKind::kUsage, cat("optimizer.lr `", word, "` is not a learning rate"),
                "give a number of at least 0: set optimizer.lr 3e-4");
  }
  return *value;
}

}  // namespace

void AttachServer::begin_pause(uint64_t client, int64_t steps) {
  const auto who = server_->client(client);
  if (!who) return;  // the client has disconnected
  pause_.begin(client, describe(*who), Pause::Clock::now());
  alive_ = Pause::Clock::now().time_since_epoch().count();
  owner_ = client;
  self_->status.set_paused(pause_.who());
  log(cat("paused at step ", steps, " by ", pause_.who()));
  end_watches_if([&](const Probe& probe) { return probe.request().client == client; });
  tell_others(client,
              {{"event", "paused"}, {"text", cat("paused at step ", steps, " by ", pause_.who())}});
}

void AttachServer::tell_others(std::optional<uint64_t> but, const Json& event) {
  for (const control::ClientInfo& each : server_->clients()) {
    if (each.number != but) server_->event(each.number, event);
  }
}

void AttachServer::end_pause(const std::string& why, int64_t steps, bool asked) {
  const double held = std::chrono::duration<double>(Pause::Clock::now() - pause_.since()).count();
  const uint64_t owner = pause_.owner();
  pause_.end();
  owner_ = 0;
  self_->status.set_paused({});
  const std::string text =
      cat("continues from step ", steps, " after a pause of ", format_duration(held), ": ", why);
  log(text);
  tell_others(asked ? std::optional(owner) : std::nullopt,
              {{"event", "continued"}, {"text", text}});
}

void AttachServer::require_running(std::string_view command) const {
  if (!held_until_) return;
  throw Error(ErrorKind::kUsage,
              cat("`", command,
                  "` has no effect: the job is held after a failure, and no further "
                  "step will run"),
              "`acts`, `grad`, `stats`, `nan` and `save` inspect the failed step; `continue` ends "
              "the job");
}

void AttachServer::require_mine(uint64_t client) const {
  if (!pause_.active() || pause_.owner() == client) return;
  throw Error(ErrorKind::kUsage, cat("the job is paused by ", pause_.who()),
              "the pause ends when its owner leaves, or after five minutes without a command");
}

std::set<std::pair<uint64_t, int64_t>> AttachServer::take_cancelled() {
  const std::lock_guard lock(mutex_);
  any_cancelled_ = false;
  return std::exchange(cancelled_, {});
}

// Drops the `watch`, `tripwire` and `break` commands of clients that have disconnected, ends
// cancelled `watch` commands, pauses the job if a `break` condition is true, and answers a `step N`
// that has finished or was cancelled. Called at the beginning of each visit.
void AttachServer::arrive(const train::Boundary& boundary) {
  const auto cancelled = take_cancelled();
  const auto is_cancelled = [&](const control::Request& request) {
    return cancelled.contains({request.client, request.id});
  };
  std::erase_if(probes_,
                [&](const Probe& probe) { return !server_->client(probe.request().client); });
  end_watches_if([&](const Probe& probe) { return is_cancelled(probe.request()); });
  std::optional<Break> hit;
  if (break_ && !server_->client(break_->client)) break_.reset();
  if (break_ && !pause_.active() && holds(break_->when, boundary.metrics)) {
    hit = std::exchange(break_, std::nullopt);
    begin_pause(hit->client, boundary.steps);
    server_->event(hit->client, {{"event", "break"},
                                 {"step", boundary.steps},
                                 {"text", cat("step ", boundary.steps, ": ", hit->when.text(),
                                              " holds; the job is paused for you")}});
  }
  const bool reached = pause_at_ > 0 && boundary.steps >= pause_at_;
  if (hit || reached || (stepping_ && is_cancelled(*stepping_))) answer_step(boundary);
}

// If a `step N` is pending, pauses the job and answers the `step N`.
void AttachServer::answer_step(const train::Boundary& boundary) {
  pause_at_ = 0;
  if (!stepping_) return;
  const control::Request request = *std::exchange(stepping_, std::nullopt);
  if (!pause_.active()) begin_pause(request.client, boundary.steps);
  const auto told = [&](const Command&, const Arguments&) {
    Result result = inspect::step_result(boundary.metrics, "; paused again");
    result.json["paused"] = true;
    return result;
  };
  reply(request, inspect::answer(control::text_in(request.body, "input"), told));
}

Result AttachServer::step_on(const Arguments& arguments, const control::Request& request,
                             int64_t steps) {
  const int64_t count = inspect::steps_in(arguments);
  if (stepping_ && server_->client(stepping_->client)) {
    throw Error(ErrorKind::kUsage, "another client's `step` is still running");
  }
  if (pause_.active()) {
    end_pause(cat("for ", count, count == 1 ? " step" : " steps"), steps, /*asked=*/true);
  }
  stepping_ = request;
  pause_at_ = steps + count;
  return {};
}

Result AttachServer::set_break(const Arguments& arguments, uint64_t client) {
  Result result;
  std::vector<std::string> words = arguments.words;
  if (!words.empty() && words.front() == "when") words.erase(words.begin());
  if (!words.empty()) {
    if (break_ && break_->client != client && server_->client(break_->client)) {
      throw Error(ErrorKind::kUsage,
                  cat("another client has set `break when ", break_->when.text(), "`"),
                  "wait until the condition holds, or until that client leaves");
    }
    if (words.size() == 1 && words.front() == "off") {
      break_.reset();
    } else {
      break_ = Break{client, Condition::parse(words, step_numbers())};
    }
  }
  result.json = {{"when", break_ ? Json(break_->when.text()) : Json(nullptr)}};
  result.text =
      break_ ? cat("set: the job will pause after the first step where ", break_->when.text(), "\n")
             : "no condition is set\n";
  return result;
}

Result AttachServer::perform(const Command& command, const Arguments& arguments,
                             const control::Request& request, const train::Boundary& boundary) {
  require_mine(request.client);
  Result result;
  if (command.name == "continue" && held_until_) {
    held_until_.reset();
    result.json = {{"step", boundary.steps}, {"paused", false}};
    result.text = "the hold is over: the job ends with its error\n";
  } else if (command.name == "pause") {
    if (!pause_.active()) begin_pause(request.client, boundary.steps);
    result.json = {{"step", boundary.steps}, {"paused", true}};
    result.text = cat("paused after step ", boundary.steps, "\n");
  } else if (command.name == "continue") {
    const bool was = pause_.active();
    if (was) end_pause("as asked", boundary.steps, /*asked=*/true);
    result.json = {{"step", boundary.steps}, {"paused", false}};
    result.text =
        was ? cat("continues from step ", boundary.steps, "\n") : "the job was not paused\n";
  } else if (command.name == "break") {
    result = set_break(arguments, request.client);
  } else {
    throw Error(ErrorKind::kInternal, cat("`", command.name, "` has no implementation"));
  }
  return result;
}

// Returns the action that all ranks must perform for a request. Returns nothing if no action is
// needed, because the request is answered already or will be answered later.
std::optional<AttachServer::Turn> AttachServer::turn_of(const control::Request& request,
                                                        const train::Boundary& boundary) {
  if (pause_.active() && pause_.owner() == request.client) pause_.used(Pause::Clock::now());
  const std::string input = control::text_in(request.body, "input");
  const Command* command = inspect::command_of(input);
  const bool sets_job = command != nullptr && command->name == "set" && names_the_job(input);
  const bool exports = command != nullptr && command->name == "export";
  // Whether the text of the command may contain an option that writes a file.
  const bool draws = command != nullptr && (input.find("--svg") != std::string::npos ||
                                            input.find("--to") != std::string::npos);
  const bool in_job = command != nullptr && command->as<inspect::InJob>() != nullptr;
  if (!in_job && !sets_job && !exports && !draws) return Turn{Kind::kCommand, request};
  std::optional<Turn> turn;
  bool later = false;
  const auto outcome = inspect::answer(input, [&](const Command& named, const Arguments& given) {
    if (exports || (draws && !in_job && !sets_job)) {
      if (exports || given.options.contains("--svg") || given.options.contains("--to")) {
        require_write(server_->client(request.client), named, run_);
      }
      if (exports) require_mine(request.client);
      turn = Turn{Kind::kCommand, request};
      return Result{};
    }
    if (named.name == "save" || sets_job) {
      if (sets_job) require_running("set optimizer.lr");
      sessions_->model().require_changeable();
      require_write(server_->client(request.client), named, run_);
      require_mine(request.client);
      turn = sets_job ? Turn{Kind::kLearningRate, request, learning_rate_in(given)}
                      : Turn{Kind::kSave, request};
      return Result{};
    }
    if (named.name != "continue") require_running(named.name);
    if (named.name == "step") {
      require_mine(request.client);
      later = true;
      return step_on(given, request, boundary.steps);
    }
    if (named.name == "watch") {
      later = true;
      start_watch(given, request);
      return Result{};
    }
    if (named.name == "tripwire") return set_tripwire(given, request, later);
    return perform(named, given, request, boundary);
  });
  if (outcome.error || (!turn && !later)) reply(request, outcome);
  return turn;
}

AttachServer::Turn AttachServer::next_turn(const train::Boundary& boundary, int64_t& budget) {
  constexpr auto kLook = std::chrono::milliseconds(100);
  for (;;) {
    if (const auto why = pause_.why_over(
            Pause::Clock::now(), Pause::Clock::time_point(Pause::Clock::duration(alive_.load())),
            server_->client(pause_.owner()).has_value())) {
      end_pause(*why, boundary.steps, /*asked=*/false);
    }
    if (auto turn = next_probe(boundary)) return *std::move(turn);
    if (held_until_ && Pause::Clock::now() > *held_until_) held_until_.reset();
    if (!stands() && budget-- <= 0) return {};
    const auto request = server_->take(stands() ? kLook : std::chrono::milliseconds(0));
    if (!request) return {stands() ? Kind::kWait : Kind::kGo, {}};
    if (auto turn = turn_of(*request, boundary)) return *std::move(turn);
  }
}

void AttachServer::reply(const control::Request& request, const inspect::Outcome& outcome) {
  Json json = inspect::pack(outcome);
  add_title(json);
  server_->reply(request.client, request.id, json);
}

}  // namespace am::live
