#include "am/live/program.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/control/frame.h"
#include "am/launch/cause/interpreter_stack.h"
#include "am/launch/cause/rank_state.h"
#include "am/live/attached_model.h"
#include "am/run_folder/run_folder.h"
#include "am/values/program_view.h"

namespace am::live {

namespace {

using namespace std::chrono_literals;

// Longest time from the current step to a step that rank 0 proposes for a visit, except that a
// proposal may always be kSomeSteps steps ahead. Ranks answer a proposal within milliseconds.
constexpr auto kLongestAhead = std::chrono::duration<double>(1s);
constexpr auto kShortestStep = std::chrono::duration<double>(1us);
constexpr int64_t kSomeSteps = 4;
constexpr int64_t kLargestMargin = int64_t{1} << 20;  // in steps

class ProgramModel final : public AttachedModel {
 public:
  ProgramModel(const values::ProgramTensors& tensors, const ProgramOptions& options)
      : tensors_(tensors), options_(options) {}

  std::unique_ptr<values::ParameterView> view(std::function<int64_t()> steps) override {
    return std::make_unique<values::ProgramView>(
        tensors_, values::ProgramFacts{options_.run, options_.model, options_.config,
                                       options_.model_folder, options_.mesh, steps});
  }
  void release() override {}  // views own what they have gathered
  c10::Device device() const override { return tensors_.world().device(); }
  int64_t first_step() const override { return options_.first_step; }
  int64_t max_steps() const override { return options_.max_steps; }
  const char* first_phase() const override { return "in a step"; }
  void require_changeable() const override {
    throw Error(ErrorKind::kUsage,
                "only the program of this job saves checkpoints and sets its learning rate",
                "use commands that read the model, or `export`; `help` lists all commands");
  }
  double set_learning_rate(double /*lr*/) override {
    throw Error(ErrorKind::kInternal,
                "the learning rate of a job that another program trains cannot be set");
  }

 private:
  const values::ProgramTensors& tensors_;
  const ProgramOptions& options_;
};

// Adds the collectives that the rank's program has issued to the rank's state. (Progress::state()
// adds only the collectives of automesh's own groups.) `collectives` is the list that
// am_live_options::collectives describes.
void add_collectives(const Json& collectives, Json& state_json) {
  launch::RankState state = launch::RankState::from_json(state_json);
  for (const Json& each : collectives) {
    const auto communicator = each.at("communicator").get<std::string>();
    const auto sequence = each.at("sequence").get<uint64_t>();
    uint64_t& issued = state.issued[communicator];
    issued = std::max(issued, sequence);
    // The list is newest first, so the last waiting entry has waited longest, and its values
    // remain.
    if (!each.at("waiting").get<bool>()) continue;
    state.waiting_op = each.at("op").get<std::string>();
    state.waiting_group = each.at("group").get<std::string>();
    state.waiting_communicator = communicator;
    state.waiting_sequence = sequence;
    state.waiting_ranks = each.at("ranks").get<std::vector<int64_t>>();
    state.waiting_seconds = each.at("seconds_ago").get<double>();
  }
  state_json = state.to_json();
}

bool is_of_interpreter(std::string_view frame) {
  return frame.find("(python") != std::string_view::npos ||
         frame.find("(libpython") != std::string_view::npos;
}

}  // namespace

Program::Program(const runtime::World& world, ProgramOptions options,
                 std::vector<values::ProgramTensor> tensors)
    : world_(world), options_(std::move(options)), thread_(::pthread_self()), tensors_(world) {
  tensors_.set(std::move(tensors));
  std::string problem;
  if (world_.rank() == 0) {
    try {
      std::filesystem::create_directories(options_.run);
      options_.run = std::filesystem::absolute(options_.run).lexically_normal().string();
      lock_.emplace(run_folder::RunLock::take(options_.run, {.job = "program"}));
    } catch (const std::exception& error) {
      problem = error.what();
    }
  }
  problem = world_.group().broadcast_text(problem);
  if (!problem.empty()) throw Error(ErrorKind::kIo, cat("run folder: ", problem));
  AttachServerOptions attach;
  attach.log = options_.log;
  attach.stop_requested = options_.waiting;
  attach.stack_of = options_.stack_of;
  attach.complete = [this](const std::string& what, const Json& question, Json& answer) {
    complete(what, question, answer);
  };
  attach.mesh = mesh::MeshLayout(options_.mesh);
  attach.agents_ended = [agreement = agreement_] { agreement->close(); };
  server_ = std::make_unique<AttachServer>(world_, run_folder::RunFolder(options_.run),
                                           std::move(attach));
  server_->open(std::make_unique<ProgramModel>(tensors_, options_));
}

Program::~Program() { agreement_->close(); }

bool Program::step(int64_t steps) {
  world_.progress().set_step(steps);
  server_->set_step(steps);
  if (world_.rank() == 0) {
    const auto now = std::chrono::steady_clock::now();
    step_time_ = now - std::exchange(last_step_, now);
    const bool wanted = server_->wants_visit(steps) && !agreement_->is_planned(steps);
    if (wanted && !proposing_) propose(steps);
  }
  return agreement_->arrive(steps);
}

// Asks all ranks to visit at a later step, and then sends them the decision: all visit if all have
// accepted. Another thread sends the questions and reads the answers.
void Program::propose(int64_t steps) {
  proposing_ = true;
  const auto most = static_cast<int64_t>(kLongestAhead / std::max(step_time_, kShortestStep));
  const int64_t at = steps + std::clamp<int64_t>(margin_, 1, std::max<int64_t>(most, kSomeSteps));
  server_->ask_all({{"what", "propose"}, {"at", at}}, [this, at](const Answers& answers) {
    const auto& said = answers.said;
    const bool refused = std::any_of(said.begin(), said.end(), [](const auto& answer) {
      return !answer.second.value("accepted", false);
    });
    if (refused) margin_ = std::min(2 * margin_, kLargestMargin);
    const bool all = !refused && answers.silent.empty();
    if (all) margin_ = std::max<int64_t>(1, margin_ / 2);
    server_->ask_all({{"what", "decide"}, {"at", at}, {"visit", all}}, [this, all](const Answers&) {
      if (!all) proposing_ = false;
    });
  });
}

void Program::visit(std::vector<values::ProgramTensor> tensors, const ProgramNumbers& numbers) {
  if (!agreement_->decided()) return;
  proposing_ = false;
  observe::StepMetrics metrics;
  metrics.step = agreement_->steps();
  metrics.loss = numbers.loss;
  metrics.grad_norm = numbers.grad_norm;
  metrics.lr = numbers.learning_rate;
  metrics.step_seconds =
      std::isnan(numbers.step_seconds) ? step_time_.count() : numbers.step_seconds;
  metrics.tokens_per_second = numbers.tokens_per_second;
  std::optional<Error> refused;
  try {
    tensors_.set(std::move(tensors));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kPeer) throw;
    refused = error;  // set() throws on all ranks; clients then find no tensors
  }
  // gradient_norm() is collective, so it is called even if `numbers` contains the gradient norm.
  const double norm = tensors_.gradient_norm();
  if (std::isnan(metrics.grad_norm)) metrics.grad_norm = norm;
  if (world_.rank() == 0) server_->stepped(metrics);
  const train::Boundary boundary{metrics.step, metrics, {}};
  server_->visit(boundary);
  agreement_->plan(server_->next_visit());
  last_step_ = std::chrono::steady_clock::now();  // the next step begins after the visit
  if (refused) throw *refused;
}

void Program::close(const std::string& last_words) {
  agreement_->close();
  server_->close(last_words);
}

// Completes this rank's answer to a question of rank 0. Runs on the thread of RankAgents.
void Program::complete(const std::string& what, const Json& question, Json& answer) {
  if (what == "propose") answer = {{"accepted", agreement_->propose(question.at("at"))}};
  if (what == "decide") agreement_->decide(question.at("at"), question.at("visit"));
  if ((what == "ranks" || what == "collectives") && options_.collectives) {
    const char* text = options_.collectives();
    const auto collectives = control::parse_message(cat("{\"list\":", text ? text : "[]", "}"));
    if (collectives) {
      Json list = collectives->at("list");
      add_collectives(list, answer["state"]);
      const size_t newest = question.value("newest", list.size());
      while (list.size() > newest) list.erase(list.size() - 1);
      for (Json& each : list) {
        each.erase("ranks");
        each.erase("communicator");
      }
      if (what == "collectives") answer["collectives"] = std::move(list);
    }
  }
  if (what == "stack") {
    // First the frames of native code that the interpreter called, then the interpreter's frames.
    std::vector<std::string> frames;
    for (const std::string& frame : split(answer["frames"].get<std::string>(), '\n')) {
      if (is_of_interpreter(frame)) break;
      frames.push_back(frame);
    }
    const auto own = interpreter_frames();
    if (own.empty()) return;
    frames.insert(frames.end(), own.begin(), own.end());
    answer["frames"] = join(frames, "\n");
  }
}

// Returns the interpreter's frames of the training thread, innermost first; empty if the signal
// handler writes nothing in time. An example of a frame is "train_step  (train.py:42)". The handler
// must write the format of Python's faulthandler.
std::vector<std::string> Program::interpreter_frames() {
  constexpr auto kPatience = 500ms;
  constexpr auto kPause = 30ms;  // the text is complete if nothing follows for this time
  const InterpreterStack& stack = options_.stack;
  if (stack.signal == 0 || stack.read_fd < 0) return {};
  struct sigaction now = {};
  const bool handled = ::sigaction(stack.signal, nullptr, &now) == 0 && now.sa_handler != SIG_DFL &&
                       now.sa_handler != SIG_IGN;
  if (!handled) return {};  // without a handler the signal would end the program
  char buffer[4096];
  const auto read_more = [&](std::chrono::milliseconds patience, std::string& text) {
    pollfd wait{stack.read_fd, POLLIN, 0};
    if (::poll(&wait, 1, static_cast<int>(patience.count())) <= 0) return false;
    const ssize_t bytes = ::read(stack.read_fd, buffer, sizeof buffer);
    if (bytes > 0) text.append(buffer, static_cast<size_t>(bytes));
    return bytes > 0;
  };
  std::string text;
  while (read_more(0ms, text)) {
  }
  text.clear();  // drops late answers to earlier calls
  if (::pthread_kill(thread_, stack.signal) != 0) return {};
  if (read_more(kPatience, text)) {
    while (read_more(kPause, text)) {
    }
  }
  std::vector<std::string> frames;
  for (const launch::InterpreterFrame& frame : launch::last_stack(split(text, '\n'))) {
    frames.push_back(cat(frame.function, "  (", frame.file, ":", frame.line, ")"));
  }
  return frames;
}

}  // namespace am::live
