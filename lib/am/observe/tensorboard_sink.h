// Writes metrics to an event file of scalars, which TensorBoard displays.
//
//   TensorBoardSink sink(run.root() / "tensorboard", resumed_step);
//   sink.write(metrics);
//
// The tags are torchtitan's, so that runs of automesh and torchtitan appear in one chart:
// loss_metrics/global_avg_loss, validation_metrics/loss, grad_norm, lr, throughput(tps) (per rank),
// mfu(%), time_metrics/end_to_end(s), memory/max_active(GiB).
//
// Format: records of [u64 length][u32 masked CRC-32C of the length][bytes][u32 masked CRC-32C of
// the bytes], each a protobuf `Event`. The sink encodes protobuf without a library, because an
// event needs only five kinds of fields.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "am/observe/metrics.h"

namespace am::observe {

class TensorBoardSink : public MetricSink {
 public:
  // Creates the folder and a new event file in it. If resumed_step > 0, the new file makes
  // TensorBoard discard the steps after resumed_step that earlier files contain. Throws
  // Error(kIo).
  TensorBoardSink(const std::filesystem::path& folder, int64_t resumed_step);
  TensorBoardSink(const TensorBoardSink&) = delete;
  TensorBoardSink& operator=(const TensorBoardSink&) = delete;
  ~TensorBoardSink() override;

  void write(const StepMetrics& metrics) override;
  void flush() override;

  const std::filesystem::path& path() const { return path_; }

 private:
  void write_record(std::string_view event);

  std::filesystem::path path_;
  int fd_ = -1;
};

}  // namespace am::observe
