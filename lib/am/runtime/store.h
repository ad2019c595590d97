// The store through which ranks find each other: c10d's TCPStore, served by the launcher
// (launch/nodes/store_server.h), or by rank 0 under a launcher that serves none.
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

// This rank's connection to the store at MASTER_ADDR:MASTER_PORT; rank 0 serves it unless the
// launcher does (RankEnvironment::agent_store). Each restart of the job has a part of its own.
// `waiting` hears why it takes long. Throws Error(kPeer) that names the address: nobody serves it
// in time, its name is not known, or the port is taken.
c10::intrusive_ptr<c10d::Store> connect_store(const launch::RankEnvironment& here,
                                              std::chrono::milliseconds timeout,
                                              const launch::Waiting& waiting = nullptr);

// Values are texts. Nothing, at once, when there is no such key.
std::optional<std::string> store_get(c10d::Store& store, const std::string& key);
void store_set(c10d::Store& store, const std::string& key, const std::string& value);

// Collective: waits until all `ranks` have come here with the same `name`. Throws Error(kPeer) that
// names those that have not, after `timeout`. Each rank waits for one key, whatever their number,
// so that thousands can meet.
void meet(c10d::Store& store, const std::string& name, int64_t rank,
          const std::vector<int64_t>& ranks, std::chrono::milliseconds timeout);

}  // namespace am::runtime
