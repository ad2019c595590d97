// Builds a plan during an import. Checks each value against the plan's table of fields. Errors
// point to the line and column of the value in the imported file.
//
//   PlanBuilder builder(source, "fsdp2");
//   builder.set("mesh.tp_size", source.size("parallelism.tensor_parallel_degree", 1));
//   return builder.done(source.ignored("torchtitan's own"));
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "am/frameworks/exchange.h"
#include "am/frameworks/source.h"

namespace am::frameworks {

class PlanBuilder {
 public:
  // `strategy`: name of the plan's strategy, which determines the keys that the plan may have.
  // `model`: null if unknown.
  PlanBuilder(Source& source, std::string_view strategy, const model::ModelConfig* model = nullptr);

  // Sets a key of the plan. Reports an error at value.span if the value is illegal or has the wrong
  // type. Does nothing if the plan's strategy does not have the key.
  void set(std::string_view key, const config::Value& value);
  // Overload for an integer, number, boolean or text that was computed from the source's setting
  // `path`. Errors point to this setting.
  template <typename T>
  void set(std::string_view key, T value, std::string_view path = {}) {
    set(key, config::value_of(value, source_.span(path)));
  }
  void set(std::string_view key, const char* value, std::string_view path = {}) {
    set(key, std::string(value), path);
  }
  // Overload for a list of integers.
  void set(std::string_view key, const std::vector<int64_t>& values, std::string_view path = {});

  // Set strategy.mp_policy (from names of dtypes), strategy.offload_policy and optimizer.betas.
  // Errors point to the source's setting `path`.
  void set_mp_policy(const std::string& param, const std::string& reduce, const std::string& output,
                     std::string_view path);
  void set_offload(bool pin_memory, std::string_view path);
  void set_betas(double first, double second, std::string_view path);

  // Sets the plan's `key` to the value of the source's setting `path`. Does nothing if the source
  // does not have the setting.
  void copy(std::string_view path, std::string_view key);

  // Records the source's setting `path` in Imported::lost. A lost setting changes the job, but
  // cannot be expressed in a plan. `why`: the aspect of the job that the setting changes, for
  // example "the precision".
  void lose(std::string_view path, std::string_view why);

  // Whether the plan's strategy has the key. For other keys, set() does nothing.
  bool knows(std::string_view key) const;

  void note(std::string text) { notes_.push_back(std::move(text)); }
  const config::Plan& plan() const { return plan_; }
  config::Plan& plan() { return plan_; }
  Source& source() { return source_; }
  const model::ModelConfig* model() const { return model_; }
  // Records the setting `path`, whose value is the name of a model. compare_model() compares this
  // name with the plan's model.
  void name_model(std::string_view path);

  // The size of an axis of the mesh, and the path of the source's setting with this size.
  struct Axis {
    int64_t size = 1;
    std::string path = {};
  };
  struct Axes {
    Axis dp_replicate = {}, dp_shard = {}, tp = {}, pp = {}, cp = {}, ep = {};
  };
  // Sets the sizes of the mesh's axes, and dp_size and world_size, which are products of these
  // sizes. If dp_shard.size is 0, the number of ranks is unknown: set_mesh() then omits dp_size and
  // world_size, and adds a note that the launcher determines the number of ranks. Errors about
  // dp_size, world_size and axes without a setting point to dp_shard.path.
  void set_mesh(const Axes& axes);

  // Returns the finished plan and everything that was recorded. If the warm-up is longer than the
  // job, shortens the warm-up and records the setting `warmup_path` as lost. If the plan's
  // max_steps was never set, lengthens the job to the warm-up instead, and adds a note.
  Imported done(std::vector<Ignored> ignored,
                std::string_view warmup_path = "scheduler.warmup_steps");

 private:
  Source& source_;
  const model::ModelConfig* model_;
  config::Plan plan_;
  std::vector<std::string> keys_;
  std::vector<Ignored> lost_;
  std::vector<ModelName> names_;
  std::vector<std::string> notes_;
};

// Returns whether the name of a data set is a local path and not a name on the hub. A local path
// has the suffix of a data file, for example ".jsonl", or begins with "/", "./" or "../".
bool is_local_data(std::string_view name);

// Returns the product of the factors, limited to 2^62.
int64_t saturating_product(std::initializer_list<int64_t> factors);

}  // namespace am::frameworks
