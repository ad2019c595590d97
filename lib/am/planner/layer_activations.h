// What autograd keeps of one decoder layer's forward pass, tensor by tensor, and which of it the
// checkpointing modes keep.
//
// The list follows the decoder of nn/decoder_layer.cpp, operator by operator: which of their inputs
// and outputs those of nn/fused/ and ATen's save. Each entry is a sum over the layer's modules by
// role, so that it holds for every family. Legend: N tokens of one micro-batch on this rank, D
// hidden, c bytes of the compute dtype, p of the dtype of matrix products, which is another under
// autocast.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>

#include "am/planner/activations.h"
#include "am/planner/local_layer.h"
#include "am/planner/saved_activations.h"

namespace am::planner {

class LayerActivations {
 public:
  // Of one decoder layer, given as its unit, on this rank. `first_trained`: nothing before it
  // trains, so that its input has no gradient.
  LayerActivations(const ActivationContext& context, const Layout& layout, int64_t rank,
                   const model::Unit& layer, bool first_trained = false);

  // Bytes of one thing, whether or not a mode keeps it.
  double bytes(Saved saved) const { return bytes_[static_cast<size_t>(saved)]; }
  // Of what the plan's checkpointing keeps of this layer.
  double kept() const { return sum(kept_under(mode_, layer_.spec().residual)) + share_of_sum_; }
  // Of what is computed again while this layer's backward runs; 0 without checkpointing.
  double recomputed() const;
  BackwardBytes backward() const;
  // What the gradients of its matrices read, where they wait for a pass of their own (zero bubble's
  // W): the inputs of those that train, each once, and the gradients of their outputs. Of it what
  // backward makes: of the down projections' input, of those in all, of the feed-forward in all.
  struct Owed {
    double all = 0.0;
    double down_input = 0.0;
    double down = 0.0;
    double feed_forward = 0.0;
  };
  Owed owed() const;

 private:
  double& at(Saved saved) { return bytes_[static_cast<size_t>(saved)]; }
  double sum(SavedSet saved) const;
  void measure_attention();  // attention_activations.cpp, as attention_backward()
  void measure_feed_forward();
  void measure_experts();
  void measure_casts();
  // `input_bytes`: of an element of what it reads.
  double bytes_of_norm(model::Role role, double rows, double width, double input_bytes) const;
  double bytes_of_product_norm(model::Role role, double rows, double width) const;
  double bytes_of_inputs(bool attention) const;
  double latent_bytes(model::Role role) const;
  double recomputed_feed_forward() const;
  double key_value_width() const;
  bool attends_by_blocks() const;
  bool exchanges_heads() const {
    return context_.context_ranks > 1.0 && context_.context_method == "ulysses";
  }
  double block_bytes(double rows, double keys, double parts, bool copied) const;
  double context_attention_bytes() const;
  double attention_backward() const;
  BackwardBytes feed_forward_backward() const;
  double kept_inputs(double trained) const;
  double adapted_bytes(std::initializer_list<model::Role> roles) const;
  void begin_gradients();

  const ActivationContext& context_;
  LocalLayer layer_;
  config::ActivationCheckpointing mode_;
  double hidden_ = 0.0;  // width of the residual stream
  std::array<double, kSavedKinds> bytes_{};
  double share_of_sum_ = 0.0;  // ExpertBytes: kept whatever the mode
};

// LayerActivations::kept().
double layer_activations(const ActivationContext& context, const Layout& layout, int64_t rank,
                         const model::Unit& layer);

}  // namespace am::planner
