// The keys of a store and the requests of its clients, independent of sockets.
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
  // `wake(client)` is called when all keys that the client waits for exist; the server must then
  // send WaitAnswer::kReady to the client.
  explicit Table(std::function<void(int client)> wake) : wake_(std::move(wake)) {}

  // Appends to `answers` the answers to all complete messages at the beginning of `bytes`. Returns
  // the number of bytes of these messages; nothing if one is invalid, so that the connection must
  // be closed.
  std::optional<size_t> serve(int client, std::string_view bytes, std::string& answers);
  // Removes a client whose connection was closed.
  void forget(int client);

  const std::string* find(const std::string& key) const;
  void set(const std::string& key, std::string value);
  // Number of messages served.
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
  // Clients that wait for a key which does not exist yet, by key.
  std::unordered_map<std::string, std::set<int>> waiters_;
  std::map<int, std::set<std::string>> missing_;  // the missing keys that each client waits for
  int64_t served_ = 0;
  std::unordered_set<int> known_;  // clients that have sent the protocol's kMagic
};

}  // namespace am::launch::store
