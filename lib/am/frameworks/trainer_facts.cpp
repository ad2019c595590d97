#include "am/frameworks/trainer_facts.h"

#include <algorithm>
#include <functional>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "am/formats/torch_archive.h"
#include "am/stored/state_keys.h"

namespace am::frameworks {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kCommonState = "common_state/";

using Look = std::function<void(const formats::PickleValue&, TrainerFacts&)>;

// Parses the torch.save data in a part of a file, calls `look` with the saved value, and returns
// the facts that `look` has set. `offset` and `length`: the part, in bytes; without `length`, the
// part extends to the end of the file.
TrainerFacts look_into(const fs::path& path, uint64_t offset, std::optional<uint64_t> length,
                       const Look& look) {
  TrainerFacts facts;
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return facts;
  const MappedFile file(path);
  const auto bytes = file.bytes();
  if (offset > bytes.size() || length.value_or(0) > bytes.size() - offset) return facts;
  std::optional<formats::TorchArchive> archive;
  try {
    archive.emplace(formats::TorchArchive::read(
        bytes.subspan(offset, length.value_or(bytes.size() - offset)), path.string()));
  } catch (const Error& error) {
    facts.note = cat("the trainer's state cannot be read: ", error.what());
    return facts;
  }
  for (const formats::PickleGlobal& global : archive->pickle().globals()) {
    if (global.alarming) stored::refuse_alarm(path, global);
  }
  look(archive->root(), facts);
  return facts;
}

std::optional<int64_t> integer_of(const formats::PickleValue& dict, std::string_view key) {
  const formats::PickleValue* value = dict.find(key);
  return value == nullptr ? std::nullopt : value->integer();
}

void look_at_common(const formats::PickleValue& state, TrainerFacts& facts) {
  facts.step = integer_of(state, "iteration");
  const formats::PickleValue* content = state.find("content_metadata");
  const formats::PickleValue* kind =
      content == nullptr ? nullptr : content->find("distrib_optim_sharding_type");
  if (kind == nullptr || !kind->text()) return;
  facts.note = cat("the optimizer states are stored as ", *kind->text());
  if (kind->text() == "dp_reshardable") facts.note += ", in flat buckets without parameter names";
}

}  // namespace

TrainerFacts olmo_facts(const fs::path& step_folder) {
  return look_into(step_folder / "train" / "rank0.pt", 0, {}, [](const auto& state, auto& facts) {
    facts.step = integer_of(state, "global_step");
  });
}

namespace {

// Calls `look` with the dict of Megatron's common state, and returns the facts that `look` has set.
TrainerFacts look_into_common(const fs::path& folder, const formats::DcpMetadata& metadata,
                              const Look& look) {
  const auto common =
      std::find_if(metadata.values.begin(), metadata.values.end(),
                   [](const auto& value) { return starts_with(value.name, kCommonState); });
  if (common == metadata.values.end()) return look_into(folder / "common.pt", 0, {}, look);
  const formats::DcpSlice& slice = common->slice;
  // Objects in common_state are stored as lists with one element.
  return look_into(folder / metadata.files[slice.file], slice.offset, slice.length,
                   [&](const auto& value, auto& facts) {
                     if (!value.items().empty()) look(value.items()[0], facts);
                   });
}

}  // namespace

TrainerFacts megatron_facts(const fs::path& folder, const formats::DcpMetadata& metadata) {
  return look_into_common(folder, metadata, look_at_common);
}

void visit_megatron_common(const fs::path& folder, const formats::DcpMetadata& metadata,
                           const std::function<void(const formats::PickleValue&)>& view) {
  look_into_common(folder, metadata, [&](const auto& state, TrainerFacts&) { view(state); });
}

}  // namespace am::frameworks
