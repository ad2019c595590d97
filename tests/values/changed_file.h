// Writes modified tensors of the llama fixture to files, and reads the JSON answers of commands.
#pragma once

#include <ATen/ATen.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "am/checkpoint/read_tensor.h"
#include "am/formats/safetensors.h"
#include "am/frameworks/open_weights.h"
#include "am/tensor/dtype.h"
#include "values/session_fixture.h"

namespace am::values::test {

using Tensors = std::map<std::string, at::Tensor>;

inline void write_tensors(const std::filesystem::path& path, const Tensors& values) {
  std::vector<formats::SafetensorsItem> items;
  for (const auto& [name, value] : values) {
    items.push_back({name, formats::safetensors_name(tensor::stored_dtype(value.scalar_type())),
                     value.sizes().vec()});
  }
  formats::SafetensorsWriter writer(path, items, {});
  for (const auto& [name, value] : values) {
    const at::Tensor whole = value.contiguous();
    writer.write({static_cast<const std::byte*>(whole.data_ptr()), whole.nbytes()});
  }
  writer.close();
}

inline void write_changed(const std::filesystem::path& path,
                          const std::function<void(Tensors&)>& change) {
  const auto source = frameworks::open_tensor_source(fixture("llama") + kModel);
  Tensors values;
  for (const auto& tensor : source->tensors())
    values[tensor.name] = checkpoint::read_all(*source, tensor.name);
  change(values);
  write_tensors(path, values);
}

// Returns the entry of `list` with this name; null if there is none.
inline Json find_named(const Json& list, const std::string& name) {
  for (const Json& each : list) {
    if (each["name"] == name) return each;
  }
  return nullptr;
}

// Runs a command that must succeed, and returns its JSON answer.
inline Json json_answer(Session& session, const std::string& input) {
  const inspect::Outcome outcome = execute(session, input);
  INFO(input << ": " << (outcome.error ? outcome.error->message : ""));
  REQUIRE_FALSE(outcome.error);
  return outcome.result.json;
}

}  // namespace am::values::test
