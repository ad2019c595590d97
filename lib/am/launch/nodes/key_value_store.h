// A small key-value store that the launchers of all nodes of a job share.
//
//   store.set("automesh/none/0/abort", "1");
//   if (const auto text = store.get("automesh/none/0/abort")) ...
//
// The seam between launchers of several machines: supervise() and supervise_with_restarts() tell
// each other through it which rank failed first and how to go on. Values are short texts.
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

  // Both throw Error(kPeer) when the store cannot be reached any more. They may wait for whoever
  // holds it: a launcher, which must not, asks through a BackgroundStore.
  virtual void set(const std::string& key, const std::string& value) = 0;
  // Nothing, at once, where no value was set yet.
  virtual std::optional<std::string> get(const std::string& key) = 0;
};

}  // namespace am::launch
