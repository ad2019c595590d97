// A store whose calls return immediately. A background thread calls the real store and waits for
// its answers.
//
//   BackgroundStore store(remote_store, heartbeat_key("none", node_rank));
//   store.set("a", "1");      // written soon, after all earlier calls
//   store.get("b");           // the value if it has arrived; otherwise requests it
//
// The process that serves the real store may be stopped or unreachable. A call of the real store
// then waits indefinitely, but a launcher must still react to the user's signals and notice after a
// while that the store does not answer.
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

  // Starts the thread. About every `beat_interval`, the thread also writes a rising number to
  // `heartbeat_key`, before any pending requests. The number shows that this process is alive while
  // its other threads wait. `patience`: see set().
  BackgroundStore(std::shared_ptr<KeyValueStore> store, std::string heartbeat_key,
                  Clock::duration patience = std::chrono::seconds(10),
                  Clock::duration beat_interval = std::chrono::milliseconds(500));
  // Waits up to 2 s until the thread has completed all pending requests. If a call of the real
  // store does not return in this time, abandons the thread, which keeps its reference to the real
  // store.
  ~BackgroundStore() override;

  // set() and get() throw Error(kPeer) if the store is lost. The store is lost permanently once a
  // call of the real store fails or does not return within `patience`.
  void set(const std::string& key, const std::string& value) override;
  // Returns the key's value if the value has arrived, and otherwise requests it and returns
  // nothing. A value is returned only once: the next call requests the key's value again. If the
  // key had no value, get() repeats the request at the earliest after 1/5 of `beat_interval`.
  std::optional<std::string> get(const std::string& key) override;

 private:
  struct Shared;

  void check();

  std::shared_ptr<Shared> shared_;  // state that this object and the thread share
  Clock::duration patience_;
  // State of check(): the number of the call in progress at the last check, the time of the last
  // check, and the time for which this call has been in progress.
  int64_t watched_call_ = 0;
  Clock::time_point watched_at_ = Clock::now();
  Clock::duration waited_ = {};
  std::thread thread_;
};

}  // namespace am::launch
