// Input: config.json. For a valid config of at most 64 layers, the target computes the names and
// sizes of the parameters and the FLOPs per token.
#include "am/model/config.h"
#include "am/model/flops.h"
#include "am/model/inventory.h"
#include "am/model/layer_profile.h"
#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  am::Diagnostics found;
  const auto config =
      am::model::parse_config(std::string(am::fuzz::text_of(data, size)), "config.json", found);
  if (!config) return 0;
  am::model::layer_kinds(*config);
  if (config->num_hidden_layers > 64) return 0;
  am::model::build_inventory(*config);
  am::model::train_flops_per_token(*config, 4096);
  return 0;
}
