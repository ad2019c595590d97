// Defines the keys of the plan file's sections [checkpoint], [metrics], [runtime] and [cluster].
#include "am/base/file.h"
#include "am/config/field_builder.h"
#include "am/config/strategy_codec.h"
#include "am/config/table_codec.h"

namespace am::config {

void add_output_fields(std::vector<FieldSpec>& out) {
  FieldBuilder checkpoint(
      "checkpoint", [](auto& plan) -> auto& { return plan.checkpoint; }, out);
  using S = CheckpointSection;
  checkpoint
      .add("dir", &S::dir, Text{Text::Empty::kAllowed, "path"},
           "Where step folders are written. Empty: checkpoints/ of the run folder.")
      .is_path = is_any_path;
  checkpoint.add("every", &S::every, Integer{}, "Steps between checkpoints. 0: only at the end.");
  checkpoint.add("keep", &S::keep, Integer{},
                 "Number of this run's checkpoints to keep; those of other runs are never removed. "
                 "0: all.");
  checkpoint.add(
      "keep_every", &S::keep_every, Integer{},
      "Checkpoints of steps that this number divides are kept besides those of `keep`. 0: "
      "none.");
  checkpoint.add("keep_best", &S::keep_best, Integer{},
                 "Number of checkpoints with the lowest validation losses to keep besides those of "
                 "`keep`. 0: none.");
  checkpoint.add(
      "last", &S::last, Boolean{},
      "Save after the last step, whatever `every` says. false: a job that reaches its last step "
      "saves only the checkpoints of `every`; one that is stopped always saves.");
  checkpoint.add("async", &S::async, Boolean{},
                 "Write in the background while training continues.");
  checkpoint.add("metadata_parts", &S::metadata_parts, Integer{},
                 "PyTorch's .metadata is written for checkpoints of at most this many parts of "
                 "tensors, because it has 120 bytes per part and takes seconds for a million. 0: "
                 "always.");
  checkpoint.add("verify_replicas", &S::verify_replicas, Integer{},
                 "Steps between comparisons of all replicas of parameters (quantized ones "
                 "excepted) and optimizer states; a "
                 "difference ends the job and names the ranks. Replicas are also compared before "
                 "each checkpoint is written. 0: no comparison.");
  checkpoint
      .add("resume", &S::resume, Text{Text::Empty::kRefused, "\"auto\", \"none\" or a path"},
           "auto: resume from the newest complete checkpoint, if there is one and it belongs to "
           "this run; none: start a new run; or a path: resume from that checkpoint, even if the "
           "plan differs from its run, or another framework has written it.")
      .is_path = is_path_unless_auto_or_none;
  checkpoint.add("export", &S::export_format, Choice{{"hf", "none"}},
                 "hf: write a Hugging Face folder at the end.");
  checkpoint.add("export_every", &S::export_every, Integer{},
                 "Steps between further exports in the format of `export`. 0: only at the end.");

  FieldBuilder metrics(
      "metrics", [](auto& plan) -> auto& { return plan.metrics; }, out);
  using M = MetricsSection;
  metrics.add("every", &M::every, Integer{1},
              "Steps between lines on the terminal; metrics.jsonl has one for each step.");
  metrics.add("tensorboard", &M::tensorboard, Boolean{}, "Write TensorBoard event files too.");
  metrics
      .add(
          "loggers", &M::loggers, Choices{{{"wandb", "mlflow", "comet"}}},
          "Services that also receive the metrics, each through a Python process of its own, which "
          "needs the service's package.")
      .also = {"logger", "wandb", "mlflow", "comet", "enable_wandb"};
  metrics.add("prometheus", &M::prometheus, Boolean{},
              "Write metrics.prom into the run folder after each step, in the text format that "
              "Prometheus's node_exporter reads.");
  TableOf<TraceSection> trace;
  trace.add("start", &TraceSection::start, Integer{1}, "The first step that is traced.");
  trace.add("steps", &TraceSection::steps, Integer{1, 1 << 10}, "Number of traced steps.");
  trace.add("ranks", &TraceSection::ranks, Integers{Integer{}}, "Ranks that write. Empty: all.");
  trace.add("memory", &TraceSection::memory, Boolean{},
            "On GPUs, also record the allocations of these steps, for pytorch.org/memory_viz.");
  metrics
      .add("trace", &M::trace, Optional<TableOf<TraceSection>>{trace},
           "Write the operations of some steps as Chrome traces, RUN/traces/step-N.rank-R.json, "
           "which Perfetto opens: { start, steps, ranks, memory }.")
      .also = {"profiling", "profiler", "enable_profiling"};
  metrics
      .add("spike_sigma", &M::spike_sigma, Number{},
           "Warn when a loss exceeds the mean of the last spike_window losses by more than this "
           "number of standard deviations. 0: no warning.")
      .also = {"stability_sigma"};
  metrics.add("spike_window", &M::spike_window, Integer{8, 1 << 16},
              "Number of losses with which spike_sigma compares.");
  metrics.add(
      "straggler_seconds", &M::straggler_seconds, Number{0.0, 1e6},
      "Seconds between two comparisons of the ranks' times. A comparison names the rank that the "
      "others wait for, if there is one. 0: no comparison.");

  FieldBuilder runtime(
      "runtime", [](auto& plan) -> auto& { return plan.runtime; }, out);
  runtime
      .add("timeout_minutes", &RuntimeSection::timeout_minutes, Number{0.01, 1e6},
           "Minutes that a rank waits for its peers in a collective before the job ends and names "
           "them. am-run --timeout, in seconds, takes precedence.")
      .also = {"dist_timeout", "distributed_timeout_minutes"};
  runtime
      .add("dump_minutes", &RuntimeSection::dump_minutes, Number{0.0, 1e6},
           "Minutes between two files RUN/states/TIME.txt, which show the step, the last "
           "collectives and the call stack of each rank. The newest 24 are kept. 0: none.")
      .also = {"dump_interval"};

  FieldBuilder cluster(
      "cluster", [](auto& plan) -> auto& { return plan.cluster; }, out);
  using G = ClusterSection;
  cluster
      .add("gpu", &G::gpu, Text{Text::Empty::kAllowed, "text"},
           "The GPU that predictions assume, such as h100-sxm.")
      .is_path = looks_like_path;
  cluster.add("nodes", &G::nodes, Integer{0, 1 << 20},
              "Number of machines. 0: as many as the ranks need.");
  cluster.add("implementation", &G::implementation, Text{},
              "Framework that runs the step: automesh, torchtitan, pytorch, megatron, nemo, ...");
  cluster
      .add("calibration", &G::calibration, Text{Text::Empty::kAllowed, "text"},
           "File with constants of the time model, written by scripts/calibrate. \"\": the "
           "built-in constants.")
      .is_path = looks_like_path;
  cluster.add("hours_between_failures", &G::hours_between_failures, Number{0.0, 1e9},
              "Mean hours between failures of one GPU, not of the job; 50700 in Llama 3's "
              "training. 0: not known.");
  cluster.add("restart_minutes", &G::restart_minutes, Number{0.0, 1e5},
              "Minutes from a failure until the restarted ranks begin to load a checkpoint.");
  cluster.add("storage_gb_per_s", &G::storage_gb_per_s, Number{0.0, 1e6},
              "Rate at which all ranks together write or read checkpoints, in 10^9 bytes per "
              "second. 0: not known.");
}

}  // namespace am::config
