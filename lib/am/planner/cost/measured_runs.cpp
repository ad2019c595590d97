#include "am/planner/cost/measured_runs.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <utility>

#include "am/base/text.h"
#include "am/planner/cost/csv.h"
#include "am/planner/cost/facts.h"
#include "am/planner/cost/peak_memory.h"
#include "am/planner/stages.h"

namespace am::planner {
namespace {

using model::LayerProfile;

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// The figures of one model, from the table or from a row's notes.
struct Figures {
  double hidden = 0, layers = 0, heads = 0, kv_heads = 0, qk = 0, v = 0, width = 0, vocabulary = 0;
  bool gated = true, tied = false, biases = false;
  double experts = 0, taken = 0, expert_width = 0, shared_width = 0, moe_layers = 0;
  double q_rank = 0, kv_rank = 0, rope = 0;
  double learned_positions = 0;
};

// Absurd figures stay absurd, but are numbers.
int64_t whole(double value) {
  return std::isfinite(value) ? std::llround(std::clamp(value, -1e12, 1e12)) : 0;
}

// Of one layer's matrices, in elements: what tp cuts, the rest, and the experts, all of them.
struct LayerElements {
  double cut = 0.0, whole = 0.0, experts = 0.0;
};
LayerElements elements_of(const Figures& f, const LayerProfile& layer) {
  const double h = f.hidden;
  LayerElements of{.cut = f.heads * f.v * h, .whole = 2.0 * h};
  if (f.kv_rank > 0.0) {
    of.whole += h * (f.q_rank + f.kv_rank + f.rope) + f.q_rank + f.kv_rank;
    of.cut += (f.q_rank > 0.0 ? f.q_rank : h) * f.heads * f.qk +
              f.kv_rank * f.heads * (f.qk - f.rope + f.v);
  } else {
    of.cut += h * (f.heads * f.qk + f.kv_heads * (f.qk + f.v));
  }
  const model::FeedForwardProfile& mlp = layer.feed_forward;
  const double matrices = f.gated ? 3.0 : 2.0;
  of.cut += matrices * h * static_cast<double>(mlp.dense_width + mlp.shared_width);
  if (mlp.experts > 0) {
    of.experts = f.experts * matrices * h * f.expert_width;
    of.whole += h * f.experts;
  }
  if (f.biases) {
    of.cut += (f.heads + 2.0 * f.kv_heads) * f.qk +
              (matrices - 1.0) * static_cast<double>(mlp.dense_width);
    of.whole += 4.0 * h;
  }
  return of;
}

// Megatron and torchtitan count the embedding and the head as a layer each where that divides and
// the layers alone do not.
config::PipelineSection stages_of(int64_t layers, int64_t stages) {
  config::PipelineSection pipeline;
  if (stages < 2 || layers % stages == 0 || (layers + 2) % stages != 0) return pipeline;
  const int64_t share = (layers + 2) / stages;
  for (int64_t stage = 1; stage < stages; ++stage) {
    pipeline.split_points.push_back(stage * share - 1);
  }
  return pipeline;
}

// A published run's layout, as far as its row tells it; the first layers come first.
void sketch_run(const Figures& f, Workload& job, double checkpointed) {
  LayoutSketch& layout = job.layout = {};
  for (const LayerGroup& group : job.model.layers) {
    const LayerElements of = elements_of(f, group.profile);
    layout.of_layer.push_back({of.cut / job.tp + of.whole, of.experts / (job.ep * job.expert_tp)});
  }
  layout.table = local_vocabulary(job) * f.hidden;
  const auto owners =
      schedule::stage_owners(job.schedule, whole(job.pp), whole(job.virtual_stages));
  const size_t kinds = job.model.layers.size();
  for (const int64_t owner : owners) {
    layout.stages.push_back({.owner = owner,
                             .layers = std::vector<double>(kinds, 0.0),
                             .checkpointed = std::vector<double>(kinds, 0.0)});
  }
  int64_t layers = 0;
  for (const LayerGroup& group : job.model.layers) layers += whole(group.count);
  const auto stages = static_cast<int64_t>(owners.size());
  const auto stage_of = stage_of_layers(stages_of(layers, stages), layers, stages);
  size_t layer = 0;
  for (size_t kind = 0; kind < kinds; ++kind) {
    for (int64_t i = 0; i < whole(job.model.layers[kind].count); ++i, ++layer) {
      StageSketch& stage = layout.stages[static_cast<size_t>(stage_of[layer])];
      stage.layers[kind] += 1.0;
      stage.checkpointed[kind] += checkpointed;
      stage.parameters.add(layout.of_layer[kind]);
    }
  }
  const int64_t last = owners.back();
  layout.stages.front().parameters.dense += layout.table + f.learned_positions * f.hidden;
  // A tied head on another rank than the embedding is a copy of it.
  const bool has_head = !f.tied || last != owners.front();
  layout.stages.back().parameters.dense += f.hidden + (has_head ? layout.table : 0.0);

  layout.dense = {.shards = job.dp_shard * job.cp, .replicas = job.dp_replicate, .stride = job.tp};
  const double expert_stride = job.ep * job.expert_tp;
  layout.experts = {.shards = std::max(1.0, job.dp_shard * job.cp * job.tp / expert_stride),
                    .replicas = job.dp_replicate,
                    .stride = expert_stride};
}

ModelShape shape_of(const Figures& f) {
  LayerProfile dense;
  dense.attention = {.heads = whole(f.heads),
                     .key_value_heads = whole(f.kv_heads),
                     .qk_head_dim = whole(f.qk),
                     .v_head_dim = whole(f.v),
                     .q_lora_rank = whole(f.q_rank),
                     .kv_lora_rank = whole(f.kv_rank),
                     .rope_head_dim = whole(f.rope)};
  dense.feed_forward = {.gated = f.gated, .dense_width = whole(f.width)};
  LayerProfile moe = dense;
  moe.feed_forward = {.gated = f.gated,
                      .experts = whole(f.experts),
                      .experts_per_token = whole(f.taken),
                      .expert_width = whole(f.expert_width),
                      .shared_width = whole(f.shared_width)};
  ModelShape shape;
  shape.hidden = f.hidden;
  shape.vocabulary = f.vocabulary;
  if (f.layers > f.moe_layers) shape.layers.push_back({f.layers - f.moe_layers, dense});
  if (f.moe_layers > 0) shape.layers.push_back({f.moe_layers, moe});
  return shape;
}

class Models {
 public:
  Models(std::string_view text, Diagnostics& found) {
    for (const CsvRow& row : parse_csv(text, "models.csv", found).rows) {
      const auto n = [&](const char* column) { return row.number(column).value_or(0.0); };
      Figures f;
      f.hidden = n("hidden_size");
      f.layers = n("layers");
      f.heads = n("heads");
      f.kv_heads = n("key_value_heads");
      f.qk = n("qk_head_dim");
      f.v = n("v_head_dim");
      f.width = n("intermediate_size");
      f.gated = n("gated") > 0.0;
      f.vocabulary = n("vocab_size");
      f.tied = n("tied") > 0.0;
      f.experts = n("experts");
      f.taken = n("experts_per_token");
      f.expert_width = n("expert_size");
      f.shared_width = n("shared_size");
      f.moe_layers = n("moe_layers");
      f.q_rank = n("q_lora_rank");
      f.kv_rank = n("kv_lora_rank");
      f.rope = n("rope_head_dim");
      if (f.hidden > 0.0 && f.layers > 0.0 && f.heads > 0.0) models_[row.text("model")] = f;
    }
  }

  const Figures* find(const std::string& name) const {
    const auto found = models_.find(name);
    return found == models_.end() ? nullptr : &found->second;
  }

 private:
  std::map<std::string, Figures> models_;
};

// "L=32 h=6144 heads=48 ...": Megatron's own test jobs describe themselves.
std::map<std::string, std::string> notes_of(const std::string& text) {
  std::map<std::string, std::string> notes;
  for (const std::string& word : split(text, ' ')) {
    const size_t equals = word.find('=');
    if (equals != std::string::npos) notes[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return notes;
}

std::optional<Figures> figures_of_notes(const std::map<std::string, std::string>& notes) {
  const auto text = [&](const char* key) {
    const auto found = notes.find(key);
    return found == notes.end() ? std::string() : found->second;
  };
  const auto number = [&](const char* key, double otherwise) {
    const std::string value = text(key);
    return value.empty() ? otherwise : std::strtod(value.c_str(), nullptr);
  };
  Figures f;
  f.hidden = number("h", 0);
  f.layers = number("L", 0);
  f.heads = number("heads", 0);
  if (f.hidden <= 0 || f.layers <= 0 || f.heads <= 0 || text("mla") == "True") return std::nullopt;
  f.kv_heads = number("kv", f.heads);
  f.qk = f.v = number("kvch", std::floor(f.hidden / f.heads));
  f.gated = text("swiglu") == "True";
  // Megatron's defaults.
  f.width =
      number("ffn", f.gated ? std::floor(f.hidden * 8.0 / 3.0 / 64.0) * 64.0 : 4.0 * f.hidden);
  f.vocabulary = starts_with(text("vocab"), "GPTSentence") ? 256000.0
                 : starts_with(text("vocab"), "Llama2")    ? 32000.0
                                                           : 50257.0;
  f.tied = text("untie") != "True";
  f.biases = text("bias") == "yes";
  f.learned_positions = text("pos").empty() ? 1.0 : 0.0;  // the sequence's, filled in by the caller
  f.experts = number("E", 0);
  if (f.experts > 0) {
    f.taken = number("topk", 2);
    f.expert_width = number("moe_ffn", f.width);
    f.moe_layers = f.layers;
  }
  return f;
}

// "every": of two layers one is.
config::ActivationCheckpointing recompute_of(const std::string& text) {
  using Mode = config::ActivationCheckpointing;
  if (starts_with(text, "full") || contains(text, "every")) return Mode::kFull;
  return starts_with(text, "selective(op)") ? Mode::kSelective : Mode::kOff;
}

ComputeFormat format_of(const std::string& precision) {
  const std::string text = lower(precision);
  if (contains(text, "nvfp4")) return ComputeFormat::kFp4;
  if (contains(text, "fp8") || contains(text, "float8")) return ComputeFormat::kFp8;
  if (text == "fp32") return ComputeFormat::kFp32;
  return text == "fp16" ? ComputeFormat::kFp16 : ComputeFormat::kBf16;
}

std::optional<MemoryMetric> metric_of(const std::string& text) {
  if (contains(text, "allocated")) return MemoryMetric::kAllocated;
  if (contains(text, "reserved")) return MemoryMetric::kReserved;
  if (contains(text, "nvidia-smi")) return MemoryMetric::kProcess;
  if (starts_with(text, "model states")) return MemoryMetric::kModelStates;
  if (starts_with(text, "forward-held")) return MemoryMetric::kHeldActivations;
  if (starts_with(text, "activation peak")) return MemoryMetric::kActivationPeak;
  return std::nullopt;
}

// Each GPU's file is read once.
class Gpus {
 public:
  const Gpu* find(const std::string& name) {
    const auto [entry, is_new] = known_.try_emplace(name);
    Diagnostics ignored;
    if (is_new) entry->second = find_gpu(name, {}, {}, ignored);
    return entry->second ? &*entry->second : nullptr;
  }

 private:
  std::map<std::string, std::optional<Gpu>> known_;
};

class RowReader {
 public:
  RowReader(const CsvRow& row, const Models& models, Gpus& gpus)
      : row_(row), models_(models), gpus_(gpus) {}

  // Nothing, with the reason in `why`.
  std::optional<MeasuredRun> read(std::string& why) {
    run_.id = row_.text("id");
    run_.source = row_.text("source");
    run_.model = row_.text("model");
    run_.group = row_.text("group");
    notes_ = notes_of(row_.text("notes"));
    if (!read_model()) return fail(why, cat("the shape of ", run_.model, " is not known"));
    if (const std::string& task = row_.text("task"); task == "sft" || task == "lora") {
      return fail(why, "fine-tuning");
    }
    run_.test_job = row_.text("task") == "pretrain CI";
    if (run_.test_job) {
      // Tiny models are as fast as their hosts launch: those of one pool are alike.
      const auto env = notes_.find("env");
      run_.job.site = cat("test ", env == notes_.end() ? std::string("?") : env->second,
                          ends_with(run_.model, "_1node") ? " 1node" : "");
    }
    if (!read_gpu()) return fail(why, cat("GPU \"", row_.text("gpu"), "\" is not known"));
    if (!read_layout()) return fail(why, "the layout is incomplete");
    if (!is_possible()) return fail(why, "sizes that no job has");
    read_numerics();
    sketch();
    read_results();
    infer_recomputation();
    return std::move(run_);
  }

 private:
  static std::optional<MeasuredRun> fail(std::string& why, std::string reason) {
    why = std::move(reason);
    return std::nullopt;
  }

  double number(const char* column, double otherwise) const {
    return row_.number(column).value_or(otherwise);
  }
  bool note_is(const char* key, std::string_view value) const {
    const auto found = notes_.find(key);
    return found != notes_.end() && found->second == value;
  }

  bool read_model() {
    if (contains(run_.model, ":")) {
      auto figures = figures_of_notes(notes_);
      if (!figures) return false;
      if (figures->learned_positions > 0.0) figures->learned_positions = number("seq_len", 0.0);
      figures_ = *figures;
    } else if (const Figures* figures = models_.find(run_.model)) {
      figures_ = *figures;
    } else {
      return false;
    }
    run_.job.model = shape_of(figures_);
    return true;
  }

  // Without a GPU a row of memory is still of use: bytes do not depend on it.
  bool read_gpu() {
    const std::string& name = row_.text("gpu");
    const bool unnamed = name.empty() || name == "unknown";
    if (unnamed && !row_.number("peak_mem_gib")) return false;
    const Gpu* gpu = gpus_.find(unnamed ? "a100-sxm" : name);
    if (gpu == nullptr) return false;
    run_.gpu = *gpu;
    gpu_known_ = !unnamed;
    if (const auto nic = row_.number("internode_gbps_per_gpu")) {
      run_.gpu.nic_bandwidth = *nic * 1e9 / 8.0;
    }
    if (const auto size = row_.number("gpu_mem_gb")) run_.gpu.memory_bytes = *size * 1e9;
    return true;
  }

  bool read_layout() {
    Workload& job = run_.job;
    const auto axis = [&](const char* column) {
      return std::max(1.0, std::floor(number(column, 1.0)));
    };
    job.tp = axis("tp");
    job.pp = axis("pp");
    job.cp = axis("cp");
    job.ep = axis("ep");
    job.virtual_stages = axis("vpp");
    job.sequence_parallel = number("sp", 0.0) > 0.0;
    const double replica = job.tp * job.pp * job.cp;
    const double ranks = number("num_gpus", run_.test_job ? std::max(8.0, replica) : 0.0);
    job.sequence = number("seq_len", 0.0);
    if (ranks < replica || job.sequence <= 0.0) return false;
    // Cut over nobody says how many ranks.
    const bool cut = number("zero_stage", 0.0) > 0.0;
    if (cut && !row_.number("num_gpus") && !row_.number("dp")) return false;
    const double dp = number("dp", ranks / replica);
    job.dp_replicate = number("dp_replicate", 1.0);
    job.dp_shard = dp / job.dp_replicate;
    const bool experts = job.model.layers.back().profile.feed_forward.experts > 0;
    job.expert_tp = number("etp", experts ? 1.0 : job.tp);
    job.schedule = job.virtual_stages > 1.0 ? "interleaved_1f1b" : "1f1b";
    return read_batch(dp);
  }

  // What the models may count with: whole pipelines, finite and not absurd.
  bool is_possible() const {
    const Workload& job = run_.job;
    const auto between = [](double value, double least, double most) {
      return value >= least && value <= most;  // false for NaN
    };
    constexpr double kMostRanks = 1 << 20;
    for (const LayerGroup& group : job.model.layers) {
      const model::AttentionProfile& a = group.profile.attention;
      if (!between(group.count, 1.0, 1e5) || a.qk_head_dim < 1 || a.v_head_dim < 1) return false;
    }
    return between(job.model.hidden, 1.0, 1e7) && between(job.model.vocabulary, 1.0, 1e9) &&
           between(job.tp, 1.0, kMostRanks) && between(job.cp, 1.0, kMostRanks) &&
           between(job.ep, 1.0, kMostRanks) && between(job.expert_tp, 1.0, kMostRanks) &&
           between(job.dp_replicate, 1.0, kMostRanks) && between(job.dp_shard, 0.01, kMostRanks) &&
           between(job.pp * job.virtual_stages, 1.0, 4096.0) && between(job.sequence, 1.0, 1e9) &&
           between(job.micro_batch, 1e-3, 1e6) && between(job.micro_batches, 1.0, 1e7);
  }

  bool read_batch(double dp) {
    Workload& job = run_.job;
    const auto size = row_.number("mbs");
    const auto count = row_.number("grad_accum");
    const auto global = row_.number("gbs");
    job.micro_batch = size.value_or(1.0);
    job.micro_batches = count.value_or(1.0);
    if (!count && global) {
      // A pipeline's local batch is cut into single sequences where nothing else is said.
      job.micro_batches = std::max(1.0, std::round(*global / (job.micro_batch * dp)));
    }
    return size || count || global || row_.number("peak_mem_gib");
  }

  void read_numerics() {
    Workload& job = run_.job;
    const std::string& framework = row_.text("framework");
    const Implementation* named = find_implementation(framework);
    const bool eager = framework == "torchtitan" && row_.text("compile") == "0";
    if (eager) named = find_implementation("pytorch");
    if (named != nullptr) job.implementation = named;
    job.format = format_of(row_.text("precision"));
    job.reduce_bytes = job.implementation->reduce_bytes;
    if (contains(row_.text("precision"), "PURE")) job.reduce_bytes = 2.0;
    job.recompute = recompute_of(row_.text("ac"));
    job.unfused_attention = job.implementation->unfused_attention || note_is("attn", "unfused") ||
                            note_is("impl", "local") || unfused_container();
    const double zero = number("zero_stage", contains(row_.text("strategy"), "zero2") ? 3.0 : 0.0);
    job.sharding = static_cast<Sharding>(std::clamp(whole(zero), int64_t{0}, int64_t{3}));
    // FSDP2 under a pipeline: gathered once a step, reduced at its end.
    const bool once = job.sharding == Sharding::kParameters && job.pp > 1.0;
    job.reshards = !once;
    job.defers_reduction = once || job.sharding != Sharding::kParameters;
    if (contains(row_.text("notes"), "extra 4 B/param")) job.more_gradient_bytes = 4.0;
    if (const auto at = row_.text("strategy").find("group "); at != std::string::npos) {
      read_shard_group(row_.text("strategy").substr(at + 6));
    }
  }

  // A container of Megatron's tests without fused attention: where nothing was asked for, its runs
  // take the very bytes of those that ask for unfused attention.
  bool unfused_container() const {
    const auto env = notes_.find("env");
    return env != notes_.end() && contains(env->second, "dracooci") &&
           (note_is("attn", "") || notes_.find("attn") == notes_.end());
  }

  // "ZeRO-1 group 8": states are cut over 8 ranks and replicated over the rest.
  void read_shard_group(const std::string& text) {
    const double size = std::strtod(text.c_str(), nullptr);
    Workload& job = run_.job;
    const double dp = job.dp();
    if (size < 1.0 || size > dp) return;
    job.dp_shard = size;
    job.dp_replicate = dp / size;
  }

  void sketch() {
    const bool every_second = contains(row_.text("ac"), "every");
    sketch_run(figures_, run_.job, every_second ? 0.5 : 1.0);
  }

  void read_results() {
    run_.seconds = row_.number("step_time_s");
    const auto rate = row_.number("tok_s_gpu");
    if (!run_.seconds && rate && *rate > 0.0) {
      const Workload& job = run_.job;
      const double tokens =
          row_.number("gbs").value_or(job.micro_batch * job.micro_batches * job.dp()) *
          job.sequence;
      run_.seconds = tokens / (*rate * job.world());
    }
    // Without the number of ranks that of micro-batches is a guess.
    const bool counted = row_.number("num_gpus") || row_.number("dp");
    if (!gpu_known_ || !counted) run_.seconds.reset();
    const auto metric = metric_of(row_.text("mem_metric"));
    const auto peak = row_.number("peak_mem_gib");
    if (metric && peak) {
      run_.memory_bytes = *peak * 1024.0 * 1024.0 * 1024.0;
      run_.metric = *metric;
    }
    const std::string& rank = row_.text("mem_rank");
    run_.last_stage = contains(rank, "last") && !contains(rank, "first");
    run_.last_stage = run_.last_stage || rank == "rank7";
    run_.first_stage = rank == "rank0";
    run_.out_of_memory = row_.text("peak_mem_gib") == "OOM";
  }

  // A run that was timed did fit. Where its source does not say what was computed again, it is the
  // least with which it fits.
  void infer_recomputation() {
    if (!row_.text("ac").empty() || !run_.seconds) return;
    Workload& job = run_.job;
    using Mode = config::ActivationCheckpointing;
    for (const Mode mode : {Mode::kOff, Mode::kSelective, Mode::kFull}) {
      job.recompute = mode;
      if (fit_into(*job.implementation, worst_peak_memory(job).total(), run_.gpu) != Fit::kTooLarge)
        return;
    }
  }

  const CsvRow& row_;
  const Models& models_;
  Gpus& gpus_;
  std::map<std::string, std::string> notes_;
  Figures figures_;
  MeasuredRun run_;
  bool gpu_known_ = false;
};

}  // namespace

MeasuredRuns read_measured_runs(std::string_view text, const std::string& file,
                                std::string_view models, Diagnostics& found) {
  const Models known(models, found);
  Gpus gpus;
  MeasuredRuns runs;
  for (const CsvRow& row : parse_csv(text, file, found).rows) {
    std::string why;
    if (auto run = RowReader(row, known, gpus).read(why)) {
      runs.runs.push_back(std::move(*run));
    } else {
      ++runs.left_out[why];
    }
  }
  return runs;
}

MeasuredRuns built_in_runs() {
  Diagnostics found;
  return read_measured_runs(measured_fact("runs.csv"), "plans/measured/runs.csv",
                            measured_fact("models.csv"), found);
}

}  // namespace am::planner
