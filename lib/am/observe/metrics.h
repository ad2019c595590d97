// Metrics of a training step, and the interface of sinks, which write metrics.
//
//   JsonlSink sink(run.metrics_file(), resumed_step);
//   sink.write({.step = 1, .loss = 5.54});
//   read_metrics(run.metrics_file());          // returns these metrics
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "am/base/json.h"

namespace am::observe {

// Load of the busiest and of the idlest expert of all layers. The load of an expert is the number
// of tokens routed to it, divided by the mean over the experts of the same layer; 1 if the layer is
// balanced perfectly.
struct ExpertLoad {
  double busiest = 1.0;
  double idlest = 1.0;

  bool operator==(const ExpertLoad&) const = default;
};
// Returns an object with max_over_mean (busiest) and min_over_mean (idlest).
Json to_json(const ExpertLoad& load);
// Returns the load. `counts`: number of tokens that were routed to each expert, layer after layer.
// `experts`: number of experts per layer. Layers without any routed token are ignored.
ExpertLoad expert_load(std::span<const double> counts, size_t experts);

// One line of metrics.jsonl. A value that is not finite is null in the file and NaN when read back.
struct StepMetrics {
  int64_t step = 0;  // number of finished steps: 1 after the first step
  // Sum of the cross-entropies of all labels, divided by the number of labels in the global batch.
  double loss = 0.0;
  double grad_norm = 0.0;  // norm of the gradients before clipping
  double lr = 0.0;         // learning rate used in this step
  int64_t tokens = 0;      // number of tokens in this step, over all ranks
  double step_seconds = 0.0;
  double tokens_per_second = 0.0;
  double tokens_per_second_per_rank = 0.0;  // tokens_per_second / world size
  int64_t peak_memory_bytes = 0;            // maximum over ranks of the peak memory
  // Maximum over ranks of the memory that a GPU's allocator reserved from the driver; only on GPUs.
  std::optional<int64_t> peak_reserved_bytes;
  std::optional<double> loss_scale;  // loss scale used in this step; float16 only
  int64_t skipped_steps = 0;         // number of steps that were skipped up to this step
  // Number of passes through the data up to this step, with fractions. One number, or one number
  // per source of a mixture. Empty if the plan has neither train.epochs nor data.source.
  std::vector<double> epochs;
  std::optional<double> validation_loss;  // loss after this step, if the step ran validation
  // Losses of the named validation sets, as "validation_loss/NAME" in the file.
  std::vector<std::pair<std::string, double>> validation_losses;
  // Load over the global batch; only for models with experts.
  std::optional<ExpertLoad> expert_load;
  std::optional<double> aux_loss;  // load-balancing loss of experts, which `loss` does not include
  // Model FLOPs utilization, from 0 to 1; absent if the device's peak is unknown.
  std::optional<double> mfu;
  // Unix time at the end of the step, in seconds, by rank 0's clock; 0: unknown. If the time is
  // unknown, neither the time nor the next five numbers are written.
  double time = 0.0;
  // Number of tokens that the run has trained on up to this step, over all ranks and jobs.
  int64_t tokens_seen = 0;
  double data_seconds = 0.0;     // time for which rank 0 waited for the step's data
  double waiting_seconds = 0.0;  // time for which rank 0 waited for other ranks (rank_times.h)
  // validation_seconds is the time of the validation after this step. saving_seconds is the time
  // for which training waited for saves, exports and commands of am-repl before this step.
  double validation_seconds = 0.0;
  double saving_seconds = 0.0;
  // Goodput: the fraction of the job's time, over all its attempts, that was spent on steps whose
  // results no failure undid. Present only if the job has failed and was restarted
  // (run_folder/job_time.h).
  std::optional<double> goodput;

  bool operator==(const StepMetrics&) const = default;
};

// Prefix of the key of a validation set's loss in metrics.jsonl; the name of the set follows it.
inline constexpr std::string_view kValidationPrefix = "validation_loss/";

// Sets tokens_per_second and tokens_per_second_per_rank from the other metrics and the world size.
void fill_rates(StepMetrics& metrics, int64_t world_size);

class MetricSink {
 public:
  virtual ~MetricSink() = default;
  // Writes the metrics of one step. Throws Error(kIo) if writing fails.
  virtual void write(const StepMetrics& metrics) = 0;
  // Makes the metrics written so far durable on disk, if the sink appends them to a file. Training
  // calls flush() before it saves a periodic checkpoint, and when training ends.
  virtual void flush() {}
};

// Returns the metrics as a JSON object with the keys in a fixed order.
Json to_json(const StepMetrics& metrics);
// Returns the object of to_json() as text, without a newline at the end.
std::string to_json_line(const StepMetrics& metrics);
// Returns the records of a metrics file in order. An unfinished last line (after a crash) is
// skipped; any other line that is not a record throws Error(kFormat) with its number. Throws
// Error(kIo) if the file cannot be read.
std::vector<StepMetrics> read_metrics(const std::filesystem::path& path);

// Renames an existing metrics file by appending .1 (or .2, ...) to its name, so that a new run does
// not overwrite the file. Returns the new path, or nothing if the file is missing or empty. Throws
// std::filesystem::filesystem_error.
std::optional<std::filesystem::path> set_aside(const std::filesystem::path& path);

// Appends one line per step to a file. Passes the whole line to one write(), so that readers
// normally see only complete lines.
class JsonlSink : public MetricSink {
 public:
  // Opens or creates the file. Keeps the lines with step <= resumed_step and removes all other
  // lines, so that a resumed run continues the sequence. resumed_step = 0 removes all lines. Throws
  // Error(kIo).
  JsonlSink(const std::filesystem::path& path, int64_t resumed_step);
  JsonlSink(const JsonlSink&) = delete;
  JsonlSink& operator=(const JsonlSink&) = delete;
  ~JsonlSink() override;

  void write(const StepMetrics& metrics) override;
  void flush() override;

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

}  // namespace am::observe
