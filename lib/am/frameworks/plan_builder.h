// Builds a plan during an import. Checks values against the plan's table of fields; error messages
// have the line and column of the value in the imported file.
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

  // Sets a key of the plan. Reports an error at value.span if the value does not have the key's
  // type or is illegal. Has no effect if the plan's strategy does not have the key.
  void set(std::string_view key, const config::Value& value);
  // Overload for an integer, number, boolean or text that was computed from the source's setting
  // `path`, to which error messages point.
  template <typename T>
  void set(std::string_view key, T value, std::string_view path = {}) {
    set(key, config::value_of(value, source_.span(path)));
  }
  void set(std::string_view key, const char* value, std::string_view path = {}) {
    set(key, std::string(value), path);
  }
  // Overload for a list of integers.
  void set(std::string_view key, const std::vector<int64_t>& values, std::string_view path = {});

  // Set strategy.mp_policy (names of dtypes), strategy.offload_policy and optimizer.betas.
  void set_mp_policy(const std::string& param, const std::string& reduce, const std::string& output,
                     std::string_view path);
  void set_offload(bool pin_memory, std::string_view path);
  void set_betas(double first, double second, std::string_view path);

  // Sets the plan's `key` to the value of the source's setting `path`, if the source has it.
  void copy(std::string_view path, std::string_view key);

  // Adds the setting `path` to Imported::lost: it changes the job and a plan cannot express it.
  // `why`: the aspect of the job that it changes, for example "the precision".
  void lose(std::string_view path, std::string_view why);

  // Whether the plan's strategy has the key. set() skips other keys without a message.
  bool knows(std::string_view key) const;

  void note(std::string text) { notes_.push_back(std::move(text)); }
  const config::Plan& plan() const { return plan_; }
  config::Plan& plan() { return plan_; }
  Source& source() { return source_; }
  const model::ModelConfig* model() const { return model_; }
  // Records the setting `path`, which names the model, for compare_model().
  void name_model(std::string_view path);

  // Sets the sizes of the mesh. dp_size and world_size follow from the arguments. If `dp_shard` is
  // 0, it is unknown; then adds a note that the launcher determines the number of ranks.
  void set_mesh(int64_t dp_replicate, int64_t dp_shard, int64_t tp, int64_t pp, int64_t cp,
                int64_t ep, std::string_view path);

  // Returns the plan with everything that was recorded. A warm-up that is longer than the job is
  // shortened and recorded as lost. `warmup_path`: the source's setting of the warm-up.
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

// Returns the product, or 2^62 if it is larger.
int64_t saturating_product(std::initializer_list<int64_t> factors);

}  // namespace am::frameworks
