// Opens sessions on the models of tests/data/hf: on stored files, and with a model that is sharded
// over ranks in this process.
#pragma once

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/checkpoint/weights.h"
#include "am/frameworks/open_weights.h"
#include "am/inspect/command.h"
#include "am/runtime/world.h"
#include "am/values/sharded_view.h"
#include "am/values/stored_view.h"
#include "support/folders.h"

namespace am::values::test {

inline std::string fixture(const std::string& family) {
  return std::string(am::test::kDataFolder) + "/hf/" + family;
}

// Path of the weights, relative to a fixture's folder.
inline const std::string kModel = "/model.safetensors";

inline Session stored_session(const std::string& path, SessionOptions options = {}) {
  return session_of(std::make_unique<StoredView>(frameworks::open_tensor_source(path)), options);
}

// Runs a command that must fail, and returns the message and the hint of its error.
inline std::string error_of(Session& session, const std::string& input) {
  const inspect::Outcome outcome = execute(session, input);
  REQUIRE_FALSE(outcome.ok());
  return outcome.error->message + " | " + outcome.error->hint;
}

// Returns a plan with the weights of a fixture. `mesh` and `strategy` are the TOML text of the
// sections [mesh] and [strategy].
inline std::string plan_text(const std::string& family, const std::string& mesh,
                             const std::string& strategy) {
  return cat("[model]\npath = \"", fixture(family), "\"\nweights = \"", fixture(family),
             "/model.safetensors\"\n[mesh]\n", mesh, "\n[strategy]\n", strategy,
             "\n[train]\nseq_len = 16\n[data]\nkind = \"synthetic\"\n");
}

inline constexpr const char* kPlainFsdp2 =
    "name = \"fsdp2\"\nmp_policy = { param_dtype = \"float32\", reduce_dtype = \"float32\", "
    "output_dtype = "
    "\"float32\" }";

// Runs the commands on every rank and returns the outcomes of rank 0. Each command must succeed on
// all ranks or fail on all. `before` may change the state of a rank. `run` is run_ranks, or
// run_stand_ins for ranks on devices.
inline std::vector<inspect::Outcome> run_on_ranks(
    int64_t ranks, const std::string& plan_toml, const std::vector<std::string>& inputs,
    const std::function<void(Session&)>& before = {},
    decltype(&runtime::run_ranks) run = runtime::run_ranks) {
  Diagnostics found;
  const auto plan = config::parse_plan(plan_toml, "test.toml", {}, found);
  if (!plan) throw Error(ErrorKind::kPlan, found.items().front().message);
  const auto config = model::load_config(plan->resolve(plan->model.path), found);
  if (!config) throw Error(ErrorKind::kPlan, found.items().front().message);
  const job::Job job = job::make_job(*plan, *config, ranks);
  std::vector<std::vector<inspect::Outcome>> outcomes(static_cast<size_t>(ranks));
  const auto body = [&](const runtime::World& world) {
    SessionOptions options;
    options.for_programs = true;
    Session session = session_of(std::make_unique<ShardedView>(job, world), options);
    if (before) before(session);
    for (const std::string& input : inputs) {
      outcomes[static_cast<size_t>(world.rank())].push_back(execute(session, input));
    }
  };
  run(ranks, body, std::chrono::seconds(60));
  for (const auto& of_rank : outcomes) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (of_rank[i].ok() != outcomes[0][i].ok()) {
        throw Error(ErrorKind::kInternal, cat("ranks disagree on ", inputs[i]));
      }
    }
  }
  return outcomes[0];
}

}  // namespace am::values::test
