#include "am/predict/time/measured_runs.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <span>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/cluster/csv.h"
#include "am/cluster/embedded_files.h"
#include "am/config/recomputation.h"
#include "am/predict/memory/peak_memory.h"
#include "am/predict/time/measured_layout.h"

namespace am::predict {
namespace {

constexpr double kMostRanks = 1 << 20;
constexpr double kWidest = 1e7;

// Limits of the values of a column, and the value that an empty cell stands for.
struct Legal {
  double least = 0.0;
  double most = 1.0;
  std::optional<double> absent = 0.0;  // nullopt: the cell is required
};
constexpr Legal kRanks = {.least = 1.0, .most = kMostRanks, .absent = 1.0};
constexpr Legal kWidth = {.most = kWidest};

template <typename Owner, typename T>
struct Column {
  std::string_view name;
  T Owner::*member;
  Legal legal;
};

// CSV columns that are stored in members of Workload. Numbers of ranks and micro-batches may be
// fractional, because some publications state only the product of several of these numbers.
constexpr std::array<Column<Workload, double>, 14> kOfWorkload = {{
    {"dp_replicate", &Workload::dp_replicate, kRanks},
    {"dp_shard", &Workload::dp_shard, {.least = 0.01, .most = kMostRanks, .absent = 1.0}},
    {"cp", &Workload::cp, kRanks},
    {"tp", &Workload::tp, kRanks},
    {"ep", &Workload::ep, kRanks},
    {"expert_tp", &Workload::expert_tp, kRanks},
    {"pp", &Workload::pp, {.least = 1.0, .most = 1024.0, .absent = 1.0}},
    {"virtual_stages", &Workload::virtual_stages, {.least = 1.0, .most = 64.0, .absent = 1.0}},
    {"seq_len", &Workload::sequence, {.least = 1.0, .most = 1e9, .absent = {}}},
    {"micro_batch", &Workload::micro_batch, {.least = 1e-3, .most = 1e6, .absent = 1.0}},
    {"micro_batches", &Workload::micro_batches, {.least = 1.0, .most = 1e7, .absent = 1.0}},
    {"ranks_per_node", &Workload::ranks_per_node, {.most = kMostRanks}},
    {"more_gradient_bytes", &Workload::more_gradient_bytes, {.most = 8.0}},
    {"reduce_bytes", &Workload::reduce_bytes, {.least = 1.0, .most = 8.0, .absent = 4.0}},
}};

using model::AttentionProfile;
using model::FeedForwardProfile;
constexpr Legal kSize = {.least = 1.0, .most = kWidest, .absent = {}};
constexpr std::array<Column<AttentionProfile, int64_t>, 7> kOfAttention = {{
    {"heads", &AttentionProfile::heads, kSize},
    {"key_value_heads", &AttentionProfile::key_value_heads, kSize},
    {"qk_head_dim", &AttentionProfile::qk_head_dim, kSize},
    {"v_head_dim", &AttentionProfile::v_head_dim, kSize},
    {"q_lora_rank", &AttentionProfile::q_lora_rank, kWidth},
    {"kv_lora_rank", &AttentionProfile::kv_lora_rank, kWidth},
    {"rope_head_dim", &AttentionProfile::rope_head_dim, kWidth},
}};
constexpr std::array<Column<FeedForwardProfile, int64_t>, 4> kOfExperts = {{
    {"experts", &FeedForwardProfile::experts, kWidth},
    {"experts_per_token", &FeedForwardProfile::experts_per_token, kWidth},
    {"expert_width", &FeedForwardProfile::expert_width, kWidth},
    {"shared_width", &FeedForwardProfile::shared_width, kWidth},
}};

template <typename T>
using Names = std::span<const std::pair<std::string_view, T>>;

constexpr std::array<std::pair<std::string_view, ComputeFormat>, 5> kFormats = {{
    {"bf16", ComputeFormat::kBf16},
    {"fp16", ComputeFormat::kFp16},
    {"fp32", ComputeFormat::kFp32},
    {"fp8", ComputeFormat::kFp8},
    {"fp4", ComputeFormat::kFp4},
}};
using Mode = config::ActivationCheckpointing;
constexpr std::array<std::pair<std::string_view, Mode>, 3> kModes = {{
    {"off", Mode::kOff},
    {"selective", Mode::kSelective},
    {"full", Mode::kFull},
}};
constexpr std::array<std::pair<std::string_view, MemoryMetric>, 6> kMetrics = {{
    {"allocated", MemoryMetric::kAllocated},
    {"reserved", MemoryMetric::kReserved},
    {"process", MemoryMetric::kProcess},
    {"states", MemoryMetric::kModelStates},
    {"held activations", MemoryMetric::kHeldActivations},
    {"activation peak", MemoryMetric::kActivationPeak},
}};
enum class Stage { kWorst, kFirst, kLast };
constexpr std::array<std::pair<std::string_view, Stage>, 3> kStages = {{
    {"worst", Stage::kWorst},
    {"first", Stage::kFirst},
    {"last", Stage::kLast},
}};

template <typename T>
std::string_view name_in(Names<T> names, T value) {
  for (const auto& [name, one] : names) {
    if (one == value) return name;
  }
  return "";
}

// Finds GPUs by name and caches them, so that each GPU's file is read only once.
class Gpus {
 public:
  std::optional<cluster::Gpu> find(const std::string& name, const Span& where, Diagnostics& found) {
    const auto known = known_.find(name);
    if (known != known_.end()) return known->second;
    return known_[name] = cluster::find_gpu(name, {}, where, found);
  }

 private:
  std::map<std::string, std::optional<cluster::Gpu>> known_;
};

class RowReader {
 public:
  RowReader(const cluster::CsvRow& row, const std::string& file, Gpus& gpus, Diagnostics& found)
      : row_(row), where_{.file = file, .line = row.line}, gpus_(gpus), found_(found) {}

  std::optional<MeasuredRun> read() {
    const int before = found_.errors();
    run_.id = text("id");
    run_.source = text("source");
    run_.group = text("group");
    run_.model = text("model");
    run_.test_job = flag("test_job");
    run_.workload.site = text("site");
    read_gpu();
    read_model();
    read_numerics();
    read(kOfWorkload, run_.workload);
    workload_.schedule = workload_.virtual_stages > 1.0 ? "interleaved_1f1b" : "1f1b";
    const double checkpointed = number("recomputed_layers", {.absent = 1.0});
    // sketch_layout() and read_results() compute with the values read so far, so these values must
    // be correct.
    if (found_.errors() > before) return std::nullopt;
    sketch_layout(extras_, checkpointed, workload_);
    read_results();
    if (found_.errors() > before) return std::nullopt;
    return std::move(run_);
  }

 private:
  const std::string& text(std::string_view column) const {
    static const std::string kNothing;
    const auto cell = row_.cells.find(column);
    return cell == row_.cells.end() ? kNothing : cell->second;
  }

  void wrong(std::string_view column, const std::string& legal) {
    const std::string& cell = text(column);
    const std::string what = cell.empty() ? std::string(" is missing") : cat(" = \"", cell, "\"");
    found_.error("csv.syntax", where_, cat(column, what), legal);
  }

  std::optional<double> given(std::string_view column) const {
    const std::string& cell = text(column);
    double value = 0.0;
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    const bool whole = error == std::errc() && end == cell.data() + cell.size();
    return whole && !cell.empty() ? std::optional(value) : std::nullopt;
  }

  double number(std::string_view column, const Legal& legal) {
    const auto value = text(column).empty() ? legal.absent : given(column);
    // Both comparisons are false for NaN, so NaN is rejected.
    if (value && *value >= legal.least && *value <= legal.most) return *value;
    wrong(column, cat("a number from ", legal.least, " to ", legal.most));
    return legal.least;
  }
  bool flag(std::string_view column) { return number(column, {}) > 0.0; }

  template <typename Owner, typename T, size_t N>
  void read(const std::array<Column<Owner, T>, N>& columns, Owner& owner) {
    for (const auto& column : columns) {
      owner.*column.member = static_cast<T>(number(column.name, column.legal));
    }
  }

  // Returns the value whose name is in the cell. An empty cell stands for the first of `names`.
  template <typename T>
  T word(std::string_view column, Names<T> names) {
    const std::string& cell = text(column);
    std::vector<std::string> known;
    for (const auto& [name, value] : names) {
      if (cell.empty() || cell == name) return value;
      known.emplace_back(name);
    }
    wrong(column, join(known, ", "));
    return names.front().second;
  }

  void read_gpu() {
    const auto gpu = gpus_.find(text("gpu"), where_, found_);
    if (!gpu) return wrong("gpu", "the name of a file in plans/clusters, or such a file's path");
    run_.gpu = *gpu;
    constexpr Legal kAny = {.least = 1.0, .most = 1e6};
    if (!text("nic_gbps").empty()) run_.gpu.nic_bandwidth = number("nic_gbps", kAny) * 1e9 / 8.0;
    if (!text("gpu_memory_gb").empty()) {
      run_.gpu.memory_bytes = number("gpu_memory_gb", kAny) * 1e9;
    }
  }

  // Reads the model from the config.json that the CSV row names, or else from the sizes in the row.
  void read_model() {
    ModelShape& shape = workload_.model;
    extras_.learned_positions = number("positions", {.most = 1e9});
    if (!text("config").empty()) return read_config();
    extras_.tied = flag("tied");
    extras_.biases = flag("biases");
    shape.hidden = number("hidden", kSize);
    shape.vocabulary = number("vocabulary", {.least = 1.0, .most = 1e9, .absent = {}});
    model::LayerProfile dense;
    read(kOfAttention, dense.attention);
    model::LayerProfile moe = dense;
    dense.feed_forward.gated = moe.feed_forward.gated = flag("gated");
    dense.feed_forward.dense_width = static_cast<int64_t>(number("mlp_width", kWidth));
    read(kOfExperts, moe.feed_forward);
    const double layers = std::floor(number("layers", {.least = 1.0, .most = 1e5, .absent = {}}));
    const double moe_layers = std::floor(number("moe_layers", {.most = layers}));
    if (layers > moe_layers) shape.layers.push_back({layers - moe_layers, dense});
    if (moe_layers > 0.0) shape.layers.push_back({moe_layers, moe});
  }

  void read_config() {
    try {
      const auto config = model::load_config(text("config"), found_);
      if (!config) return;
      workload_.model = shape_of(*config);
      extras_.tied = config->tie_word_embeddings;
      extras_.biases = config->mlp_bias;
    } catch (const Error& error) {
      found_.error("csv.syntax", where_, error.what(), "config: a config.json or its folder");
    }
  }

  void read_numerics() {
    if (const cluster::Implementation* named =
            cluster::find_implementation(text("implementation"))) {
      workload_.implementation = named;
    } else {
      wrong("implementation", join(cluster::implementation_names(), ", "));
    }
    workload_.format = word<ComputeFormat>("format", kFormats);
    workload_.recompute = word<Mode>("recompute", kModes);
    read_modules();
    workload_.megatron.offloaded_activations = number("offloaded_activations", {});
    workload_.unfused_attention =
        workload_.implementation->unfused_attention || flag("unfused_attention");
    workload_.sequence_parallel = flag("sequence_parallel");
    workload_.sharding = static_cast<Sharding>(std::llround(number("zero_stage", {.most = 3.0})));
  }

  // Reads the modules that Megatron's selective recomputation recomputes, separated by blanks.
  void read_modules() {
    if (text("recompute_modules").empty()) return;
    const std::vector<std::string> names = split(text("recompute_modules"), ' ');
    const auto known = config::recompute_module_names();
    for (const std::string& name : names) {
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      wrong("recompute_modules", join(std::vector<std::string>(known.begin(), known.end()), ", "));
    }
    workload_.recompute = Mode::kSelective;
    workload_.megatron.recomputed = config::recomputed_modules(names);
  }

  void read_results() {
    // With a pipeline, FSDP2 gathers parameters once per step and reduces gradients at the end of
    // the step.
    const bool once = workload_.sharding == Sharding::kParameters && workload_.pp > 1.0;
    workload_.reshards = !once;
    workload_.defers_reduction = once || workload_.sharding != Sharding::kParameters;
    if (text("reduce_bytes").empty()) {
      workload_.reduce_bytes = workload_.implementation->reduce_bytes;
    }
    constexpr Legal kPositive = {.least = 1e-9, .most = 1e12};
    if (!text("step_seconds").empty()) {
      run_.seconds = number("step_seconds", kPositive);
    } else if (!text("tokens_per_second_per_gpu").empty()) {
      run_.seconds = workload_.step_tokens() /
                     (number("tokens_per_second_per_gpu", kPositive) * workload_.world());
    }
    if (!text("memory_gib").empty()) {
      run_.memory_bytes = number("memory_gib", kPositive) * 1024.0 * 1024.0 * 1024.0;
      run_.metric = word<MemoryMetric>("memory_metric", kMetrics);
    }
    const Stage stage = word<Stage>("memory_stage", kStages);
    run_.first_stage = stage == Stage::kFirst;
    run_.last_stage = stage == Stage::kLast;
    run_.out_of_memory = flag("out_of_memory");
    const bool given = !text("recompute").empty() || !text("recompute_modules").empty();
    if (!given && run_.seconds) infer_recomputation();
  }

  // Sets the checkpointing mode of a run whose publication does not state the mode: the mode with
  // the least recomputation with which the run fits into memory. Called only for runs with a step
  // time, which shows that they did fit.
  void infer_recomputation() {
    for (const Mode mode : {Mode::kOff, Mode::kSelective, Mode::kFull}) {
      workload_.recompute = mode;
      const double bytes = worst_peak_memory(workload_).total();
      if (fit_into(*workload_.implementation, bytes, run_.gpu) != Fit::kTooLarge) return;
    }
  }

  const cluster::CsvRow& row_;
  Span where_;
  Gpus& gpus_;
  Diagnostics& found_;
  MeasuredRun run_;
  Workload& workload_ = run_.workload;
  ModelExtras extras_;
};

}  // namespace

std::string_view name_of(MemoryMetric metric) { return name_in<MemoryMetric>(kMetrics, metric); }
std::string_view name_of(ComputeFormat format) { return name_in<ComputeFormat>(kFormats, format); }

MeasuredRuns read_measured_runs(std::string_view text, const std::string& file,
                                Diagnostics& found) {
  Gpus gpus;
  MeasuredRuns runs;
  for (const cluster::CsvRow& row : cluster::parse_csv(text, file, found).rows) {
    if (auto run = RowReader(row, file, gpus, found).read()) runs.push_back(std::move(*run));
  }
  return runs;
}

MeasuredRuns built_in_runs() {
  Diagnostics found;
  return read_measured_runs(cluster::measured_file("runs.csv"), "plans/measured/runs.csv", found);
}

}  // namespace am::predict
