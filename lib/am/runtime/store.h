// The store for the ranks' rendezvous: c10d's TCPStore. If the launcher does not serve the store
// (launch/nodes/store_server.h), rank 0 serves it.
//
//   auto store = connect_store(here, timeout);  // in each rank
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "am/launch/environment/environment.h"
#include "am/launch/nodes/stores.h"

namespace am::runtime {

// Returns this rank's connection to the store at MASTER_ADDR:MASTER_PORT. Rank 0 serves the store
// unless the launcher does (RankEnvironment::agent_store). Each restart of the job uses a separate
// key prefix. `waiting` is called with the reason if connecting takes long. Throws Error(kPeer),
// which names the address, if no store answers there in time, if the host name is unknown, or if
// the port is in use.
c10::intrusive_ptr<c10d::Store> connect_store(const launch::RankEnvironment& here,
                                              std::chrono::milliseconds timeout,
                                              const launch::Waiting& waiting = nullptr);

// Returns the message to print for a rank whose connection takes long. `reason`: the argument with
// which connect_store calls `waiting`.
std::string waiting_text(const launch::RankEnvironment& here, const std::string& reason);

// Returns a new connection to the server of `store`, for use by another thread. Throws Error(kPeer)
// if the server does not answer within `timeout`.
c10::intrusive_ptr<c10d::Store> connect_again(const c10::intrusive_ptr<c10d::Store>& store,
                                              std::chrono::milliseconds timeout);

// Returns the value of the key. Returns nothing, without waiting, if there is no such key.
std::optional<std::string> store_get(c10d::Store& store, const std::string& key);
// Returns the values of several keys, in the order of `keys`; nothing for each key that does not
// exist. Requests up to 1,024 keys at a time, and fewer if some of them do not exist.
std::vector<std::optional<std::string>> store_get_all(c10d::Store& store,
                                                      const std::vector<std::string>& keys);
void store_set(c10d::Store& store, const std::string& key, const std::string& value);

// Barrier: waits until all `ranks` have called meet() with an equal `name`. A name serves only one
// barrier per store. Throws Error(kPeer) if ranks are missing after `timeout`, or if the store does
// not answer; the message lists the missing ranks. Each rank waits for a single key, so the barrier
// scales to thousands of ranks.
void meet(c10d::Store& store, const std::string& name, int64_t rank,
          const std::vector<int64_t>& ranks, std::chrono::milliseconds timeout);

}  // namespace am::runtime
