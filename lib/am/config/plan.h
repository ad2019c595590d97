// The plan, a TOML file that describes one job, as typed values.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "am/base/diagnostic.h"
#include "am/config/strategy_config.h"

namespace am::config {

struct ModelSection {
  std::string path;   // required: a config.json or its folder, relative to the plan
  std::string named;  // the model's name, if given instead of a path; no key of the plan file
  std::string weights = "auto";  // auto | none | a path
  std::string dtype = "float32";
  int64_t seed = 0;
  // Globs over the names of parameters that are not trained.
  std::vector<std::string> freeze_params;
};

struct MeshSection {
  int64_t world_size = 0;  // number of ranks; 0: not set
  int64_t dp_size = 0;     // number of data-parallel ranks; 0: world_size / (tp * cp * pp)
  int64_t dp_replicate_size = 1;
  int64_t tp_size = 1;
  int64_t pp_size = 1;
  int64_t cp_size = 1;
  int64_t ep_size = 1;
  int64_t ranks_per_node = 8;
};

struct PipelineSection {
  std::string schedule = "1f1b";  // a name, or a CSV file (schedule_names.h)
  // Number of micro-batches per run of the schedule. 0: one per stage; under the strategy megatron,
  // all micro-batches of the step.
  int64_t microbatches = 0;
  int64_t virtual_stages = 1;
  std::vector<int64_t> split_points;
  // Division of layers among stages if the plan has no split points: equal numbers of layers
  // (layers) or equal costs (cost).
  std::string balance = "layers";
  // Content of the CSV file that `schedule` names. Null if `schedule` is a name or the file cannot
  // be read.
  std::shared_ptr<const std::string> csv = nullptr;
};

// Context parallelism: how attention reads the keys and values of other cp ranks.
struct ContextSection {
  std::string method = "ring";  // ring | all_gather | ulysses
};

// Load balancing of routed experts.
struct ExpertsSection {
  std::string balancing = "none";  // none | bias | sequence
  double rate = 1e-3;              // for "bias": change of an expert's bias in each step
  double coefficient = 1e-4;       // for "sequence": coefficient of the auxiliary loss
};

// Low-rank adapters, which are trained instead of the model's parameters.
struct LoraSection {
  int64_t rank = 0;         // rank of the adapters' matrices; 0: no adapters
  double alpha = 8.0;       // the adapters' output is scaled by alpha / rank
  bool use_rslora = false;  // whether the scale is alpha / sqrt(rank), as in rsLoRA
  double lr_ratio = 1.0;  // the key loraplus_lr_ratio: ratio of lora_B's learning rate to lora_A's
  double dropout = 0.0;   // dropout probability of the adapters' input
  std::vector<std::string> target_modules = {"q_proj", "v_proj"};
  // Modules that are trained in full beside the adapters, named as in target_modules.
  std::vector<std::string> modules_to_save;
  bool use_dora = false;  // whether a magnitude per output is trained too, as in DoRA
  // Storage of the layers' frozen matrices: none (the model's dtype) | nf4.
  std::string quantize_base = "none";
  std::string weights;  // path of a PEFT adapter to start from; empty: new adapters
  bool merge = false;   // whether an export merges the adapters into the weights
};

struct TrainSection {
  int64_t seq_len = 2048;
  int64_t micro_batch_size = 1;  // sequences of a micro-batch on one rank
  // Number of sequences per optimizer step. 0: that of the resumed checkpoint; in a new run, one
  // micro-batch per data-parallel rank or, in a pipeline, the micro-batches of one schedule run.
  int64_t global_batch_size = 0;
  int64_t max_steps = 100;
  int64_t epochs = 0;                // passes through the data; 0: no limit
  int64_t max_tokens = 0;            // tokens of all steps; 0: no limit
  std::optional<double> max_time;    // seconds after which the job stops
  double max_grad_norm = 1.0;        // norm to which larger gradients are clipped; 0: no clipping
  double label_smoothing = 0.0;      // share of each label that is spread over the vocabulary
  double z_loss = 0.0;               // factor of the squared log-sum-exp of the logits
  double neftune_noise_alpha = 0.0;  // alpha of NEFTune's noise on the embeddings; 0: no noise
  // Action if the loss or the gradients' norm is not finite: stop | skip | continue.
  std::string on_nonfinite = "stop";
  double loss_scale = 0.0;     // factor of the loss in float16 training; 0: dynamic
  int64_t seed = 0;            // seed of the data order
  bool deterministic = false;  // whether jobs repeat bit for bit on a GPU, as they do on a CPU
  std::string matmul_precision = "highest";  // float32 matmuls on a GPU: highest | high (TF32)
};

struct OptimizerGroup {
  std::vector<std::string> match;  // globs over the names of parameters
  std::optional<double> lr;        // peak learning rate instead of optimizer.lr
  std::optional<double> weight_decay;
  std::optional<std::string> name;  // "adamw": AdamW, not muon, updates the parameters
};

struct OptimizerSection {
  std::string name = "adamw";  // adamw | adam | sgd | muon
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0.01;
  // Globs over the names of parameters without weight decay.
  std::vector<std::string> no_decay;
  std::optional<double> momentum;  // for sgd and muon; defaults: momentum_of() in optimizer.h
  std::optional<bool> nesterov;
  std::string adjust_lr = "original";  // factor of muon's lr: original | match_rms_adamw
  double ema_decay = 0.0;              // decay of the parameters' moving average; 0: no average
  // Options of some parameters. The first group that matches a parameter applies.
  std::vector<OptimizerGroup> groups;  // the key `group`
};

struct SchedulerSection {
  std::string name = "constant";  // constant | cosine | linear | wsd
  int64_t warmup_steps = 0;
  double min_lr = 0.0;
  // For cosine and linear: the step at which the learning rate reaches min_lr; 0: max_steps. For
  // wsd: the number of steps of the final decay.
  int64_t decay_steps = 0;
};

// A token: its id, or its name in the tokenizer's vocabulary.
using TokenReference = std::variant<int64_t, std::string>;

// One of several sources whose samples are mixed ([[data.source]]).
struct DataSourceSection {
  std::vector<std::string> path;
  std::optional<std::string> kind;  // absent: data.kind
  double weight = 1.0;              // share of the samples, relative to the other sources' weights
  int64_t epochs = 0;               // passes after which the source is left out; 0: no limit
};

struct DataSection {
  // synthetic | text | tokens | megatron | chat | synthetic_chat
  std::string kind = "synthetic";
  std::vector<std::string> path;
  std::vector<DataSourceSection> sources;  // the key `source`: a mixture, instead of `path`
  bool shuffle = true;
  std::string tokenizer = "auto";  // auto (the model folder's) | bytes | a path
  // Folder to which am-run prepare writes tokens: a path | none; empty: prepared/ beside the plan
  // file.
  std::string prepared;
  std::string token_dtype = "uint16";
  // Whether special tokens that occur in the data's texts are tokenized as ordinary text.
  bool split_special_tokens = false;
  // Whether position ids restart at 0 after each eod_token, and attention stays inside a document.
  bool reset_position_ids = false;
  std::optional<TokenReference> eod_token;
  // The members from loss_on to columns are used only for the kinds chat and synthetic_chat. A row
  // is one sequence of a micro-batch.
  std::string loss_on = "assistant";  // tokens that the loss counts: assistant | last | all
  int64_t max_length = 0;             // maximum tokens of an example; 0: what fits into a row
  std::string on_long = "truncate";   // action for longer examples: truncate | drop
  bool packing = true;                // several whole examples per row
  // Pairs of a key of conversations ("messages", "prompt", ..) and its name in the files.
  std::vector<std::pair<std::string, std::string>> columns;

  // Returns the kind of a source.
  const std::string& kind_of(const DataSourceSection& source) const {
    return source.kind ? *source.kind : kind;
  }
  // Whether the data or, in a mixture, one of its sources has this kind.
  bool has_kind(std::string_view wanted) const;
  // Whether the data are generated, not read from files.
  bool is_synthetic() const {
    return sources.empty() && (kind == "synthetic" || kind == "synthetic_chat");
  }
  // Whether the data or, in a mixture, one of its sources is text that needs a tokenizer.
  bool reads_text() const { return has_kind("text") || has_kind("chat"); }
  // Whether the data or, in a mixture, one of its sources consists of examples (conversations or
  // completions). The loss may count only some labels of an example.
  bool has_examples() const { return has_kind("chat") || has_kind("synthetic_chat"); }
  // Whether a row may contain several documents. Attention then stays inside each document.
  bool has_documents() const { return (has_examples() && packing) || reset_position_ids; }
};

// Validation data with a loss of their own.
struct ValidationSetSection {
  std::string name;
  std::vector<std::string> path;
  std::optional<std::string> kind;  // absent: data.kind
};

// Periodic evaluation of the loss on validation data. The data have the kind data.kind, unless a
// validation set specifies another kind.
struct ValidationSection {
  int64_t every = 0;  // optimizer steps between validations; 0: none
  int64_t steps = 8;  // largest number of global batches in each validation; 0: all data
  // Training ends after this number of validations in a row without a new lowest loss; 0: never.
  int64_t patience = 0;
  std::vector<std::string> path;
  std::vector<ValidationSetSection> sets;  // the key `set`, beside or instead of `path`

  const std::string& kind_of(const ValidationSetSection& set, const DataSection& data) const {
    return set.kind ? *set.kind : data.kind;
  }
};

struct CheckpointSection {
  std::string dir;           // folder of the checkpoints; empty: checkpoints/ of the run folder
  int64_t every = 0;         // steps between checkpoints; 0: only at the end
  int64_t keep = 0;          // number of checkpoints to keep; 0: all
  int64_t keep_every = 0;    // checkpoints of steps that this number divides are kept too; 0: none
  int64_t keep_best = 0;     // number of checkpoints with the lowest validation losses to keep too
  int64_t export_every = 0;  // steps between exports; 0: only at the end
  bool last = true;          // whether to save after the last step
  bool async = false;
  // PyTorch's .metadata file is written if a checkpoint has at most this number of parts of
  // tensors; 0: always.
  int64_t metadata_parts = 500'000;
  int64_t verify_replicas = 0;         // steps between comparisons of all replicas; 0: none
  std::string resume = "auto";         // auto | none | a path
  std::string export_format = "none";  // the key `export`: hf | none
};

// Steps whose operations each rank in `ranks` writes as a Chrome trace.
struct TraceSection {
  int64_t start = 2;           // first traced step of the run, counted from 1; step 1 is slower
  int64_t steps = 1;           // number of steps
  std::vector<int64_t> ranks;  // empty: all ranks
  bool memory = false;         // whether snapshots of a GPU's memory are written too
};

struct MetricsSection {
  int64_t every = 1;
  bool tensorboard = false;
  std::vector<std::string> loggers;  // wandb | mlflow | comet
  bool prometheus = false;
  std::optional<TraceSection> trace;
  // A warning reports a loss that exceeds the mean of the last spike_window losses by more than
  // spike_sigma standard deviations. If spike_sigma is 0, there are no warnings.
  double spike_sigma = 6.0;
  int64_t spike_window = 128;
  double straggler_seconds = 60.0;  // seconds between searches for slow ranks; 0: no search
};

struct RuntimeSection {
  double timeout_minutes = 10.0;  // minutes that a rank waits for its peers in a collective
  double dump_minutes = 0.0;      // minutes between two files with all ranks' call stacks; 0: none
};

struct ClusterSection {
  std::string gpu;
  int64_t nodes = 0;
  std::string implementation = "automesh";
  // File with constants of the time model, written by scripts/calibrate; empty: the built-in
  // constants.
  std::string calibration;
  double hours_between_failures = 0.0;  // mean hours until one GPU fails; 0: unknown
  double restart_minutes = 3.0;         // minutes from a failure until ranks load a checkpoint
  double storage_gb_per_s = 0.0;        // checkpoint rate of all ranks, 10^9 bytes/s; 0: unknown
};

// Whether functions that a plan names as "libmine.so:symbol" may be loaded. Loading runs the
// library's code, and the plan file may come from someone else. Therefore only the calling program
// can allow plugins (the tools' --allow-plugins), and the plan file has no key for this.
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
  // Locations of section headers, and of all values that are set in the plan file or by --set. Map
  // keys are, for example, "mesh" and "mesh.tp_size".
  std::map<std::string, Span, std::less<>> spans;

  // Returns the location for diagnostics about a key: the location of its value if the key is set,
  // otherwise of its section's header; without a header, of the file as a whole.
  Span span(std::string_view key) const;
  // Whether the key is set in the plan file or by --set.
  bool given(std::string_view key) const;
  // Whether train.max_steps limits the job. If the plan does not set max_steps, its default limits
  // the job unless train.epochs, train.max_tokens or the epochs of all data sources do.
  bool max_steps_apply() const;
  // Resolves `path`, which is relative to the plan's folder.
  std::filesystem::path resolve(const std::string& path) const;
};

// The text of one `--set section.key=value`; the value is TOML or an unquoted text.
struct Override {
  std::string text;
};

// Reads a plan, applies the overrides, and checks the keys and the types and ranges of their
// values. Adds all errors and warnings to `found`, and returns nothing if there is an error. Throws
// Error(kIo) if the file cannot be read.
std::optional<Plan> load_plan(const std::filesystem::path& file,
                              const std::vector<Override>& overrides, Diagnostics& found);
// Like load_plan, but parses the plan from `text`. Messages cite `file`, and relative paths are
// resolved against its folder.
std::optional<Plan> parse_plan(std::string_view text, const std::string& file,
                               const std::vector<Override>& overrides, Diagnostics& found);

// Like load_plan and parse_plan, but return a plan even after errors, with defaults for the values
// that could not be read, so that the rules can be checked in the same run. They return nothing
// only if the text is not TOML or, in load_draft, the file has more than 16 MiB.
std::optional<Plan> load_draft(const std::filesystem::path& file,
                               const std::vector<Override>& overrides, Diagnostics& found);
std::optional<Plan> parse_draft(std::string_view text, const std::string& file,
                                const std::vector<Override>& overrides, Diagnostics& found);

// Returns the plan as TOML text with absolute paths. Loading the text returns an equal plan. The
// text has all keys except those of other strategies. Absent keys appear as comments, and max_steps
// appears only if max_steps_apply().
std::string to_toml(const Plan& plan);
// Returns the plan as an object of sections, without the keys of other strategies. Absent keys are
// null.
Json to_json(const Plan& plan);

}  // namespace am::config
