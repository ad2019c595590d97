// The desk of rank 0: who comes, and what can be answered without a step's end.
#include "am/live/host.h"

#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/control/frame.h"
#include "am/inspect/messages.h"
#include "am/inspect/render.h"

namespace am::live {

namespace {

using namespace std::chrono_literals;

// How long the end of a job waits for those who are attached.
constexpr auto kFarewell = 1s;

int64_t ticks_now() { return Pause::Clock::now().time_since_epoch().count(); }

std::string status_text(const Json& json, const term::Style& style) {
  std::vector<std::pair<std::string, std::string>> facts;
  const auto number = [&](const char* key) { return json.at(key).get<double>(); };
  facts.emplace_back(
      "step", cat(json.at("step").get<int64_t>(), " of ", json.at("max_steps").get<int64_t>()));
  facts.emplace_back("phase", json.at("phase").get<std::string>());
  if (json.at("loss").is_number()) facts.emplace_back("loss", cat(number("loss")));
  if (json.at("step_seconds").is_number()) {
    facts.emplace_back("a step",
                       cat(format_duration(number("step_seconds")), ", ",
                           format_short_count(number("tokens_per_second")), " tokens a second"));
  }
  const Json& paused = json.at("paused");
  facts.emplace_back("paused", paused.is_null() ? "no" : paused.get<std::string>());
  std::string clients;
  for (const Json& each : json.at("clients")) {
    clients += cat(clients.empty() ? "" : "; ", each.get<std::string>());
  }
  facts.emplace_back("attached", clients);
  return inspect::draw_facts(facts, style);
}

}  // namespace

std::string describe(const control::ClientInfo& who) {
  return cat(control::text_in(who.hello, "name", "a program"), ", process ", who.pid, " of user ",
             who.uid);
}

Host::Host(const runtime::World& world, const run_folder::RunFolder& run, HostOptions options)
    : world_(world), options_(std::move(options)), run_(run.root().string()) {
  pause_ = Pause(options_.pause);
  if (world_.rank() != 0) return;
  try {
    place_ = std::make_unique<control::ControlPlace>(run);
    control::ServerOptions server;
    server.welcome = [this](const control::ClientInfo& who) { return welcome(who); };
    server.at_once = [this](const control::ClientInfo& who, const control::Request& request) {
      return at_once(who, request);
    };
    server.gone = [this](uint64_t client) {
      if (running_client_ == client) interrupted_ = true;
    };
    server_ = std::make_unique<control::Server>(place_->take_socket(), std::move(server));
  } catch (const Error& error) {
    place_.reset();
    log(cat("am-repl cannot attach to this job: ", error.what()));
  }
}

Host::~Host() = default;

void Host::open(train::Trainer& trainer) {
  sessions_ = std::make_unique<Sessions>(trainer, run_);
  status_.set_total(trainer.first_step(), trainer.plan().train.max_steps);
  status_.set_phase("forward");
  if (!server_) return;
  Json facts = sessions_->facts(trainer.first_step());
  const std::lock_guard lock(mutex_);
  facts_ = std::move(facts);
}

void Host::close(const std::string& last_words) {
  if (server_) {
    const auto refuse = [&](const control::Request& request) {
      inspect::Outcome outcome;
      outcome.input = control::text_in(request.body, "input");
      outcome.error = {ErrorKind::kUsage, last_words, {}};
      server_->reply(request.client, request.id, inspect::pack(outcome));
    };
    if (stepping_) refuse(*std::exchange(stepping_, std::nullopt));
    while (const auto request = server_->take(0ms)) refuse(*request);
    server_->end({{"event", "ended"}, {"text", last_words}}, kFarewell);
  }
  server_.reset();
  place_.reset();
  sessions_.reset();
}

void Host::log(const std::string& line) const {
  if (options_.log) options_.log(cat("attached    ", line));
}

Json Host::welcome(const control::ClientInfo&) const {
  Json json;
  {
    const std::lock_guard lock(mutex_);
    json = facts_;
  }
  const Json status = status_.to_json();
  json["event"] = "welcome";
  std::string note =
      cat("attached to ", run_, " at step ", status.at("step").get<int64_t>(), " of ",
          status.at("max_steps").get<int64_t>(), "; commands run between two steps, on all ranks");
  if (!status.at("paused").is_null()) {
    note += cat("; it is paused by ", status.at("paused").get<std::string>());
  }
  json["note"] = note;
  return json;
}

bool Host::cancel(const control::ClientInfo& who, const Json& id) {
  if (!id.is_number_integer()) return true;
  const auto number = id.get<int64_t>();
  if (server_->withdraw(who.number, number)) {
    inspect::Outcome outcome;
    outcome.error = {ErrorKind::kUsage, "interrupted", {}};
    server_->reply(who.number, number, inspect::pack(outcome));
  } else if (running_client_ == who.number && running_id_ == number) {
    interrupted_ = true;
  }
  return true;
}

bool Host::at_once(const control::ClientInfo& who, const control::Request& request) {
  if (request.body.contains("renew")) {
    if (owner_ == who.number) alive_ = ticks_now();
    return true;
  }
  if (const auto id = request.body.find("cancel"); id != request.body.end()) {
    return cancel(who, *id);
  }
  const std::string text = control::text_in(request.body, "input");
  const inspect::Command* command = inspect::command_of(text);
  if (command == nullptr || command->name != "status") return false;
  server_->reply(who.number, request.id, inspect::pack(answer_at_once(*command, text)));
  return true;
}

inspect::Outcome Host::answer_at_once(const inspect::Command&, const std::string& input) {
  return inspect::answer(input, [&](const inspect::Command&, const inspect::Arguments&) {
    inspect::Result result;
    result.json = status_.to_json();
    result.json["world_size"] = world_.size();
    Json clients = Json::array();
    for (const control::ClientInfo& each : server_->clients()) clients.push_back(describe(each));
    result.json["clients"] = clients;
    result.text = status_text(result.json, term::Style::plain());
    return result;
  });
}

}  // namespace am::live
