#include "am/live/sessions.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/inspect/interpreter.h"

namespace am::live {

namespace {

// Saves the states of the random generators in the constructor and restores them in the destructor.
// Commands that draw random numbers therefore do not affect training.
class KeptGenerators {
 public:
  explicit KeptGenerators(c10::Device device) {
    keep(c10::Device(c10::kCPU));
    if (device.is_cuda()) keep(device);
  }
  KeptGenerators(const KeptGenerators&) = delete;
  KeptGenerators& operator=(const KeptGenerators&) = delete;
  ~KeptGenerators() {
    for (auto& [generator, state] : kept_) {
      try {
        const std::lock_guard lock(generator.mutex());
        generator.set_state(state);
      } catch (const std::exception&) {
        // Ignored: set_state() accepts every state that the same generator has returned.
      }
    }
  }

 private:
  void keep(c10::Device device) {
    at::Generator generator = at::globalContext().defaultGenerator(device);
    const std::lock_guard lock(generator.mutex());
    at::Tensor state = generator.get_state();
    kept_.emplace_back(std::move(generator), std::move(state));
  }

  std::vector<std::pair<at::Generator, at::Tensor>> kept_;
};

}  // namespace

Sessions::Sessions(std::unique_ptr<AttachedModel> model, std::function<int64_t()> current_step)
    : model_(std::move(model)),
      steps_(model_->first_step()),
      own_(model_->view(std::move(current_step))) {}

inspect::Outcome Sessions::execute(uint64_t client, inspect::SessionOptions options,
                                   const std::string& input, int64_t steps) {
  steps_ = steps;
  const int width = options.style.width, height = options.style.height;
  std::unique_ptr<inspect::Session>& session = sessions_[client];
  if (!session) {
    session = std::make_unique<inspect::Session>(
        values::session_of(model_->view([this] { return steps_; }), std::move(options)));
  }
  session->set_window(width, height);
  const KeptGenerators kept(model_->device());
  inspect::Outcome outcome = inspect::execute(*session, input);
  if (outcome.error && outcome.error->kind == ErrorKind::kPeer) {
    throw outcome.error->as_error();
  }
  return outcome;
}

void Sessions::release() {
  for (auto& [client, session] : sessions_) values::values_of(*session).reshard_all();
  model_->release();
}

void Sessions::keep_only(const std::vector<uint64_t>& clients) {
  std::erase_if(sessions_, [&](const auto& each) {
    return std::find(clients.begin(), clients.end(), each.first) == clients.end();
  });
}

Json Sessions::facts() const {
  std::vector<std::string> parameters;
  for (const inspect::HeldParameter& each : own_->parameters()) parameters.push_back(each.name);
  return {{"parameters", parameters}, {"modules", inspect::module_names(own_->parameters())}};
}

}  // namespace am::live
