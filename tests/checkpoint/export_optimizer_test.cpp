// Tests exports of optimizer states and settings to plain folders of torch.distributed.checkpoint
// and to the formats of frameworks: the exports are read back bit by bit.
#include "am/checkpoint/export_optimizer.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>
#include <map>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/checkpoint/export_dcp.h"
#include "am/checkpoint/read_tensor.h"
#include "am/formats/torch_archive.h"
#include "am/frameworks/open_weights.h"
#include "am/frameworks/optimizer_settings.h"
#include "support/folders.h"
#include "support/temporary_folder.h"

namespace am::checkpoint {
namespace {

namespace fs = std::filesystem;

using Source = std::unique_ptr<stored::TensorSource>;

const fs::path kFolders = fs::path(test::kDataFolder) / "frameworks";

const frameworks::NameTable* const kDcp = nullptr;
const frameworks::NameTable* const kTitan = &frameworks::torchtitan_table();
const frameworks::NameTable* const kOlmo = &frameworks::olmo_table();
const frameworks::NameTable* const kMegatron = &frameworks::megatron_table();

std::string name_of(const frameworks::NameTable* table) {
  return table == nullptr ? "dcp" : std::string(table->format);
}

Source open(const fs::path& folder) { return frameworks::open_tensor_source(folder); }

Source exported(const stored::TensorSource& source, const fs::path& folder,
                const frameworks::NameTable* table) {
  export_dcp(folder, source, {.table = table, .optimizer = true});
  return open(folder);
}

// Returns, for each parameter, the values of the settings `names` and the number of updates.
std::map<std::string, std::map<std::string, formats::SettingValue>> settings_of(
    const stored::TensorSource& source, const std::vector<std::string>& names) {
  std::map<std::string, std::map<std::string, formats::SettingValue>> settings;
  for (const auto& group : frameworks::read_settings_groups(source)) {
    for (const std::string& parameter : group.parameters) {
      for (const std::string& name : names) {
        const formats::SettingValue* value = formats::find_setting(group.settings, name);
        if (value != nullptr) settings[parameter][name] = *value;
      }
      const auto updates = frameworks::updates_of(source, parameter, &group.settings);
      if (updates) settings[parameter]["updates"] = *updates;
    }
  }
  return settings;
}

const std::vector<std::string> kAdamW = {"lr", "betas", "eps", "weight_decay"};

bool is_moment(const std::string& name) {
  return ends_with(name, ".exp_avg") || ends_with(name, ".exp_avg_sq");
}

// Checks that the parameters, moments, step counts and settings of two sources are equal.
void check_same(const stored::TensorSource& a, const stored::TensorSource& b) {
  size_t moments = 0;
  for (const auto* list : {&b.tensors(), &b.optimizer_tensors()}) {
    for (const stored::StoredTensor& tensor : *list) {
      if (list == &b.optimizer_tensors() && !is_moment(tensor.name)) continue;
      moments += is_moment(tensor.name) ? 1 : 0;
      INFO(tensor.name);
      const stored::StoredTensor* own = a.find(tensor.name);
      REQUIRE(own != nullptr);
      CHECK(own->dtype == tensor.dtype);
      REQUIRE(own->shape == tensor.shape);
      CHECK(at::equal(read_all(a, tensor.name), read_all(b, tensor.name)));
    }
  }
  CHECK(moments == 2 * b.tensors().size());
  CHECK(a.tensors().size() == b.tensors().size());
  const auto own = settings_of(a, kAdamW), other = settings_of(b, kAdamW);
  CHECK(own.size() == b.tensors().size());
  CHECK((own == other));
}

std::string export_error(const stored::TensorSource& source, const frameworks::NameTable* table) {
  const TemporaryFolder temporary;
  try {
    exported(source, temporary / "out", table);
  } catch (const Error& error) {
    CHECK_FALSE(fs::exists(temporary / "out"));
    CHECK_FALSE(fs::exists(temporary / "out.tmp"));
    return error.what();
  }
  return "none";
}

// Wraps a TensorSource; `change` modifies its list of optimizer tensors.
class Changed : public stored::TensorSource {
 public:
  Changed(const stored::TensorSource& source,
          const std::function<void(std::vector<stored::StoredTensor>&)>& change)
      : source_(source), optimizer_(source.optimizer_tensors()) {
    change(optimizer_);
  }
  std::string format() const override { return source_.format(); }
  fs::path path() const override { return source_.path(); }
  const std::vector<stored::StoredTensor>& tensors() const override { return source_.tensors(); }
  const std::vector<stored::StoredTensor>& optimizer_tensors() const override { return optimizer_; }
  std::vector<std::string> values() const override { return source_.values(); }
  bool visit_value(std::string_view name, const VisitValue& view) const override {
    return source_.visit_value(name, view);
  }
  fs::path config_file() const override { return source_.config_file(); }
  void read(std::string_view name, const mesh::Box& box,
            const stored::Destination& out) const override {
    source_.read(name, box, out);
  }

 private:
  const stored::TensorSource& source_;
  std::vector<stored::StoredTensor> optimizer_;
};

}  // namespace

TEST_CASE("optimizer states come back bit for bit from every pair of formats") {
  // torchtitan's checkpoints of Llama and of Qwen 3 with experts. OLMo-core has no names for
  // experts.
  const std::map<std::string, std::vector<const frameworks::NameTable*>> models = {
      {"torchtitan", {kDcp, kTitan, kOlmo, kMegatron}},
      {"torchtitan_moe", {kDcp, kTitan, kMegatron}}};
  for (const auto& [model, tables] : models) {
    const Source source = open(kFolders / model / "step-2");
    REQUIRE(settings_of(*source, kAdamW).size() == source->tensors().size());
    for (const auto* first : tables) {
      const TemporaryFolder temporary;
      INFO(model << " to " << name_of(first));
      const Source there = exported(*source, temporary / "first", first);
      CHECK(there->format() == name_of(first));
      CHECK(there->step().value_or(2) == 2);
      check_same(*there, *source);
      for (const auto* second : tables) {
        INFO("and to " << name_of(second));
        check_same(*exported(*there, temporary / ("to-" + name_of(second)), second), *source);
      }
    }
  }
}

TEST_CASE("states of a framework's own checkpoints are exported to the others") {
  for (const char* model :
       {"olmo/step2", "olmo_llama/step2", "accelerate/checkpoint-2",
        "accelerate_ranks/checkpoint-2", "torch_checkpointing/step-2", "trainer/checkpoint-2"}) {
    INFO(model);
    const Source source = open(kFolders / model);
    const auto* table = starts_with(model, "olmo/") ? kOlmo : kMegatron;
    const TemporaryFolder temporary;
    check_same(*exported(*source, temporary / "out", table), *source);
    check_same(*exported(*source, temporary / "dcp", kDcp), *source);
  }
}

TEST_CASE("an export continues from Megatron's master weights") {
  const Source source = open(kFolders / "megatron_experts" / "iter_0000002");
  const TemporaryFolder temporary;
  // The fixture's common.pt contains no optimizer settings, so only the states can be exported.
  const auto notes = export_dcp(temporary / "out", *source, {.optimizer = true});
  REQUIRE(notes.size() == 1);
  CHECK_THAT(notes[0], Catch::Contains("no settings of the optimizer"));
  const Source there = open(temporary / "out");
  for (const stored::StoredTensor& tensor : there->tensors()) {
    const std::string state = cat("optim.state.", tensor.name, ".");
    CHECK(at::equal(read_all(*there, tensor.name), read_all(*source, state + "fp32_param")));
    CHECK(there->find(state + "fp32_param") == nullptr);
    CHECK(at::equal(read_all(*there, state + "exp_avg"), read_all(*source, state + "exp_avg")));
  }
  CHECK_THAT(export_error(*source, kTitan),
             Catch::Contains("settings of the optimizer (lr, betas, ..) are not stored"));
}

TEST_CASE("a master weight of another shape than its parameter is an error") {
  const Source source = open(kFolders / "megatron_experts" / "iter_0000002");
  const Changed torn(*source, [](auto& states) {
    for (stored::StoredTensor& each : states) {
      if (ends_with(each.name, "norm.weight.fp32_param")) each.shape.front() -= 1;
    }
  });
  CHECK_THAT(export_error(torn, kDcp), Catch::Contains("norm.weight.fp32_param is ") &&
                                           Catch::Contains(", but its parameter is "));
}

TEST_CASE("moments keep their dtype, and Megatron's masters are float32") {
  const Source source = open(kFolders / "torchtitan" / "step-2");
  const TemporaryFolder temporary;
  export_dcp(temporary / "out", *source,
             {.table = kMegatron, .dtype = at::kBFloat16, .optimizer = true});
  const Source there = open(temporary / "out");
  const std::string name = "model.layers.1.self_attn.k_proj.weight";
  const at::Tensor weight = read_all(*source, name);
  CHECK(at::equal(read_all(*there, name), weight.to(at::kBFloat16)));
  for (const char* master : {"param", "fp32_param"}) {
    CHECK(at::equal(read_all(*there, cat("optim.state.", name, ".", master)), weight));
  }
  const std::string moment = cat("optim.state.", name, ".exp_avg");
  CHECK(at::equal(read_all(*there, moment), read_all(*source, moment)));
}

TEST_CASE("torchtitan's trainer finds the states that its loader requires") {
  const Source source = open(kFolders / "torchtitan" / "step-2");
  const TemporaryFolder temporary;
  const Source there = exported(*source, temporary / "out", kTitan);
  const std::vector<std::string> own = source->values(), names = there->values();
  for (const std::string& name : own) {
    INFO(name);
    if (starts_with(name, "dataloader.")) continue;  // state of torchtitan's dataloader
    REQUIRE(std::find(names.begin(), names.end(), name) != names.end());
    if (name == "train_state.ntokens_seen") continue;
    std::optional<formats::SettingValue> expected, found;
    source->visit_value(name, [&](const auto& value) { expected = formats::setting_value(value); });
    there->visit_value(name, [&](const auto& value) { found = formats::setting_value(value); });
    CHECK((expected == found));
  }
}

TEST_CASE("what has no optimizer states for a framework is named") {
  const Source weights = open(fs::path(test::kDataFolder) / "hf" / "llama" / "model.safetensors");
  for (const auto* table : {kDcp, kTitan}) {
    CHECK_THAT(export_error(*weights, table), Catch::Contains("holds no optimizer states"));
  }
  const Source source = open(kFolders / "torchtitan" / "step-2");
  const std::string lost = "optim.state.model.layers.0.mlp.up_proj.weight.exp_avg_sq";
  const Changed torn(*source, [&](auto& states) {
    std::erase_if(states, [&](const auto& each) { return each.name == lost; });
  });
  for (const auto* table : {kDcp, kOlmo, kMegatron}) {
    INFO(name_of(table));
    CHECK_THAT(export_error(torn, table),
               Catch::Contains("model.layers.0.mlp.up_proj.weight has no optimizer state "
                               "exp_avg_sq"));
  }
}

}  // namespace am::checkpoint
