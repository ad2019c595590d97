// Part of AttachServer: attaches clients on rank 0, and answers requests that need not wait for the
// end of a step.
#include "am/live/attach_server.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "am/base/error.h"
#include "am/base/number.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/control/frame.h"
#include "am/inspect/attached.h"
#include "am/inspect/messages.h"
#include "am/inspect/render.h"
#include "am/launch/supervise/process_state.h"
#include "am/live/hang.h"
#include "am/mesh/rank_set.h"

namespace am::live {

namespace {

using namespace std::chrono_literals;

// Longest time for which an ending job waits until clients have received its last message.
constexpr auto kClientsFarewell = 1s;
// Time after which add_stopped() reads no further stacks.
constexpr auto kOutsideStacks = 5s;

int64_t ticks_now() { return Pause::Clock::now().time_since_epoch().count(); }

// Returns the step of a status, for example "7 of 20", or "7" if the last step is unknown.
std::string step_text(const Json& status) {
  const auto last = status.at("max_steps").get<int64_t>();
  const std::string step = cat(status.at("step").get<int64_t>());
  return last > 0 ? cat(step, " of ", last) : step;
}

std::string status_text(const Json& json, const term::Style& style) {
  std::vector<std::pair<std::string, std::string>> facts;
  const auto number = [&](const char* key) { return json.at(key).get<double>(); };
  facts.emplace_back("step", step_text(json));
  facts.emplace_back("phase", json.at("phase").get<std::string>());
  if (json.at("loss").is_number()) facts.emplace_back("loss", cat(number("loss")));
  if (json.at("step_seconds").is_number()) {
    std::string time = format_step_time(number("step_seconds"));
    if (json.at("tokens_per_second").is_number()) {
      time += cat(", ", format_short_count(number("tokens_per_second")), " tokens per second");
    }
    facts.emplace_back("time per step", std::move(time));
  }
  if (json.at("seconds_left").is_number()) {
    facts.emplace_back("time left", format_duration(number("seconds_left")));
  }
  if (json.at("goodput").is_number()) {
    facts.emplace_back("goodput", format_fixed(100.0 * number("goodput"), 1) + " %");
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
  const std::string name = control::text_in(who.hello, "name", "a program");
  if (!who.from.empty()) return cat(name, ", from ", who.from);
  return cat(name, ", process ", who.pid, " of user ", who.uid);
}

term::Style style_of(const control::ClientInfo& who) {
  return inspect::requested_session(who.hello.value("session", Json::object())).style;
}

AttachServer::AttachServer(const runtime::World& world, const run_folder::RunFolder& run,
                           AttachServerOptions options)
    : world_(world),
      options_(std::move(options)),
      mesh_(options_.mesh.value_or(mesh::MeshLayout({.dp_replicate = world.size()}))),
      run_(run.root().string()),
      self_(std::make_shared<RankStatus>(world)),
      probe_(world.device()),
      pause_(options_.pause) {
  self_->stage = mesh_.coordinate(world_.rank())[0];
  self_->set_probe(&probe_);
  self_->set_complete(options_.complete);
  world_.context()->on_collective = [self = self_](const runtime::Collective& collective,
                                                   int64_t bytes) {
    self->collectives.add(collective, bytes);
  };
  helpers_ = std::make_unique<RankAgents>(world_, self_, options_.agents_ended);
  if (world_.rank() != 0) return;
  if (options_.dump_interval.count() > 0.0) {
    dumps_ = std::make_unique<StateDumps>(
        options_.dump_interval, run.root() / "states",
        [this](const auto& use) { report_ranks(use); },
        [this](const std::string& line) { log(line); });
  }
  try {
    place_ = std::make_unique<control::ControlPlace>(run, control::runtime_folders(), options_.tcp);
    control::ServerOptions server;
    server.tcp_socket = place_->take_tcp_socket();
    server.token = place_->token();
    if (const auto& tcp = place_->address().tcp) {
      log(cat("clients attach with: am-repl tcp://", tcp->text(), " --token ",
              place_->address().token.string()));
    }
    server.welcome = [this](const control::ClientInfo& who) { return welcome(who); };
    server.at_once = [this](const control::ClientInfo& who, const control::Request& request) {
      return at_once(who, request);
    };
    server.gone = [this](uint64_t client) {
      if (running_client_ == client) interrupted_ = true;
    };
    server_ = std::make_unique<control::Server>(place_->take_socket(), std::move(server));
    server_->start();
  } catch (const Error& error) {
    place_.reset();
    log(cat("am-repl cannot attach to this job: ", error.what()));
  }
}

AttachServer::~AttachServer() {
  dumps_.reset();                // the thread of StateDumps uses the other members
  if (server_) server_->stop();  // the listening thread uses them too
  helpers_.reset();              // afterwards clients receive no answers of other ranks
  world_.context()->on_collective = nullptr;
  self_->set_probe(nullptr);
  self_->set_complete(nullptr);
}

void AttachServer::open(std::unique_ptr<AttachedModel> model) {
  self_->status.set_total(model->first_step(), model->max_steps());
  sessions_ =
      std::make_unique<Sessions>(std::move(model), [self = self_] { return self->status.step(); });
  self_->status.set_phase(sessions_->model().first_phase());
  if (!server_) return;
  Json facts = sessions_->facts();
  const std::lock_guard lock(mutex_);
  facts_ = std::move(facts);
}

void AttachServer::close(const std::string& last_words) {
  helpers_->close();
  if (server_) {
    const auto refuse = [&](const control::Request& request) {
      const auto outcome = inspect::failed(control::text_in(request.body, "input"), {},
                                           Error(ErrorKind::kUsage, last_words));
      server_->reply(request.client, request.id, inspect::pack(outcome));
    };
    if (stepping_) refuse(*std::exchange(stepping_, std::nullopt));
    end_watches_if([](const Probe&) { return true; });
    while (const auto request = server_->take(0ms)) refuse(*request);
    server_->end({{"event", "ended"}, {"text", last_words}}, kClientsFarewell);
  }
  // Stops the listening thread before server_.reset(): the thread reads server_, and reset() clears
  // this pointer before it destroys the server.
  if (server_) server_->stop();
  server_.reset();
  place_.reset();
  sessions_.reset();
}

void AttachServer::log(const std::string& line) const {
  if (options_.log) options_.log(cat("attached    ", line));
}

void AttachServer::add_title(Json& message) const {
  const std::lock_guard lock(mutex_);
  if (!facts_.empty()) message["title"] = sessions_->title();
}

Json AttachServer::welcome(const control::ClientInfo&) const {
  Json json;
  {
    const std::lock_guard lock(mutex_);
    json = facts_;
  }
  add_title(json);
  const Json status = self_->status.to_json();
  json["event"] = "welcome";
  std::string note = cat("attached to ", run_, " at step ", step_text(status),
                         "; commands run between two steps, on all ranks");
  if (!status.at("paused").is_null()) {
    note += cat("; the job is paused by ", status.at("paused").get<std::string>());
  }
  json["note"] = note;
  return json;
}

bool AttachServer::cancel(const control::ClientInfo& who, const Json& id) {
  if (!id.is_number_integer()) return true;
  const auto number = id.get<int64_t>();
  if (server_->withdraw(who.number, number)) {
    const auto outcome = inspect::failed({}, {}, Error(ErrorKind::kUsage, "interrupted"));
    server_->reply(who.number, number, inspect::pack(outcome));
  } else if (running_client_ == who.number && running_id_ == number) {
    interrupted_ = true;
  } else {
    constexpr size_t kMostCancelled = 1000;  // largest number of cancelled requests to record
    const std::lock_guard lock(mutex_);
    if (cancelled_.size() < kMostCancelled) cancelled_.emplace(who.number, number);
    any_cancelled_ = true;
  }
  return true;
}

bool AttachServer::at_once(const control::ClientInfo& who, const control::Request& request) {
  if (request.body.contains("renew")) {
    if (owner_ == who.number) alive_ = ticks_now();
    return true;
  }
  if (const auto id = request.body.find("cancel"); id != request.body.end()) {
    return cancel(who, *id);
  }
  const std::string input = control::text_in(request.body, "input");
  const inspect::Command* command = inspect::command_of(input);
  if (command == nullptr) return false;
  const term::Style style = style_of(who);
  if (command->name == "status") {
    const auto told = [&](const auto&, const auto&) { return tell_status(style); };
    reply(request, inspect::answer(input, told));
    return true;
  }
  constexpr std::string_view kOfRanks[] = {"ranks", "collectives", "stack", "stragglers"};
  if (std::find(std::begin(kOfRanks), std::end(kOfRanks), command->name) == std::end(kOfRanks)) {
    return false;
  }
  ask_ranks(request, input, style);
  return true;
}

inspect::Result AttachServer::tell_status(const term::Style& style) const {
  inspect::Result result;
  result.json = self_->status.to_json();
  result.json["world_size"] = world_.size();
  Json clients = Json::array();
  for (const control::ClientInfo& each : server_->clients()) clients.push_back(describe(each));
  result.json["clients"] = clients;
  result.text = status_text(result.json, style);
  return result;
}

// Reads the stacks of stopped processes on this machine. Moves each rank whose stack was read from
// answers.silent to answers.said.
void AttachServer::add_stopped(Answers& answers) const {
  if (!options_.stack_of) return;
  const auto until = std::chrono::steady_clock::now() + kOutsideStacks;
  std::erase_if(answers.silent, [&](const auto& entry) {
    const auto& [rank, silent] = entry;
    if (silent.pid == 0 || silent.process != launch::to_string(launch::ProcessState::kStopped)) {
      return false;
    }
    if (std::chrono::steady_clock::now() > until) return false;
    const std::string frames = options_.stack_of(silent.pid);
    if (!frames.empty()) answers.said[rank] = {{"frames", frames}};
    return !frames.empty();
  });
}

void AttachServer::report_ranks(const std::function<void(const std::string& text)>& use) {
  const auto text = std::make_shared<std::string>();
  const auto add = [text](const std::string& what, const Answers& answers) {
    const inspect::Result result = describe_answers(what, answers, term::Style::plain());
    *text += cat("== ", what, "\n", result.text, "\n");
  };
  const auto ask = [this](const std::string& what, std::function<void(const Answers&)> told) {
    ask_all(question_of(what, /*one=*/false, world_.size()), std::move(told));
  };
  ask("collectives", [add](const Answers& answers) {
    add("ranks", answers);  // every answer contains the state of its rank
    add("collectives", answers);
  });
  ask("stack", [this, add, text, use](Answers answers) {
    add_stopped(answers);
    add("stack", answers);
    use(*text);
  });
}

// Runs the commands `ranks`, `collectives`, `stragglers` and `stack`: requests reports from the
// ranks and returns. The thread of RankAgents sends the result to the client after it has collected
// the reports.
void AttachServer::ask_ranks(const control::Request& request, const std::string& input,
                             const term::Style& style) {
  const auto refused = inspect::answer(
      input, [&](const inspect::Command& command, const inspect::Arguments& arguments) {
        const auto ranks = mesh::select_ranks(mesh_, arguments.words);
        const bool one = ranks && ranks->size() == 1;
        const std::string what(command.name);
        const auto use = [this, request, input, style, what, ranks, one](Answers answers) {
          if (what == "stack") add_stopped(answers);
          const auto told = [&](const auto&, const auto&) {
            return what == "stack" && one ? describe_stack(ranks->front(), answers)
                                          : describe_answers(what, answers, style);
          };
          reply(request, inspect::answer(input, told));
        };
        if (!helpers_->ask(question_of(what, one, world_.size()), ranks, use)) {
          throw Error(ErrorKind::kUsage,
                      cat("too many commands such as `", what, "` wait for the ranks"),
                      "try again in a few seconds");
        }
        return inspect::Result{};
      });
  if (refused.error) reply(request, refused);
}

}  // namespace am::live
