// The keys of a store, and the functions that serve its clients' requests. Independent of sockets.
//
//   Table table([](int waiting) { .. });   // wakes a client whose keys exist now
//   std::string answers;
//   const auto used = table.serve(client, bytes, answers);   // nothing: close the connection
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "am/launch/nodes/store_protocol.h"

namespace am::launch::store {

class Table {
 public:
  // The table calls `wake(client)` once all keys for which the client waits exist. The server must
  // then send WaitAnswer::kReady to the client. `client` is any number that identifies a
  // connection.
  explicit Table(std::function<void(int client)> wake) : wake_(std::move(wake)) {}

  // Serves all complete requests at the beginning of `bytes`, and appends the answers to `answers`.
  // Returns the number of bytes of these requests. Returns nothing if a request is invalid; the
  // caller must then close the connection.
  std::optional<size_t> serve(int client, std::string_view bytes, std::string& answers);
  // Removes a client whose connection was closed.
  void forget(int client);

  // Returns the key's value; null if the key does not exist.
  const std::string* find(const std::string& key) const;
  void set(const std::string& key, std::string value);
  // Returns the number of requests served.
  int64_t served() const { return served_; }

 private:
  enum class Step { kDone, kIncomplete, kInvalid };

  Step serve_one(int client, Reader& reader, std::string& answers);
  Step set_one(Reader& reader);
  Step compare_set(Reader& reader, std::string& answers);
  Step add(Reader& reader, std::string& answers);
  Step append(Reader& reader);
  Step multi_set(Reader& reader);
  Step get(const std::vector<std::string>& keys, std::string& answers) const;
  void stop_waiting(int client);
  void wait(int client, const std::vector<std::string>& keys, std::string& answers);
  std::optional<std::vector<std::string>> keys(Reader& reader, Step& failed) const;

  std::function<void(int client)> wake_;
  std::unordered_map<std::string, std::string> values_;
  // The clients that wait for a key, by key. Contains only keys that do not exist yet.
  std::unordered_map<std::string, std::set<int>> waiters_;
  // The keys that do not exist yet and for which a client waits, by client.
  std::map<int, std::set<std::string>> missing_;
  int64_t served_ = 0;
  std::unordered_set<int> known_;  // clients that have sent kMagic (store_protocol.h)
};

}  // namespace am::launch::store
