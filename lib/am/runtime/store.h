// The store through which ranks find each other: c10d's TCPStore, served by the launcher (or by
// rank 0 under a launcher that serves none).
//
//   StoreServer server(0, Reach::kThisMachine);   // in the launcher; its port goes to the ranks
//   auto store = connect_store(here, timeout);  // in each rank
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

#include "am/launch/board.h"
#include "am/launch/environment.h"

namespace am::runtime {

// Who can connect to a store. There is no password: whoever connects can change everything.
enum class Reach { kThisMachine, kNetwork };

// A store that serves until this object ends.
class StoreServer {
 public:
  // `port` 0: a free one. Throws Error(kPeer) that names the port when it is in use.
  StoreServer(int port, Reach reach);

  int port() const { return port_; }
  const c10::intrusive_ptr<c10d::Store>& store() const { return store_; }

 private:
  c10::intrusive_ptr<c10d::Store> store_;
  int port_ = 0;
};

// The board of the launchers of several machines, on a store. A call waits as long as whoever
// serves the store does not answer: launchers ask through a launch::BackgroundBoard.
class StoreBoard : public launch::Board {
 public:
  explicit StoreBoard(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {}
  // Connects to the store that node 0's launcher serves. Throws Error(kPeer) that names the address
  // when nobody serves it within `timeout`.
  static std::unique_ptr<StoreBoard> connect(const std::string& host, int port,
                                             std::chrono::milliseconds timeout);

  void set(const std::string& key, const std::string& value) override;
  std::optional<std::string> get(const std::string& key) override;

 private:
  c10::intrusive_ptr<c10d::Store> store_;
};

// This rank's connection to the store at MASTER_ADDR:MASTER_PORT; rank 0 serves it unless the
// launcher does (RankEnvironment::agent_store). Each restart of the job has a part of its own.
// Throws Error(kPeer) that names the address: nobody serves it in time, or the port is taken.
c10::intrusive_ptr<c10d::Store> connect_store(const launch::RankEnvironment& here,
                                              std::chrono::milliseconds timeout);

// Before the keys of one attempt of a job, in the store that connect_store() reaches.
std::string attempt_prefix(int64_t restart_count);

// Values are texts. Nothing, at once, when there is no such key.
std::optional<std::string> store_get(c10d::Store& store, const std::string& key);
void store_set(c10d::Store& store, const std::string& key, const std::string& value);

// Collective: waits until all `ranks` have come here with the same `name`. Throws Error(kPeer) that
// names those that have not, after `timeout`. Each rank waits for one key, whatever their number,
// so that thousands can meet.
void meet(c10d::Store& store, const std::string& name, int64_t rank,
          const std::vector<int64_t>& ranks, std::chrono::milliseconds timeout);

}  // namespace am::runtime
