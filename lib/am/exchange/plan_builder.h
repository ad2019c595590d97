// A plan while an importer makes it: keys are checked by the plan's own field table, and an error
// points into the file that the value came from.
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

#include "am/exchange/exchange.h"
#include "am/exchange/source.h"

namespace am::exchange {

class PlanBuilder {
 public:
  // The strategy comes first: it decides which keys there are. `model`: null where it is not known.
  PlanBuilder(Source& source, std::string_view strategy, const model::ModelConfig* model = nullptr);

  // A value of the plan's kind; errors at its span.
  void set(std::string_view key, const config::Value& value);
  // The same for a value that was computed from what stands at `path` of the source: an integer, a
  // number, a boolean or a text.
  template <typename T>
  void set(std::string_view key, T value, std::string_view path = {}) {
    set(key, value_of(value, source_.span(path)));
  }
  void set(std::string_view key, const char* value, std::string_view path = {}) {
    set(key, std::string(value), path);
  }
  // Several integers.
  void set(std::string_view key, const std::vector<int64_t>& values, std::string_view path = {});

  // fsdp2's mp_policy, its offload_policy, and AdamW's betas, from what was read for them.
  void set_mp_policy(const std::string& param, const std::string& reduce, const std::string& output,
                     std::string_view path);
  void set_offload(bool pin_memory, std::string_view path);
  void set_betas(double first, double second, std::string_view path);

  // Takes a setting over as it is, when it is there.
  void copy(std::string_view path, std::string_view key);

  // A setting that changes the job and that a plan cannot say: it becomes one of Imported::lost.
  // `why`: a noun for "changes ...", "the precision".
  void lose(std::string_view path, std::string_view why);

  // What the plan's strategy does not know is left out, silently: for keys of one strategy alone.
  bool knows(std::string_view key) const;

  void note(std::string text) { notes_.push_back(std::move(text)); }
  const config::Plan& plan() const { return plan_; }
  config::Plan& plan() { return plan_; }
  Source& source() { return source_; }
  const model::ModelConfig* model() const { return model_; }
  // What the file calls its model.
  void name_model(std::string_view path);

  // Sizes of the mesh: dp_size and world_size from their parts; `dp_shard` 0: not given, and the
  // world is then the launcher's.
  void set_mesh(int64_t dp_replicate, int64_t dp_shard, int64_t tp, int64_t pp, int64_t cp,
                int64_t ep, std::string_view path);

  // `warmup_path`: the source's key of the warm-up, which is lost where it is longer than the job.
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

// The product, or 2^62 when it is larger.
int64_t saturating_product(std::initializer_list<int64_t> factors);

}  // namespace am::exchange
