#include "am/launch/environment/node_environment.h"

#include <algorithm>

#include "am/launch/environment/variables.h"

namespace am::launch {
namespace {

// Returns the number of machines from PET_NNODES; 1 if it is not set. torchrun allows a range
// MIN:MAX there, for an elastic job. This function accepts a range only if MIN equals MAX, and
// reports an error otherwise.
int64_t pet_nodes(const Variables& variables) {
  const std::string name = "PET_NNODES";
  if (!variables.has(name)) return 1;
  const std::string text = *variables.text(name);
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return variables.number(name, 1).value_or(1);
  if (text.substr(0, colon) == text.substr(colon + 1)) {
    if (const auto nodes = parse_integer(text.substr(colon + 1));
        nodes && *nodes > 0 && *nodes <= Variables::kMost) {
      return *nodes;
    }
  }
  variables.error(
      cat(name, "=", text,
          " is a range of machines, but a job of am-run has a fixed number of machines"),
      "give one number instead of a range");
  return 1;
}

// Returns the number of ranks on each machine from PET_NPROC_PER_NODE. Returns 0 for torchrun's
// values "auto", "gpu" and "cpu"; the caller then uses the plan's number.
int64_t pet_ranks_per_node(const Variables& variables) {
  const std::string text = variables.text("PET_NPROC_PER_NODE").value_or("1");
  if (text == "auto" || text == "gpu" || text == "cpu") return 0;
  return variables.number("PET_NPROC_PER_NODE", 1).value_or(1);
}

std::string pet_address(const Variables& variables) {
  if (const auto endpoint = variables.text("PET_RDZV_ENDPOINT")) return *endpoint;
  const auto first_of = [&](const char* pet, const char* plain) {
    auto text = variables.text(pet);
    if (!text) text = variables.text(plain);
    if (!text) {
      variables.error(
          cat(pet, " is not set, and the job has several machines"),
          cat("set ", pet,
              " on all machines to the same value: the address or port of rank 0's machine"));
    }
    return text.value_or("");
  };
  const std::string host = without_brackets(first_of("PET_MASTER_ADDR", "MASTER_ADDR"));
  const std::string port = first_of("PET_MASTER_PORT", "MASTER_PORT");
  return host.find(':') == std::string::npos ? cat(host, ":", port) : cat("[", host, "]:", port);
}

}  // namespace

std::optional<NodeEnvironment> detect_node(const EnvironmentLookup& lookup, Diagnostics& found) {
  Diagnostics own;
  const Variables variables(lookup, own);
  // A process with LOCAL_RANK is a rank already. The variables PET_* do not show this, because
  // torchrun and am-run pass them on to their ranks.
  if (variables.has("LOCAL_RANK")) return std::nullopt;
  const bool several_ranks = variables.text("PET_NPROC_PER_NODE").value_or("1") != "1";
  const bool is_rank = variables.has("RANK") && variables.has("WORLD_SIZE");
  if (is_rank ? !several_ranks : !several_ranks && !variables.has("PET_NNODES")) {
    return std::nullopt;
  }
  NodeEnvironment node;
  node.ranks = pet_ranks_per_node(variables);
  node.num_nodes = pet_nodes(variables);
  if (!variables.has("PET_NNODES") && is_rank && node.ranks > 0) {
    const int64_t world = variables.number("WORLD_SIZE", 1).value_or(node.ranks);
    if (world % node.ranks != 0) {
      variables.error(
          cat("WORLD_SIZE=", world, " is not a multiple of PET_NPROC_PER_NODE=", node.ranks),
          "set WORLD_SIZE to the number of machines times PET_NPROC_PER_NODE");
    }
    node.num_nodes = std::max<int64_t>(1, world / node.ranks);
  }
  if (node.num_nodes > 1) {
    const std::string rank = variables.has("PET_NODE_RANK") || !is_rank ? "PET_NODE_RANK" : "RANK";
    node.node_rank = variables.required(rank, 0, "PET_NNODES");
    if (node.node_rank >= node.num_nodes) {
      variables.error(
          cat(rank, "=", node.node_rank, " must be below the number of machines, ", node.num_nodes),
          "");
    }
    node.address = pet_address(variables);
  }
  found.append(own);
  if (!own.ok()) return std::nullopt;
  return node;
}

}  // namespace am::launch
