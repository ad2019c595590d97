// Splits a pipeline stage's backward into two passes (zero bubble: Qi et al., 2023). The first pass
// computes the gradients of inputs, for which the previous stage waits. The second pass computes
// the gradients of weights.
//
//   auto pass = c10::make_intrusive<WeightPass>();
//   {
//     const WeightPassScope scope(pass);
//     y = decoder(ids);                       // the autograd nodes keep a reference to `pass`
//   }
//   {
//     const WeightPass::Postponed inputs(*pass);
//     y.backward(of_y);                       // computes all gradients except the matrices'
//   }
//   pass->settle();                           // computes the matrices' gradients
//
// Every autograd node of automesh that computes a matrix's gradient (fused::linear and its
// variants, look-ups, products of experts) uses the WeightPass that was active in the node's
// forward. While the WeightPass postpones gradients, the node's backward returns no gradient of the
// matrix. Instead it records how to compute this gradient; the operands (the input and the output's
// gradient) are kept until settle(). When a checkpointed segment is recomputed, the WeightPass of
// its first run is active again. Gradients of vectors are not postponed, and neither are gradients
// of adapters, because their products are small.
//
// settle() passes each postponed gradient to autograd, which casts it to the dtype of the leaf,
// accumulates it in the leaf's .grad, and runs the leaf's hooks. Gradients are bitwise equal to
// those of a backward that postpones nothing.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/edge.h>

#include <cstddef>
#include <functional>
#include <vector>

namespace am::nn {

// Postponed gradients of one pipeline stage and micro-batch. settle() must not run concurrently
// with a backward that uses this object.
class WeightPass : public torch::CustomClassHolder {
 public:
  using Product = std::function<at::Tensor()>;

  // Scope in which backward passes postpone the matrices' gradients.
  class Postponed {
   public:
    explicit Postponed(WeightPass& pass) : pass_(pass) { pass_.postpones_ = true; }
    ~Postponed() { pass_.postpones_ = false; }
    Postponed(const Postponed&) = delete;
    Postponed& operator=(const Postponed&) = delete;

   private:
    WeightPass& pass_;
  };

  bool postpones() const { return postpones_; }
  // Postpones the gradient of `weight`, which is an input of the calling node: settle() will call
  // `product`, which returns this gradient. `product` must detach the saved tensors that it
  // captures. Otherwise the tensors' graph would keep the inputs of a checkpointed segment alive.
  void owe(const at::Tensor& weight, Product product);
  // Returns the number of postponed gradients.
  size_t deferred() const { return deferred_.size(); }
  // Computes the postponed gradients in the order in which owe() recorded them, adds them to the
  // leaves' .grad, and frees their operands.
  void settle();

 private:
  struct DeferredWeightGrad {
    torch::autograd::Edge to;
    Product product;
  };

  bool postpones_ = false;
  std::vector<DeferredWeightGrad> deferred_;
};

using WeightPassPtr = c10::intrusive_ptr<WeightPass>;

// Returns the weight pass that is active on this thread, or null.
WeightPassPtr current_weight_pass();

// Sets current_weight_pass() on this thread, and restores the previous pass on destruction.
class WeightPassScope {
 public:
  explicit WeightPassScope(WeightPassPtr pass);
  ~WeightPassScope();
  WeightPassScope(const WeightPassScope&) = delete;
  WeightPassScope& operator=(const WeightPassScope&) = delete;

 private:
  WeightPassPtr before_;
};

// Stores current_weight_pass() in a node's context, if there is one. Called in the node's forward.
void keep_weight_pass(torch::autograd::AutogradContext& context);
// Returns the weight pass that is stored in a node's context if it postpones gradients now,
// otherwise null. Called in the node's backward.
WeightPass* postponing_pass(torch::autograd::AutogradContext& context);

}  // namespace am::nn
