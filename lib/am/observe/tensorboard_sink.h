// Writes metrics as scalars, and the plan as a text, to an event file, which TensorBoard displays.
//
//   TensorBoardSink sink(run.root() / "tensorboard", resumed_step, "[mesh]\ntp_size = 2\n");
//   sink.write(metrics);
//
// The tags are torchtitan's, so that runs of automesh and torchtitan appear in one chart:
// loss_metrics/global_avg_loss, validation_metrics/loss, grad_norm, lr, throughput(tps) (per rank),
// mfu(%), time_metrics/end_to_end(s), time_metrics/data_loading(s), memory/max_active(GiB),
// memory/max_reserved(GiB). For other metrics torchtitan has no tags. Their tags are
// validation_metrics/loss/NAME for a named validation set, validation_metrics/perplexity[/NAME],
// experts/busiest and experts/idlest (ExpertLoad), loss_metrics/aux_loss, loss_scale and
// skipped_steps.
//
// Format: records of [u64 length][u32 masked CRC-32C of the length][bytes][u32 masked CRC-32C of
// the bytes], each a protobuf `Event`. The sink encodes protobuf without a library, because an
// event needs only a dozen fields.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "am/observe/metrics.h"

namespace am::observe {

class TensorBoardSink : public MetricSink {
 public:
  // Creates the folder and a new, empty event file in it. The first write() or flush() writes the
  // file's first records. If resumed_step > 0, these records make TensorBoard discard the steps
  // after resumed_step in earlier files of the folder. `plan`: TOML that TensorBoard shows as the
  // text "plan"; empty: none. Throws Error(kIo).
  TensorBoardSink(const std::filesystem::path& folder, int64_t resumed_step, std::string plan = {});
  TensorBoardSink(const TensorBoardSink&) = delete;
  TensorBoardSink& operator=(const TensorBoardSink&) = delete;
  ~TensorBoardSink() override;

  void write(const StepMetrics& metrics) override;
  void flush() override;

  const std::filesystem::path& path() const { return path_; }

 private:
  void write_record(std::string_view event);

  void write_head();
  void write_text(std::string_view tag, std::string_view markdown);
  void write_summary(int64_t step, std::string_view summary);

  std::filesystem::path path_;
  int64_t resumed_step_ = 0;
  std::string plan_;
  bool has_head_ = false;
  int fd_ = -1;
};

}  // namespace am::observe
