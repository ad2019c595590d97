// Sessions of the attached clients, on one rank. Each client has a session with its own settings;
// all sessions read the model that is being trained.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "am/inspect/command.h"
#include "am/inspect/session.h"
#include "am/live/attached_model.h"
#include "am/values/parameter_view.h"

namespace am::live {

class Sessions {
 public:
  // `current_step` returns the number of finished steps, for title(); it must be thread-safe.
  Sessions(std::unique_ptr<AttachedModel> model, std::function<int64_t()> current_step);

  // Runs the command line `input` of a client; `steps` is the number of finished steps. A command
  // that draws random numbers does not change the generators that training uses. The first command
  // of a client creates its session with `options`; later commands use only the terminal size
  // in `options`. Throws Error(kPeer) if a collective failed, because the job cannot continue then.
  // Collective.
  inspect::Outcome execute(uint64_t client, inspect::SessionOptions options,
                           const std::string& input, int64_t steps);
  // Frees all unsharded parameters. Must be called before the next step, because a step changes the
  // values of parameters.
  void release();
  // Destroys the sessions of all clients whose numbers are not in `clients`.
  void keep_only(const std::vector<uint64_t>& clients);

  AttachedModel& model() { return *model_; }
  // Returns an object with the names of all parameters and modules, for the first message to a
  // client.
  Json facts() const;
  // Returns the title of a session, with the current step. Thread-safe.
  std::string title() const { return own_->title(); }

 private:
  std::unique_ptr<AttachedModel> model_;
  int64_t steps_ = 0;
  std::map<uint64_t, std::unique_ptr<inspect::Session>> sessions_;
  std::unique_ptr<values::ParameterView> own_;  // view that facts() and title() use
};

}  // namespace am::live
