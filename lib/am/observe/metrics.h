// What a step says about itself, and where it is written.
//
//   JsonlSink sink(run.metrics_file(), resumed_step);
//   sink.write({.step = 1, .loss = 5.54, ...});
//   read_metrics(run.metrics_file());          // the same back
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace am::observe {

// Tokens of the busiest and of the idlest expert of any layer, over what each would have if they
// were dealt evenly: both 1 at best.
struct ExpertLoad {
  double busiest = 1.0;
  double idlest = 1.0;

  bool operator==(const ExpertLoad&) const = default;
};
// From how many tokens took each expert, `experts` of each layer.
ExpertLoad expert_load(std::span<const double> counts, size_t experts);

// One line of metrics.jsonl. A value that is not finite is null in the file and NaN when read back.
struct StepMetrics {
  int64_t step = 0;   // finished steps: the first is 1
  double loss = 0.0;  // sum of label cross-entropies over the number of labels in the global batch
  double grad_norm = 0.0;  // before clipping
  double lr = 0.0;         // that this step used
  int64_t tokens = 0;      // of this step, over all ranks
  double step_seconds = 0.0;
  double tokens_per_second = 0.0;
  double tokens_per_second_per_rank = 0.0;     // over world size, whatever the layout
  int64_t peak_memory_bytes = 0;               // the largest of all ranks
  std::optional<int64_t> peak_reserved_bytes;  // of GPUs: taken from the driver, likewise
  std::optional<double> loss_scale;            // of this step; float16 alone has one
  int64_t skipped_steps = 0;                   // so far, this one included
  std::optional<double> validation_loss;       // after this step; the steps of validation have one
  std::optional<ExpertLoad> expert_load;       // of the global batch; models with experts have it
  std::optional<double> aux_loss;  // that keeps experts evenly taken; no part of the loss
  std::optional<double> mfu;       // 0 to 1; null where the device's peak is unknown

  bool operator==(const StepMetrics&) const = default;
};

// Fills both rates from tokens, step_seconds and the world size.
void fill_rates(StepMetrics& metrics, int64_t world_size);

class MetricSink {
 public:
  virtual ~MetricSink() = default;
  // Throws Error(kIo) when it cannot be written.
  virtual void write(const StepMetrics& metrics) = 0;
  // Makes what was written durable; also called before a checkpoint is named.
  virtual void flush() {}
};

// One JSON object without line end, keys in INTERFACE's order.
std::string to_json_line(const StepMetrics& metrics);
// The records of a metrics file in order. An unfinished last line (a crash) is left out; any other
// line that is no record throws Error(kFormat) with its number. Throws Error(kIo) when it cannot be
// read.
std::vector<StepMetrics> read_metrics(const std::filesystem::path& path);

// Renames metrics that are there to metrics.jsonl.1 (.2, ...), so that a run which starts afresh
// does not overwrite them; the new name, nothing where no line is there. Throws filesystem_error.
std::optional<std::filesystem::path> set_aside(const std::filesystem::path& path);

// Appends a line a step; each line is one write, so a reader sees whole lines only.
class JsonlSink : public MetricSink {
 public:
  // Keeps the lines with step <= resumed_step of a file that is there (0: starts afresh) and drops
  // the others and any unfinished line, so that a resumed run leaves one clean sequence.
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
