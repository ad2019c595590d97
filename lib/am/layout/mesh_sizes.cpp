// Implements draft_mesh and resolve_mesh, which derive the mesh sizes from [mesh] and check them,
// and ranks_of_node.
#include <algorithm>
#include <utility>

#include "am/base/legal_values.h"
#include "am/base/text.h"
#include "am/layout/layout.h"

namespace am::layout {
namespace {

// Largest allowed size of an axis and of the world: more ranks than any real cluster has, and small
// enough that no product of sizes overflows.
constexpr int64_t kMaxRanks = int64_t{1} << 20;

struct SizeKey {
  const char* name;
  int64_t value;
};

bool cuts_nothing(const config::DistributedConfig& strategy) {
  if (std::holds_alternative<config::DDPConfig>(strategy)) return true;
  if (const auto* megatron = std::get_if<config::MegatronConfig>(&strategy)) {
    return megatron->zero == 0;
  }
  const auto* fsdp = std::get_if<config::MegatronFSDPConfig>(&strategy);
  return fsdp != nullptr && fsdp->zero_dp_strategy == 0;
}

class Resolver {
 public:
  Resolver(const config::Plan& plan, int64_t launched, Diagnostics& found)
      : plan_(plan), mesh_(plan.mesh), launched_(launched), found_(found) {}

  MeshDraft run() {
    const int before = found_.errors();
    MeshDraft draft;
    check_ranges();
    if (found_.errors() > before) return draft;
    draft.axes = {.pp = mesh_.pp_size, .cp = mesh_.cp_size, .tp = mesh_.tp_size};
    find_world();
    find_dp();
    if (dp_ == 0) return draft;
    draft.dp = dp_;
    check_experts();
    if (found_.errors() == before) check_expert_tp();
    const mesh::MeshSizes sizes = find_replicas();
    if (found_.errors() == before) draft.sizes = sizes;
    return draft;
  }

 private:
  Span span(const char* key) const { return plan_.span(cat("mesh.", key)); }

  // Returns tp * cp * pp, the number of ranks of one data-parallel replica.
  int64_t replica() const { return mesh_.tp_size * mesh_.cp_size * mesh_.pp_size; }

  void check_ranges() {
    const int before = found_.errors();
    for (const SizeKey& key : {SizeKey{"tp_size", mesh_.tp_size}, SizeKey{"cp_size", mesh_.cp_size},
                               SizeKey{"pp_size", mesh_.pp_size}, SizeKey{"ep_size", mesh_.ep_size},
                               SizeKey{"dp_replicate_size", mesh_.dp_replicate_size},
                               SizeKey{"dp_size", std::max<int64_t>(mesh_.dp_size, 1)},
                               SizeKey{"world_size", std::max<int64_t>(mesh_.world_size, 1)},
                               SizeKey{"ranks_per_node", mesh_.ranks_per_node}}) {
      if (key.value >= 1 && key.value <= kMaxRanks) continue;
      found_.error("mesh.size", span(key.name),
                   cat(key.name, " = ", key.value,
                       key.value < 1 ? ": must be at least 1" : ": more ranks than are supported"),
                   cat("legal values: 1 to ", kMaxRanks));
    }
    if (found_.errors() > before) return;
    int64_t product = 1;
    for (const int64_t given : {mesh_.tp_size, mesh_.cp_size, mesh_.pp_size, mesh_.dp_size}) {
      const int64_t size = std::max<int64_t>(given, 1);
      if (size <= kMaxRanks / product) {
        product *= size;
        continue;
      }
      found_.error("mesh.size", plan_.span("mesh"),
                   cat("the product of the sizes is more than ", kMaxRanks, " ranks"),
                   cat("tp_size * cp_size * pp_size * dp_size must not exceed ", kMaxRanks));
      return;
    }
  }

  // Sets world_ from launched_, world_size or dp_size, or reports an error. If launched_ differs
  // from world_size, also reports an error, and uses world_size.
  void find_world() {
    world_ = launched_ > 0 ? launched_ : mesh_.world_size;
    if (launched_ > 0 && mesh_.world_size > 0 && launched_ != mesh_.world_size) {
      found_.error(
          "mesh.world", span("world_size"),
          cat("world_size = ", mesh_.world_size, ", but the launcher or --world-size gives ",
              launched_, launched_ == 1 ? " rank" : " ranks"),
          cat("set the launcher's world size (or --world-size) to ", mesh_.world_size,
              ", or set world_size = ", launched_));
      world_ = mesh_.world_size;
    }
    if (world_ == 0 && mesh_.dp_size > 0) world_ = mesh_.dp_size * replica();
    if (world_ > 0) return;
    found_.error(
        "mesh.world", span("world_size"),
        "neither world_size nor dp_size is given, so the number of ranks is unknown",
        cat("set mesh.world_size, or give am-plan --world-size: a multiple of tp_size * cp_size * "
            "pp_size = ",
            replica()));
  }

  // Sets dp_, which stays 0 if the data-parallel size cannot be determined. A dp_size that
  // contradicts the world size is used as written, so that the rules about batches can run.
  void find_dp() {
    if (world_ == 0) return;
    dp_ = mesh_.dp_size;
    if (dp_ > 0) {
      if (dp_ * replica() != world_) report_product();
    } else if (world_ % replica() == 0) {
      dp_ = world_ / replica();
    } else {
      report_division();
    }
  }

  // Returns the key that is most likely wrong: the largest of tp_size, pp_size and cp_size.
  SizeKey blamed() const {
    SizeKey worst{"tp_size", mesh_.tp_size};
    for (const SizeKey& key :
         {SizeKey{"pp_size", mesh_.pp_size}, SizeKey{"cp_size", mesh_.cp_size}}) {
      if (key.value > worst.value) worst = key;
    }
    return worst;
  }

  std::string sizes_text() const {
    return cat("tp_size * cp_size * pp_size = ", mesh_.tp_size, " * ", mesh_.cp_size, " * ",
               mesh_.pp_size, " = ", replica());
  }

  // Returns the legal values of `key` nearest to the written value. With a legal value and the
  // other two sizes unchanged, tp_size * cp_size * pp_size divides the world size.
  std::vector<int64_t> legal_for(const SizeKey& key) const {
    const int64_t others = replica() / key.value;
    if (world_ % others != 0) return {};
    return nearest_values(divisors(world_ / others), key.value);
  }

  void report_division() {
    const SizeKey key = blamed();
    std::vector<std::string> ways;
    const std::string legal = assignment(key.name, legal_for(key));
    if (!legal.empty()) ways.push_back(legal);
    ways.push_back(assignment("world_size", nearest_multiples(replica(), world_)));
    found_.error("mesh.divide", span(key.name),
                 cat("world_size = ", world_, " is not divisible by ", sizes_text()),
                 join(ways, "; or "));
  }

  void report_product() {
    std::vector<std::string> ways;
    if (world_ % replica() == 0)
      ways.push_back(cat("dp_size = ", world_ / replica(), " (or 0 to compute it)"));
    ways.push_back(cat("world_size = ", mesh_.dp_size * replica()));
    found_.error(
        "mesh.product", span("dp_size"),
        cat("dp_size * ", sizes_text().substr(0, sizes_text().find(" = ")), " = ", mesh_.dp_size,
            " * ", mesh_.tp_size, " * ", mesh_.cp_size, " * ", mesh_.pp_size, " = ",
            mesh_.dp_size * replica(), ", but world_size = ", world_),
        join(ways, "; or "));
  }

  void check_experts() {
    const int64_t stage = dp_ * mesh_.cp_size * mesh_.tp_size;
    if (stage % mesh_.ep_size == 0) return;
    found_.error(
        "mesh.ep", span("ep_size"),
        cat("ep_size = ", mesh_.ep_size, " does not divide dp_size * cp_size * tp_size = ", stage),
        assignment("ep_size", nearest_values(divisors(stage), mesh_.ep_size)));
  }

  // Returns etp, the number of ranks over which tensor parallelism cuts each routed expert: 1
  // except under the strategy megatron.
  int64_t expert_tp() const {
    const auto* megatron = std::get_if<config::MegatronConfig>(&plan_.strategy);
    return megatron != nullptr ? megatron->expert_tp(mesh_.tp_size) : 1;
  }

  // Must be called only if ep_size divides the number of ranks of a stage.
  void check_expert_tp() {
    const int64_t etp = expert_tp();
    const int64_t each = dp_ * mesh_.cp_size * mesh_.tp_size / mesh_.ep_size;
    if (each % etp == 0) return;
    const bool given = plan_.given("strategy.etp_size");
    found_.error("mesh.etp", given ? plan_.span("strategy.etp_size") : span("ep_size"),
                 cat(given ? "etp_size = " : "etp_size = tp_size = ", etp,
                     " does not divide dp_size * cp_size * tp_size / ep_size = ", each),
                 assignment("etp_size", nearest_values(divisors(each), etp)));
  }

  mesh::MeshSizes find_replicas() {
    mesh::MeshSizes sizes{.pp = mesh_.pp_size,
                          .dp_replicate = mesh_.dp_replicate_size,
                          .dp_shard = 1,
                          .cp = mesh_.cp_size,
                          .tp = mesh_.tp_size,
                          .ep = mesh_.ep_size,
                          .etp = expert_tp()};
    if (cuts_nothing(plan_.strategy)) {
      sizes.dp_replicate = dp_;  // every data-parallel rank is a replica
      return sizes;
    }
    const int64_t replicas = mesh_.dp_replicate_size;
    if (dp_ % replicas != 0) {
      found_.error("mesh.replicate", span("dp_replicate_size"),
                   cat("dp_replicate_size = ", replicas, " does not divide dp_size = ", dp_),
                   assignment("dp_replicate_size", nearest_values(divisors(dp_), replicas)));
      return sizes;
    }
    sizes.dp_shard = dp_ / replicas;
    return sizes;
  }

  const config::Plan& plan_;
  const config::MeshSection& mesh_;
  int64_t launched_;
  Diagnostics& found_;
  int64_t world_ = 0;
  int64_t dp_ = 0;
};

}  // namespace

MeshDraft draft_mesh(const config::Plan& plan, int64_t world_size, Diagnostics& found) {
  return Resolver(plan, world_size, found).run();
}

std::optional<mesh::MeshSizes> resolve_mesh(const config::Plan& plan, int64_t world_size,
                                            Diagnostics& found) {
  return draft_mesh(plan, world_size, found).sizes;
}

int64_t ranks_of_node(const config::Plan& plan, int64_t world_size) {
  const int64_t most = plan.mesh.ranks_per_node;
  const int64_t nodes = plan.cluster.nodes;
  return nodes > 0 ? std::min(most, (world_size + nodes - 1) / nodes) : most;
}

}  // namespace am::layout
