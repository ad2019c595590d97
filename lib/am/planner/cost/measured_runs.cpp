#include "am/planner/cost/measured_runs.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <utility>

#include "am/base/text.h"
#include "am/planner/cost/csv.h"
#include "am/planner/cost/facts.h"
#include "am/planner/cost/measured_models.h"
#include "am/planner/cost/peak_memory.h"

namespace am::planner {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// "L=32 h=6144 heads=48 ...": Megatron's own test jobs describe themselves.
std::map<std::string, std::string> notes_of(const std::string& text) {
  std::map<std::string, std::string> notes;
  for (const std::string& word : split(text, ' ')) {
    const size_t equals = word.find('=');
    if (equals != std::string::npos) notes[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return notes;
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
  RowReader(const CsvRow& row, const MeasuredModels& models, Gpus& gpus)
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
    const double level = std::isfinite(zero) ? std::clamp(zero, 0.0, 3.0) : 0.0;
    job.sharding = static_cast<Sharding>(std::llround(level));
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
    sketch_layout(figures_, every_second ? 0.5 : 1.0, run_.job);
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
  const MeasuredModels& models_;
  Gpus& gpus_;
  std::map<std::string, std::string> notes_;
  Figures figures_;
  MeasuredRun run_;
  bool gpu_known_ = false;
};

}  // namespace

MeasuredRuns read_measured_runs(std::string_view text, const std::string& file,
                                std::string_view models, Diagnostics& found) {
  const MeasuredModels known(models, found);
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
