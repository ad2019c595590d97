#include "rendezvous.h"

#include <chrono>
#include <iostream>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "am/base/json.h"
#include "am/launch/cause/rank_state.h"
#include "am/launch/nodes/node_rendezvous.h"
#include "am/launch/nodes/stores.h"
#include "am/term/printable.h"

namespace am_run {

using namespace am;

namespace {

// Returns the last state that the rank published in the store; nothing if the store contains no
// readable state. The launcher reports this state for a rank that died without an error report.
std::optional<launch::LastWord> last_word(const launch::StoreServer& store, int64_t rank,
                                          int64_t restart) {
  const auto text = store.get(launch::state_key_in_store(restart, rank));
  if (!text) return std::nullopt;
  try {
    const auto state = launch::RankState::from_json(Json::parse(*text));
    return launch::LastWord{state.step, state.whereabouts(), state.time};
  } catch (const std::exception&) {
    return std::nullopt;  // unreadable state: the report is printed without it
  }
}

}  // namespace

Rendezvous::Rendezvous(const Options& options, launch::JobSpec& spec,
                       launch::StoreTrouble trouble) {
  const bool several_nodes = options.nnodes > 1;
  if (!options.rdzv.empty()) {
    std::tie(spec.master_addr, spec.master_port) = host_and_port(options.rdzv);
  }
  if (!several_nodes) spec.master_addr = "127.0.0.1";
  spec.agent_store = !options.exec();
  if (!several_nodes && options.exec()) return;
  if (options.node_rank == 0) {
    server_ = std::make_shared<launch::StoreServer>(
        spec.master_port,
        several_nodes ? launch::BindScope::kNetwork : launch::BindScope::kThisMachine,
        std::move(trouble));
    spec.master_port = server_->port();
  }
  if (server_ && !options.exec()) {
    spec.last_word = [this](int64_t rank, int64_t restart) {
      return last_word(*server_, rank, restart);
    };
  }
  if (!several_nodes) return;
  std::shared_ptr<launch::KeyValueStore> store;
  if (server_) {
    store = std::make_shared<launch::ServedStore>(server_);
  } else {
    // The machines of a job do not start at the same moment, so the constructor waits for node 0.
    store = std::make_shared<launch::RemoteStore>(
        spec.master_addr, spec.master_port, std::chrono::seconds(options.timeout_seconds),
        [&](const std::string& reason) {
          std::cerr << "waiting for node 0 at " << term::echo(options.rdzv) << ": " << reason
                    << "\n";
        });
  }
  store_ = std::make_unique<launch::BackgroundStore>(
      std::move(store), launch::heartbeat_key(spec.run_id, spec.node_rank),
      std::chrono::seconds(10), launch::look_interval(spec.num_nodes));
  spec.store = store_.get();
  // The store of the launchers occupies the port of --rdzv. With port 0, node 0 chooses a free port
  // for the store of the program's ranks.
  if (options.exec()) spec.master_port = 0;
}

}  // namespace am_run
