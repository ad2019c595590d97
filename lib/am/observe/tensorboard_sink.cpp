#include "am/observe/tensorboard_sink.h"

#include <fcntl.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>

#include "am/base/crc32c.h"
#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/host.h"
#include "am/base/text.h"
#include "am/base/units.h"

namespace am::observe {
namespace {

// Field numbers of tensorflow's event.proto and summary.proto.
constexpr uint32_t kEventWallTime = 1;     // field type: double
constexpr uint32_t kEventStep = 2;         // field type: int64
constexpr uint32_t kEventFileVersion = 3;  // field type: string
constexpr uint32_t kEventSummary = 5;      // field type: Summary
constexpr uint32_t kEventSessionLog = 7;   // field type: SessionLog
constexpr uint32_t kSummaryValue = 1;      // field type: Value, repeated
constexpr uint32_t kValueTag = 1;          // field type: string
constexpr uint32_t kValueSimple = 2;       // field type: float
constexpr uint32_t kValueTensor = 8;       // field type: TensorProto
constexpr uint32_t kValueMetadata = 9;     // field type: SummaryMetadata
constexpr uint32_t kMetadataPlugin = 1;    // field type: PluginData
constexpr uint32_t kPluginName = 1;        // field type: string
constexpr uint32_t kTensorType = 1;        // field type: enum; 7 means DT_STRING
constexpr uint32_t kTensorShape = 2;       // field type: TensorShapeProto; empty: a scalar
constexpr uint32_t kTensorString = 8;      // field type: bytes, repeated
constexpr uint32_t kSessionStatus = 1;     // field type: enum; 1 means START

enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& reason) {
  throw Error(ErrorKind::kIo, cat(path.string(), ": cannot write the metrics: ", reason));
}

template <typename T>
void append_little_endian(std::string& out, T value) {
  static_assert(std::endian::native == std::endian::little);
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void append_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7F) | 0x80);
  out += static_cast<char>(value);
}

void append_key(std::string& out, uint32_t field, WireType type) {
  append_varint(out, (field << 3) | type);
}

void append_bytes(std::string& out, uint32_t field, std::string_view bytes) {
  append_key(out, field, kBytes);
  append_varint(out, bytes.size());
  out += bytes;
}

void append_scalar(std::string& summary, std::string_view tag, double value) {
  std::string scalar;
  append_bytes(scalar, kValueTag, tag);
  append_key(scalar, kValueSimple, kFixed32);
  append_little_endian(scalar, static_cast<float>(value));
  append_bytes(summary, kSummaryValue, scalar);
}

// Adds a scalar and its exponential, which is the perplexity if the scalar is a mean cross-entropy.
void append_loss(std::string& summary, std::string_view set, double loss) {
  append_scalar(summary, cat("validation_metrics/loss", set), loss);
  append_scalar(summary, cat("validation_metrics/perplexity", set), std::exp(loss));
}

// Returns an encoded event with the two fields that every event contains: wall time and step.
std::string event_at(int64_t step) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  std::string event;
  append_key(event, kEventWallTime, kFixed64);
  append_little_endian(event, std::chrono::duration<double>(now).count());
  append_key(event, kEventStep, kVarint);
  append_varint(event, static_cast<uint64_t>(step));
  return event;
}

// Returns TensorFlow's masked CRC-32C of the bytes: the CRC rotated right by 15 bits, plus a
// constant.
uint32_t masked_crc(std::string_view bytes) {
  return std::rotr(crc32c(std::as_bytes(std::span(bytes))), 15) + 0xA282EAD8u;
}

// Returns the event file's name, events.out.tfevents.SECONDS.HOST.PID. TensorBoard reads the event
// files of a folder in the order of their names.
std::string file_name() {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(
                           std::chrono::system_clock::now().time_since_epoch())
                           .count();
  return cat("events.out.tfevents.", seconds, ".", host_name(), ".", ::getpid());
}

}  // namespace

TensorBoardSink::TensorBoardSink(const std::filesystem::path& folder, int64_t resumed_step,
                                 std::string plan)
    : path_(folder / file_name()), resumed_step_(resumed_step), plan_(std::move(plan)) {
  std::error_code reason;
  std::filesystem::create_directories(behind_own_links(folder), reason);
  if (reason) fail(folder, reason.message());
  fd_ = open_own_file(path_, O_WRONLY | O_APPEND | O_CREAT);
  if (fd_ < 0) fail(path_, std::strerror(errno));
}

// Writes the first records of the file, once: the version, a session start if the run was resumed,
// and the plan.
void TensorBoardSink::write_head() {
  if (std::exchange(has_head_, true)) return;
  std::string first = event_at(0);
  append_bytes(first, kEventFileVersion, "brain.Event:2");
  write_record(first);
  if (resumed_step_ > 0) {
    std::string status;
    append_key(status, kSessionStatus, kVarint);
    append_varint(status, 1);
    std::string start = event_at(resumed_step_ + 1);
    append_bytes(start, kEventSessionLog, status);
    write_record(start);
  }
  if (!plan_.empty()) write_text("plan", cat("```toml\n", plan_, "```"));
}

TensorBoardSink::~TensorBoardSink() {
  if (fd_ >= 0) ::close(fd_);
}

void TensorBoardSink::write(const StepMetrics& metrics) {
  write_head();
  std::string summary;
  append_scalar(summary, "loss_metrics/global_avg_loss", metrics.loss);
  if (metrics.aux_loss) append_scalar(summary, "loss_metrics/aux_loss", *metrics.aux_loss);
  if (metrics.validation_loss) append_loss(summary, "", *metrics.validation_loss);
  for (const auto& [name, loss] : metrics.validation_losses) {
    append_loss(summary, cat("/", name), loss);
  }
  append_scalar(summary, "grad_norm", metrics.grad_norm);
  append_scalar(summary, "lr", metrics.lr);
  append_scalar(summary, "throughput(tps)", metrics.tokens_per_second_per_rank);
  if (metrics.mfu) append_scalar(summary, "mfu(%)", 100.0 * *metrics.mfu);
  append_scalar(summary, "time_metrics/end_to_end(s)", metrics.step_seconds);
  append_scalar(summary, "memory/max_active(GiB)",
                static_cast<double>(metrics.peak_memory_bytes) / kGiB);
  if (metrics.peak_reserved_bytes) {
    append_scalar(summary, "memory/max_reserved(GiB)",
                  static_cast<double>(*metrics.peak_reserved_bytes) / kGiB);
  }
  if (metrics.time > 0.0) {
    append_scalar(summary, "time_metrics/data_loading(s)", metrics.data_seconds);
  }
  if (metrics.expert_load) {
    append_scalar(summary, "experts/busiest", metrics.expert_load->busiest);
    append_scalar(summary, "experts/idlest", metrics.expert_load->idlest);
  }
  if (metrics.loss_scale) append_scalar(summary, "loss_scale", *metrics.loss_scale);
  if (metrics.skipped_steps > 0) {
    append_scalar(summary, "skipped_steps", static_cast<double>(metrics.skipped_steps));
  }
  write_summary(metrics.step, summary);
}

// Writes a text, which TensorBoard shows under `tag`, at the step resumed_step_.
void TensorBoardSink::write_text(std::string_view tag, std::string_view markdown) {
  constexpr uint64_t kString = 7;  // DT_STRING
  std::string plugin, metadata, tensor, value, summary;
  append_bytes(plugin, kPluginName, "text");
  append_bytes(metadata, kMetadataPlugin, plugin);
  append_key(tensor, kTensorType, kVarint);
  append_varint(tensor, kString);
  append_bytes(tensor, kTensorShape, {});
  append_bytes(tensor, kTensorString, markdown);
  append_bytes(value, kValueTag, tag);
  append_bytes(value, kValueTensor, tensor);
  append_bytes(value, kValueMetadata, metadata);
  append_bytes(summary, kSummaryValue, value);
  write_summary(resumed_step_, summary);
}

void TensorBoardSink::write_summary(int64_t step, std::string_view summary) {
  std::string event = event_at(step);
  append_bytes(event, kEventSummary, summary);
  write_record(event);
}

void TensorBoardSink::flush() {
  write_head();
  if (sync_retrying(fd_) != 0 && errno != EINVAL) fail(path_, std::strerror(errno));
}

// Passes the whole record to one write(), so that readers normally see only complete records.
void TensorBoardSink::write_record(std::string_view event) {
  std::string record;
  append_little_endian(record, uint64_t{event.size()});
  append_little_endian(record, masked_crc(record));
  record += event;
  append_little_endian(record, masked_crc(event));
  std::string_view left = record;
  while (!left.empty()) {
    const ssize_t written = ::write(fd_, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail(path_, std::strerror(errno));
    left.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace am::observe
