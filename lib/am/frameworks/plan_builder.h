// Builds a plan during an import: values are checked against the plan's table of fields, and errors
// point into the imported file.
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
  // The strategy is needed first, because it determines the legal keys. `model`: null if unknown.
  PlanBuilder(Source& source, std::string_view strategy, const model::ModelConfig* model = nullptr);

  // Sets a value, which must have the key's type; reports errors at its span.
  void set(std::string_view key, const config::Value& value);
  // Overload for an integer, number, boolean or text that was computed from the setting at `path`
  // of the source.
  template <typename T>
  void set(std::string_view key, T value, std::string_view path = {}) {
    set(key, config::value_of(value, source_.span(path)));
  }
  void set(std::string_view key, const char* value, std::string_view path = {}) {
    set(key, std::string(value), path);
  }
  // Overload for a list of integers.
  void set(std::string_view key, const std::vector<int64_t>& values, std::string_view path = {});

  // Set fsdp2's mp_policy, its offload_policy, and AdamW's betas.
  void set_mp_policy(const std::string& param, const std::string& reduce, const std::string& output,
                     std::string_view path);
  void set_offload(bool pin_memory, std::string_view path);
  void set_betas(double first, double second, std::string_view path);

  // Copies a setting unchanged, if it exists.
  void copy(std::string_view path, std::string_view key);

  // Adds to Imported::lost a setting that changes the job and that a plan cannot express. `why`:
  // what the setting changes, e.g. "the precision".
  void lose(std::string_view path, std::string_view why);

  // Whether the plan's strategy has the key; for keys of a single strategy, which are otherwise
  // skipped silently.
  bool knows(std::string_view key) const;

  void note(std::string text) { notes_.push_back(std::move(text)); }
  const config::Plan& plan() const { return plan_; }
  config::Plan& plan() { return plan_; }
  Source& source() { return source_; }
  const model::ModelConfig* model() const { return model_; }
  // Records the file's name of the model.
  void name_model(std::string_view path);

  // Sets the mesh sizes; dp_size and world_size follow from the arguments. `dp_shard` 0: unknown,
  // so that the launcher determines the world size.
  void set_mesh(int64_t dp_replicate, int64_t dp_shard, int64_t tp, int64_t pp, int64_t cp,
                int64_t ep, std::string_view path);

  // `warmup_path`: the source's key of the warm-up, which is lost if it is longer than the job.
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
