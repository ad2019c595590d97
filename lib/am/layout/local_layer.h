// One rank's part of a decoder layer: width of each module, and whether it is trained.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "am/layout/layout.h"
#include "am/model/spec.h"

namespace am::layout {

struct LocalModule {
  const model::ModuleSpec* spec = nullptr;  // null if the layer has no module in this role
  double out = 0.0;  // elements of the local output per token; all if tp gathers the output
  double in = 0.0;   // elements of the input per token
  std::vector<double> slices = {};  // elements of `out` per slice of a fused matrix
  // Whether the module reads the full hidden state on every tp rank, even if sequence parallelism
  // shards the hidden state between modules. True if tp shards the module's weight in any style
  // except rowwise.
  bool gathers = false;
  // Elements of the module's matrices on this rank before FSDP shards them, including the matrices
  // of adapters and of all local experts.
  double numel = 0.0;
  bool trains = false;  // the weight is trained
  double rank = 0.0;    // rank of the module's LoRA adapter; 0: no adapter
  bool adapts = false;  // the adapter is trained

  // Whether the module's input is saved for the gradient of its weight or its adapter.
  bool reads_input() const { return trains || adapts; }
};

class LocalLayer {
 public:
  // Describes the part of global rank `rank`. `unit` must be the unit of a decoder layer. The
  // layout must outlive the object.
  LocalLayer(const Layout& layout, int64_t rank, const model::Unit& unit);

  const model::LayerSpec& spec() const { return spec_; }
  const LocalModule& operator[](model::Role role) const {
    return modules_[static_cast<size_t>(role)];
  }
  const std::array<LocalModule, model::kRoles>& modules() const { return modules_; }
  bool has(model::Role role) const { return (*this)[role].spec != nullptr; }
  // Returns the sum of `numel` over the modules in these roles, or over all modules.
  double numel(std::initializer_list<model::Role> roles) const;
  double numel() const;
  // Returns the number of modules that read the hidden state and whose weight or adapter is
  // trained. Counts the modules of attention or, if `attention` is false, those of the
  // feed-forward. If `gathering`, counts only modules that read the hidden state after a gather
  // over tp; otherwise only those that read the shard that is stored between modules
  // (LocalModule::gathers).
  double trained_readers(bool attention, bool gathering) const;
  double trained_readers(bool attention) const {
    return trained_readers(attention, true) + trained_readers(attention, false);
  }
  // Returns the number of elements per token that these modules' trained adapters save for
  // backward, in addition to the modules' inputs: the LoRA ranks, and with DoRA also the modules'
  // outputs before DoRA's magnitudes scale them.
  double adapter_widths(std::initializer_list<model::Role> roles) const;
  // Whether any norm or projection before attention's output projection is trained, or the adapter
  // of any of these projections.
  bool trains_in_attention() const;

 private:
  const model::LayerSpec& spec_;
  std::array<LocalModule, model::kRoles> modules_;
};

}  // namespace am::layout
