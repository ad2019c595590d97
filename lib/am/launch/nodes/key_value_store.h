// Interface of a small key-value store that the launchers of all nodes of a job share.
//
//   store.set("automesh/none/0/abort", "1");
//   if (const auto text = store.get("automesh/none/0/abort")) ...
//
// The launchers of several machines communicate only through this interface. supervise() and
// supervise_with_restarts() use it to agree on the rank that failed first and on a restart.
#pragma once

#include <optional>
#include <string>

namespace am::launch {

class KeyValueStore {
 public:
  KeyValueStore() = default;
  KeyValueStore(const KeyValueStore&) = delete;
  KeyValueStore& operator=(const KeyValueStore&) = delete;
  virtual ~KeyValueStore() = default;

  // All functions throw Error(kPeer) if the store can no longer be reached. All functions may block
  // while the process that serves the store does not respond. A launcher must not block, so it uses
  // a BackgroundStore.
  virtual void set(const std::string& key, const std::string& value) = 0;
  // Sets a value as set() does. Callers use this function if another call follows at once. The
  // store may then send both calls in one message.
  virtual void set_with_next(const std::string& key, const std::string& value) { set(key, value); }
  // Returns the key's value; nothing if the key has no value. Does not wait until the key is set.
  virtual std::optional<std::string> get(const std::string& key) = 0;
};

}  // namespace am::launch
