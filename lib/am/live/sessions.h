// The sessions of attached clients, on one rank: each client has a session and settings, all over
// the one model that trains.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "am/inspect/command.h"
#include "am/inspect/session.h"
#include "am/train/trainer.h"
#include "am/values/parameter_view.h"

namespace am::live {

class Sessions {
 public:
  Sessions(train::Trainer& trainer, std::string run);

  // Collective: runs a client's command. Commands that draw random numbers leave the generators
  // unchanged. `interrupted` is as in SessionOptions. Throws Error(kPeer) if a collective failed;
  // the job cannot continue then.
  inspect::Outcome execute(uint64_t client, inspect::SessionOptions options,
                           const std::string& input, int64_t steps);
  // Frees unsharded parameters, because the next step changes them.
  void release();
  // Destroys the sessions of clients that are not among `clients`.
  void keep_only(const std::vector<uint64_t>& clients);

  train::Trainer& trainer() { return trainer_; }
  // Returns the first message to a client: title, parameters, modules.
  Json facts(int64_t steps);
  std::string title(int64_t steps);

 private:
  std::unique_ptr<values::ParameterView> new_view();

  train::Trainer& trainer_;
  std::string run_;
  int64_t steps_ = 0;
  std::shared_ptr<std::optional<int64_t>> text_gradients_ =
      std::make_shared<std::optional<int64_t>>();  // shared with values::LiveJob
  std::map<uint64_t, std::unique_ptr<inspect::Session>> sessions_;
  std::unique_ptr<values::ParameterView> own_;  // for facts()
};

}  // namespace am::live
