#include "am/observe/tensorboard_sink.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>
#include <map>

#include "am/base/crc32c.h"
#include "am/base/error.h"
#include "am/base/file.h"
#include "support/temporary_folder.h"

using namespace am;
using namespace am::observe;

namespace {

// A protobuf message: the values of each field, by field number. Parsed without the writer's code.
struct Message {
  std::map<uint64_t, std::vector<std::string>> fields;  // raw bytes; varints as 8 bytes
};

uint64_t take_varint(std::string_view& bytes) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    REQUIRE(!bytes.empty());
    const auto byte = static_cast<uint8_t>(bytes.front());
    bytes.remove_prefix(1);
    value |= uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return value;
  }
}

Message parse_message(std::string_view bytes) {
  Message message;
  while (!bytes.empty()) {
    const uint64_t key = take_varint(bytes);
    size_t length = 0;
    switch (key & 7) {
      case 0: {
        const uint64_t value = take_varint(bytes);
        message.fields[key >> 3].emplace_back(reinterpret_cast<const char*>(&value), 8);
        continue;
      }
      case 1:
        length = 8;
        break;
      case 2:
        length = take_varint(bytes);
        break;
      case 5:
        length = 4;
        break;
      default:
        FAIL("wire type " << (key & 7));
    }
    REQUIRE(bytes.size() >= length);
    message.fields[key >> 3].emplace_back(bytes.substr(0, length));
    bytes.remove_prefix(length);
  }
  return message;
}

template <typename T>
T as(const std::string& bytes) {
  REQUIRE(bytes.size() == sizeof(T));
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

uint32_t unmask(uint32_t masked) {
  const uint32_t rotated = masked - 0xA282EAD8u;
  return (rotated >> 17) | (rotated << 15);
}

uint32_t crc_of(const std::string& bytes) { return crc32c(std::as_bytes(std::span(bytes))); }

std::vector<Message> read_events(const std::filesystem::path& path) {
  const std::string file = read_file(path);
  std::vector<Message> events;
  for (size_t at = 0; at < file.size();) {
    REQUIRE(file.size() - at >= 16);
    const auto length = as<uint64_t>(file.substr(at, 8));
    CHECK(unmask(as<uint32_t>(file.substr(at + 8, 4))) == crc_of(file.substr(at, 8)));
    REQUIRE(file.size() - at >= 16 + length);
    const std::string event = file.substr(at + 12, length);
    CHECK(unmask(as<uint32_t>(file.substr(at + 12 + length, 4))) == crc_of(event));
    events.push_back(parse_message(event));
    at += 16 + length;
  }
  return events;
}

std::map<std::string, float> scalars(const Message& event) {
  std::map<std::string, float> result;
  const Message summary = parse_message(event.fields.at(5).at(0));
  for (const std::string& value : summary.fields.at(1)) {
    const Message parsed = parse_message(value);
    result[parsed.fields.at(1).at(0)] = as<float>(parsed.fields.at(2).at(0));
  }
  return result;
}

StepMetrics rounded_sample(int64_t step) {
  StepMetrics metrics;
  metrics.step = step;
  metrics.loss = 2.5;
  metrics.grad_norm = 0.5;
  metrics.lr = 0.001;
  metrics.step_seconds = 0.25;
  metrics.tokens_per_second = 4096;
  metrics.tokens_per_second_per_rank = 1024;
  metrics.peak_memory_bytes = int64_t{3} << 29;
  return metrics;
}

}  // namespace

TEST_CASE("an event file's records are whole and say what was written") {
  const TemporaryFolder folder;
  TensorBoardSink sink(folder / "a/tb", 0);
  CHECK_THAT(sink.path().filename().string(), Catch::StartsWith("events.out.tfevents."));
  sink.write(rounded_sample(300));
  StepMetrics with_mfu = rounded_sample(301);
  with_mfu.mfu = 0.25;
  with_mfu.validation_loss = 1.5;
  sink.write(with_mfu);
  sink.flush();
  const auto events = read_events(sink.path());
  REQUIRE(events.size() == 3);
  CHECK(events[0].fields.at(3).at(0) == "brain.Event:2");
  CHECK(as<double>(events[0].fields.at(1).at(0)) > 1.6e9);
  CHECK(as<uint64_t>(events[1].fields.at(2).at(0)) == 300);
  CHECK(scalars(events[1]) == std::map<std::string, float>{{"loss_metrics/global_avg_loss", 2.5f},
                                                           {"grad_norm", 0.5f},
                                                           {"lr", 0.001f},
                                                           {"throughput(tps)", 1024.0f},
                                                           {"time_metrics/end_to_end(s)", 0.25f},
                                                           {"memory/max_active(GiB)", 1.5f}});
  CHECK(scalars(events[2]).at("mfu(%)") == 25.0f);
  CHECK(scalars(events[2]).at("validation_metrics/loss") == 1.5f);
  CHECK(scalars(events[2]).at("validation_metrics/perplexity") == 4.4816891f);
}

TEST_CASE("an event has the metrics of experts, float16 and named validation sets") {
  const TemporaryFolder folder;
  TensorBoardSink sink(folder.path(), 0);
  StepMetrics metrics = rounded_sample(7);
  metrics.aux_loss = 0.125;
  metrics.expert_load = {.busiest = 1.5, .idlest = 0.25};
  metrics.loss_scale = 65536.0;
  metrics.skipped_steps = 3;
  metrics.validation_losses = {{"code", 0.0}};
  metrics.peak_reserved_bytes = int64_t{1} << 31;
  metrics.time = 1.7e9;
  metrics.data_seconds = 0.5;
  sink.write(metrics);
  const auto found = scalars(read_events(sink.path()).at(1));
  CHECK(found.at("loss_metrics/aux_loss") == 0.125f);
  CHECK(found.at("experts/busiest") == 1.5f);
  CHECK(found.at("experts/idlest") == 0.25f);
  CHECK(found.at("loss_scale") == 65536.0f);
  CHECK(found.at("skipped_steps") == 3.0f);
  CHECK(found.at("validation_metrics/loss/code") == 0.0f);
  CHECK(found.at("validation_metrics/perplexity/code") == 1.0f);
  CHECK(found.at("memory/max_reserved(GiB)") == 2.0f);
  CHECK(found.at("time_metrics/data_loading(s)") == 0.5f);
}

TEST_CASE("the plan is an event of TensorBoard's text plugin") {
  const TemporaryFolder folder;
  TensorBoardSink sink(folder.path(), 40, "tp_size = 2\n");
  sink.flush();
  const Message event = read_events(sink.path()).at(2);
  CHECK(as<uint64_t>(event.fields.at(2).at(0)) == 40);
  const Message value = parse_message(parse_message(event.fields.at(5).at(0)).fields.at(1).at(0));
  CHECK(value.fields.at(1).at(0) == "plan");
  const Message tensor = parse_message(value.fields.at(8).at(0));
  CHECK(as<uint64_t>(tensor.fields.at(1).at(0)) == 7);  // DT_STRING
  CHECK(tensor.fields.at(8).at(0) == "```toml\ntp_size = 2\n```");
  const Message plugin = parse_message(parse_message(value.fields.at(9).at(0)).fields.at(1).at(0));
  CHECK(plugin.fields.at(1).at(0) == "text");
}

TEST_CASE("a resumed run tells TensorBoard to forget later steps") {
  const TemporaryFolder folder;
  TensorBoardSink sink(folder.path(), 12);
  sink.flush();
  const auto events = read_events(sink.path());
  REQUIRE(events.size() == 2);
  CHECK(as<uint64_t>(events[1].fields.at(2).at(0)) == 13);
  CHECK(as<uint64_t>(parse_message(events[1].fields.at(7).at(0)).fields.at(1).at(0)) == 1);
}

TEST_CASE("an event file that cannot be written is an error that names it") {
  const TemporaryFolder folder;
  std::ofstream(folder / "file") << "x";
  CHECK_THROWS_WITH(TensorBoardSink(folder / "file/tb", 0), Catch::Contains("file/tb"));
}
