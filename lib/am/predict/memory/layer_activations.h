// Bytes of the tensors that autograd saves in one decoder layer's forward pass, and of those that
// the layer's checkpointing mode keeps.
//
// The saved tensors are the inputs and outputs that the operators of nn/fused/ and ATen save when
// nn/decoder_layer.cpp runs; layout::Saved lists their kinds. The bytes of a kind are a sum over
// the layer's modules by role, which is valid for every model family. In the .cpp files, N is the
// number of tokens of one micro-batch on this rank, and p the bytes per element of the inputs and
// outputs of matmuls. Under autocast p differs from the bytes of the compute dtype.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>

#include "am/layout/local_layer.h"
#include "am/layout/saved_activations.h"
#include "am/predict/memory/activations.h"

namespace am::predict {

class LayerActivations {
 public:
  // `layer`: FSDP unit of a decoder layer. `first_trained`: no parameter before this layer is
  // trained, so the layer's input needs no gradient. `context` and `layout` must outlive the
  // object.
  LayerActivations(const ActivationContext& context, const layout::Layout& layout, int64_t rank,
                   const model::Unit& layer, bool first_trained = false);

  // Returns the bytes of one kind of saved tensor, whether or not the checkpointing mode keeps it.
  double bytes(layout::Saved saved) const { return bytes_[static_cast<size_t>(saved)]; }
  // Returns the bytes of this layer that the plan's checkpointing mode keeps until backward.
  double kept() const {
    return sum(layout::kept_under(mode_, layer_.spec().residual)) + share_of_sum_;
  }
  // Returns the bytes of experts' tensors that are live only during this layer's forward.
  double passing() const;
  // Returns the bytes that are recomputed during this layer's backward; 0 without checkpointing.
  double recomputed() const;
  // Returns the bytes of activation gradients in this layer's backward.
  BackwardBytes backward() const;
  // Bytes that stay live until the weight gradients are computed, if a pipeline schedule defers
  // weight gradients (the W actions of zero-bubble schedules).
  struct Owed {
    // Total: the inputs of the trained matrices, each input counted once, and the gradients of the
    // matrices' outputs.
    double all = 0.0;
    // Parts of `all` that are live at one moment of BackwardBytes each: down_input at `first`, down
    // at `later`, and feed_forward at `attention`.
    double down_input = 0.0;    // inputs of the down projections
    double down = 0.0;          // down_input, and the gradients of the down projections' outputs
    double feed_forward = 0.0;  // all of the feed-forward, except the hidden states that it reads
  };
  Owed owed() const;

 private:
  double& at(layout::Saved saved) { return bytes_[static_cast<size_t>(saved)]; }
  double sum(layout::SavedSet saved) const;
  void measure_attention();  // attention_activations.cpp defines the functions for attention
  void measure_feed_forward();
  void measure_experts();
  void measure_casts();
  // `input_bytes`: bytes per element of the norm's input.
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
  double fp8_copies() const;
  double kept_inputs(double trained) const;
  double adapted_bytes(std::initializer_list<model::Role> roles) const;
  void begin_gradients();

  const ActivationContext& context_;
  layout::LocalLayer layer_;
  config::ActivationCheckpointing mode_;
  double hidden_ = 0.0;  // width of the residual stream
  std::array<double, layout::kSavedKinds> bytes_{};
  // Bytes saved for the gate that scales the output of shared experts (ExpertBytes::share_of_sum).
  // Every checkpointing mode keeps them.
  double share_of_sum_ = 0.0;
};

// Returns LayerActivations::kept() of a layer whose input needs a gradient.
double layer_activations(const ActivationContext& context, const layout::Layout& layout,
                         int64_t rank, const model::Unit& layer);

}  // namespace am::predict
