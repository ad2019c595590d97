// A store whose calls return at once: a thread of its own does the waiting.
//
//   BackgroundStore store(remote_store, heartbeat_key("none", node_rank));
//   store.set("a", "1");      // written soon, after all that was set or asked before
//   store.get("b");           // what was found since the last call; asks again
//
// Whoever answers for a store may be stopped or cut off, and a call then waits without end. A
// launcher must hear the user's signals all the same, and see after a while that nobody answers.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "am/launch/nodes/key_value_store.h"

namespace am::launch {

class BackgroundStore : public KeyValueStore {
 public:
  using Clock = std::chrono::steady_clock;

  // The thread also writes a rising number to `heartbeat_key`, twice a second: a sign that this
  // process lives, whatever its other threads wait for.
  BackgroundStore(std::shared_ptr<KeyValueStore> store, std::string heartbeat_key,
                  Clock::duration patience = std::chrono::seconds(10));
  // What was set gets two more seconds to be written. A call that does not return is left behind,
  // with its thread and its share of the store.
  ~BackgroundStore() override;

  // Both throw Error(kPeer) when the store is lost: for good, when a call failed or has not
  // returned for `patience`.
  void set(const std::string& key, const std::string& value) override;
  // Each answer is given once: nothing means that there is no value, or no new answer yet.
  std::optional<std::string> get(const std::string& key) override;

 private:
  struct Shared;

  void check();

  std::shared_ptr<Shared> shared_;  // with the thread
  Clock::duration patience_;
  // How long we have seen the same call under way.
  int64_t watched_call_ = 0;
  Clock::time_point watched_at_ = Clock::now();
  Clock::duration waited_ = {};
  std::thread thread_;
};

}  // namespace am::launch
