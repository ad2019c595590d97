// A store whose calls return immediately: a background thread does the waiting.
//
//   BackgroundStore store(remote_store, heartbeat_key("none", node_rank));
//   store.set("a", "1");      // written soon, after all earlier calls
//   store.get("b");           // the value if it has arrived; otherwise requests it
//
// The process that serves a store may be stopped or unreachable, and a call then waits
// indefinitely. A launcher must still react to the user's signals, and notice after a while that
// the store does not answer.
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

  // The thread also writes a rising number to `heartbeat_key` about every `beat_interval`, before
  // any pending requests, to show that this process is alive while its other threads wait.
  BackgroundStore(std::shared_ptr<KeyValueStore> store, std::string heartbeat_key,
                  Clock::duration patience = std::chrono::seconds(10),
                  Clock::duration beat_interval = std::chrono::milliseconds(500));
  // Waits up to 2 s for pending values to be written. A call that does not return is abandoned,
  // with its thread and its reference to the store.
  ~BackgroundStore() override;

  // set() and get() throw Error(kPeer) if the store is lost. The store is lost permanently once a
  // call fails or does not return within `patience`.
  void set(const std::string& key, const std::string& value) override;
  // Returns the value that has arrived for the key, once; the next call requests the key's value
  // again. Returns nothing if the key has no value, or if no value has arrived yet. A key without a
  // value is requested again after 1/5 of `beat_interval`.
  std::optional<std::string> get(const std::string& key) override;

 private:
  struct Shared;

  void check();

  std::shared_ptr<Shared> shared_;  // state that the background thread shares
  Clock::duration patience_;
  // State of check(): the number of the call at the last check, the time of the last check, and the
  // time for which the call has been in progress.
  int64_t watched_call_ = 0;
  Clock::time_point watched_at_ = Clock::now();
  Clock::duration waited_ = {};
  std::thread thread_;
};

}  // namespace am::launch
