// A decoder layer as one rank has it: of each module how wide it is there, and whether it trains.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "am/model/spec.h"
#include "am/planner/layout.h"

namespace am::planner {

struct LocalModule {
  const model::ModuleSpec* spec = nullptr;  // null: the layer has none in this role
  double out = 0.0;  // elements that it gives for one token; what is gathered over tp is whole
  double in = 0.0;   // of what it takes
  std::vector<double> slices = {};  // of a fused matrix: of `out` each slice's
  bool gathers = false;  // its input is whole on each tp rank, whatever goes on between modules
  double numel = 0.0;    // elements of its matrices on this rank, of all experts that it holds
  bool trains = false;   // its weight
  double rank = 0.0;     // of its adapter; 0: none
  bool adapts = false;   // the adapter trains

  // Whether its input is kept until backward, for a gradient.
  bool reads_input() const { return trains || adapts; }
};

class LocalLayer {
 public:
  // `unit` is a layer's; the layout must outlive this.
  LocalLayer(const Layout& layout, int64_t rank, const model::Unit& unit);

  const model::LayerSpec& spec() const { return spec_; }
  const LocalModule& operator[](model::Role role) const {
    return modules_[static_cast<size_t>(role)];
  }
  const std::array<LocalModule, model::kRoles>& modules() const { return modules_; }
  bool has(model::Role role) const { return (*this)[role].spec != nullptr; }
  // Sums over modules.
  double numel(std::initializer_list<model::Role> roles) const;
  double numel() const;
  // How many matrices of attention, or of the feed-forward, read the hidden state and train, or
  // have an adapter that does: those that gather it, or those that read it as it goes on between
  // modules.
  double trained_readers(bool attention, bool gathering) const;
  double trained_readers(bool attention) const {
    return trained_readers(attention, true) + trained_readers(attention, false);
  }
  // Elements of a token between A and B, of the adapters of these modules.
  double adapter_ranks(std::initializer_list<model::Role> roles) const;
  // Whether something of attention trains, norms included.
  bool trains_in_attention() const;

 private:
  const model::LayerSpec& spec_;
  std::array<LocalModule, model::kRoles> modules_;
};

}  // namespace am::planner
