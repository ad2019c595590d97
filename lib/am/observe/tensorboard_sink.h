// Metrics as TensorBoard reads them: an event file of scalars, written by hand.
//
//   TensorBoardSink sink(run.root() / "tensorboard", resumed_step);
//   sink.write(metrics);
//
// The tags are torchtitan's, so that runs of both stand in one chart: loss_metrics/global_avg_loss,
// grad_norm, lr, throughput(tps) (of one rank), mfu(%), time_metrics/end_to_end(s),
// memory/max_active(GiB).
//
// The format: records of [u64 length][u32 masked CRC-32C of it][bytes][u32 masked CRC-32C of them],
// each a protobuf `Event`. Five kinds of fields in all: no protobuf library is needed.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "am/observe/metrics.h"

namespace am::observe {

class TensorBoardSink : public MetricSink {
 public:
  // Makes the folder and a new event file in it. With resumed_step > 0 TensorBoard is told to
  // forget what earlier files say of later steps. Throws Error(kIo).
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

// CRC-32C (Castagnoli), as iSCSI has it: of "123456789" it is 0xE3069283.
uint32_t crc32c(std::string_view bytes);

}  // namespace am::observe
