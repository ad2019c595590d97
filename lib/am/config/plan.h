// The plan: one TOML file describes one job. INTERFACE's schema as typed values.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/diagnostic.h"
#include "am/config/strategy_config.h"

namespace am::config {

struct ModelSection {
  std::string path;              // required: a config.json or its folder, relative to the plan
  std::string weights = "auto";  // auto | none | path
  std::string dtype = "float32";
  int64_t seed = 0;
  std::vector<std::string> freeze_params;  // globs over parameters' names: those are not trained
};

struct MeshSection {
  int64_t world_size = 0;  // 0: not given
  int64_t dp_size = 0;     // 0: world_size / (tp * cp * pp)
  int64_t dp_replicate_size = 1;
  int64_t tp_size = 1;
  int64_t pp_size = 1;
  int64_t cp_size = 1;
  int64_t ep_size = 1;
  int64_t ranks_per_node = 8;
};

struct PipelineSection {
  std::string schedule = "1f1b";  // a name, or a CSV file (schedule_names.h)
  int64_t microbatches = 0;       // of one run of the schedule; 0: one per pipeline stage
  int64_t virtual_stages = 1;
  std::vector<int64_t> split_points;
  std::string balance = "layers";  // layers | cost: what stages without split points share evenly
  // What the schedule's file says, read with the plan. Null: it is a name, or cannot be read.
  std::shared_ptr<const std::string> csv = nullptr;
};

// Of context parallelism.
struct ContextSection {
  std::string method = "ring";  // ring | all_gather | ulysses
};

// Of models with experts: what keeps them evenly taken.
struct ExpertsSection {
  std::string balancing = "none";  // none | bias | sequence
  double rate = 1e-3;              // of bias: what a step adds to it or takes off
  double coefficient = 1e-4;       // of sequence: of the auxiliary loss
};

// Low-rank adapters: what is trained instead of the model's own parameters.
struct LoraSection {
  int64_t rank = 0;      // 0: none
  double alpha = 8.0;    // alpha / rank is the factor of what adapters add
  double dropout = 0.0;  // of what they read
  std::vector<std::string> target_modules = {"q_proj", "v_proj"};
  std::string weights;  // PEFT's adapter to begin with; empty: a new one
  bool merge = false;   // of an export
};

struct TrainSection {
  int64_t seq_len = 2048;
  int64_t micro_batch_size = 1;   // sequences per rank per micro-batch
  int64_t global_batch_size = 0;  // sequences per optimizer step; 0: micro_batch_size * dp
  int64_t max_steps = 100;
  double max_grad_norm = 1.0;         // 0: no clipping
  std::string on_nonfinite = "stop";  // stop | skip | continue: where loss or norm is not finite
  double loss_scale = 0.0;            // of float16; 0: dynamic
  int64_t seed = 0;                   // data order
  bool deterministic = false;         // the same bits from the same values, on a GPU too
  std::string matmul_precision = "highest";  // highest | high: float32 products on a GPU
};

struct OptimizerSection {
  std::string name = "adamw";  // adamw | adam | sgd | muon
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0.01;
  std::vector<std::string> no_decay;  // globs over parameters' names: those do not decay
  std::optional<double> momentum;     // of sgd and muon; see config/optimizer.h
  std::optional<bool> nesterov;
  std::string adjust_lr = "original";  // of muon: original | match_rms_adamw
};

struct SchedulerSection {
  std::string name = "constant";  // constant | cosine | linear | wsd
  int64_t warmup_steps = 0;
  double min_lr = 0.0;
  int64_t decay_steps = 0;  // cosine, linear: the step that reaches min_lr (0: max_steps); wsd:
                            // length of the final decay
};

struct DataSection {
  std::string kind = "synthetic";  // synthetic | text | tokens | megatron
  std::vector<std::string> path;
  bool shuffle = true;
  std::string tokenizer = "bytes";
  std::string token_dtype = "uint16";
  // Megatron's names: a position starts again at 0 after each eod_token.
  bool reset_position_ids = false;
  std::optional<int64_t> eod_token;
};

// Loss on other data of [data]'s kind.
struct ValidationSection {
  int64_t every = 0;  // optimizer steps between two of them; 0: none
  int64_t steps = 8;  // global batches of each
  std::vector<std::string> path;
};

struct CheckpointSection {
  std::string dir;    // empty: RUN/checkpoints
  int64_t every = 0;  // 0: only at the end
  int64_t keep = 0;   // 0: all
  bool last = true;   // one after the last step
  bool async = false;
  std::string resume = "auto";         // auto | none | path
  std::string export_format = "none";  // key `export`: hf | none
};

struct MetricsSection {
  int64_t every = 1;
  bool tensorboard = false;
  bool trace = false;
};

struct RuntimeSection {
  double timeout_minutes = 10.0;  // of a rank that waits for its peers in a collective
};

struct ClusterSection {
  std::string gpu;
  int64_t nodes = 0;
  std::string implementation = "automesh";
  std::string calibration;  // a file of scripts/calibrate; empty: the built-in one
};

// Whether "libmine.so:symbol" in a plan may be loaded, which runs the library's code. The plan may
// be somebody else's, so it cannot allow this itself: its reader does (the tools'
// --allow-plugins).
enum class Plugins { kRefused, kAllowed };

struct Plan {
  ModelSection model;
  MeshSection mesh;
  DistributedConfig strategy;
  PipelineSection pipeline;
  ContextSection context;
  ExpertsSection experts;
  LoraSection lora;
  TrainSection train;
  OptimizerSection optimizer;
  SchedulerSection scheduler;
  DataSection data;
  ValidationSection validation;
  CheckpointSection checkpoint;
  MetricsSection metrics;
  RuntimeSection runtime;
  ClusterSection cluster;

  Plugins plugins = Plugins::kRefused;

  std::string file;
  std::map<std::string, Span, std::less<>>
      spans;  // of every value that was written: "mesh.tp_size"

  // The place to point at for a key: its value, or its section's header, or the file.
  Span span(std::string_view key) const;
  bool given(std::string_view key) const;
  // A path written in the plan, relative to the plan's folder.
  std::filesystem::path resolve(const std::string& path) const;
};

// One `--set section.key=value`; the value is TOML.
struct Override {
  std::string text;
};

// Reads, overrides and type-checks a plan; all violations at once. Nothing when one is an error. A
// file that cannot be read throws Error(kIo).
std::optional<Plan> load_plan(const std::filesystem::path& file,
                              const std::vector<Override>& overrides, Diagnostics& found);
// The same from text; `file` is only named and resolves relative paths.
std::optional<Plan> parse_plan(std::string_view text, const std::string& file,
                               const std::vector<Override>& overrides, Diagnostics& found);

// The same, but what could be read comes back however many errors there are, with defaults in the
// place of the rest: so that the rules can be checked in the same run. Nothing only when the file
// is not TOML.
std::optional<Plan> load_draft(const std::filesystem::path& file,
                               const std::vector<Override>& overrides, Diagnostics& found);
std::optional<Plan> parse_draft(std::string_view text, const std::string& file,
                                const std::vector<Override>& overrides, Diagnostics& found);

// The resolved plan as TOML that loads to the same plan: every key written out. Paths become
// absolute.
std::string to_toml(const Plan& plan);
Json to_json(const Plan& plan);

}  // namespace am::config
