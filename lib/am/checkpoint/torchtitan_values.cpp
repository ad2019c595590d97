#include "am/checkpoint/torchtitan_values.h"

#include <utility>

#include "am/base/text.h"
#include "am/formats/pickle_writer.h"
#include "am/formats/torch_slice.h"

namespace am::checkpoint {

namespace {

// Appends a value under the path {holder, key}. `archive`: the value as a torch.save archive.
void add(OptimizerValues& values, const std::string& holder, const std::string& key,
         std::string archive) {
  const auto slice = static_cast<uint32_t>(values.slices.size());
  values.values.push_back(
      {cat(holder, ".", key), {holder, key}, {slice, 0, static_cast<uint64_t>(archive.size())}});
  values.slices.push_back(std::move(archive));
}

std::string list_archive(const formats::SettingValue& only) {
  formats::PickleWriter pickle;
  pickle.empty_list();
  pickle.open_mark();
  formats::write_setting(pickle, only);
  pickle.close_list_items();
  return formats::value_slice(std::move(pickle).finish());
}

}  // namespace

void add_torchtitan_trainer(OptimizerValues& values, const ExportedOptimizer& optimizer,
                            int64_t step) {
  const formats::Settings& settings = optimizer.groups.front().settings;
  const double lr = formats::number_setting(settings, "lr").value_or(0.0);
  const double initial = formats::number_setting(settings, "initial_lr").value_or(lr);
  const std::string schedule = "lr_scheduler";
  add(values, schedule, "base_lrs", list_archive(initial));
  add(values, schedule, "last_epoch", formats::setting_archive(step));
  add(values, schedule, "_step_count", formats::setting_archive(step + 1));
  add(values, schedule, "_is_initial", formats::setting_archive(false));
  add(values, schedule, "_get_lr_called_within_step", formats::setting_archive(false));
  add(values, schedule, "_last_lr", list_archive(lr));
  add(values, schedule, "lr_lambdas", list_archive(formats::SettingValue()));
  add(values, "train_state", "step", formats::setting_archive(step));
  add(values, "train_state", "ntokens_seen", formats::setting_archive(int64_t{0}));
}

}  // namespace am::checkpoint
