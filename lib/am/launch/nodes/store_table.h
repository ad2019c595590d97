// The keys of a store, and what its clients ask of them: the protocol without sockets.
//
//   Table table;
//   std::string answers;
//   const auto used = table.serve(client, bytes, answers);   // nothing: not a client of ours
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "am/launch/nodes/store_protocol.h"

namespace am::launch::store {

class Table {
 public:
  // `wake(client)`: the keys that it waits for are all there; it is to be told WaitAnswer::kReady.
  explicit Table(std::function<void(int client)> wake) : wake_(std::move(wake)) {}

  // Answers all whole messages at the beginning of `bytes`, into `answers`; how many bytes they
  // were. Nothing for what no client sends: its connection is to be closed.
  std::optional<size_t> serve(int client, std::string_view bytes, std::string& answers);
  // The client is gone.
  void forget(int client);

  const std::string* find(const std::string& key) const;
  void set(const std::string& key, std::string value);

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
  std::unordered_map<std::string, std::set<int>> waiters_;  // by a key that is not there yet
  std::map<int, std::set<std::string>> missing_;            // by client: keys that it waits for
  std::set<int> known_;                                     // clients that greeted
};

}  // namespace am::launch::store
