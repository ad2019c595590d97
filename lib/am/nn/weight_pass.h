// Splits backward into two passes: first the gradients of inputs, for which the previous pipeline
// stage waits, and later the gradients of weights (zero bubble: Qi et al., 2023).
//
//   auto pass = c10::make_intrusive<WeightPass>();
//   {
//     const WeightPassScope scope(pass);
//     y = decoder(ids);                       // its nodes keep a reference to the pass
//   }
//   {
//     const WeightPass::Postponed inputs(*pass);
//     y.backward(of_y);                       // computes all gradients but those of matrices
//   }
//   pass->settle();                           // computes those of matrices
//
// Every autograd node of automesh that computes a matrix's gradient uses the pass that was active
// in its forward: fused::linear and its variants, look-ups, products of experts. While the pass
// postpones, a node returns no gradient of its matrix, and records how to compute that gradient;
// the operands (the input and the output's gradient) are kept until settle(). A checkpointed
// segment activates the pass again when it is recomputed. Gradients of vectors and of adapters,
// whose products are narrow, are not postponed.
//
// Postponed gradients take the path that autograd's gradients take: through casts to the leaf, into
// its .grad, and through its hooks. Gradients are bitwise equal to those of a backward in which the
// pass does not postpone.
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

// Postponed gradients of one pipeline stage and micro-batch. Nodes' backward and settle() must not
// run concurrently.
class WeightPass : public torch::CustomClassHolder {
 public:
  using Product = std::function<at::Tensor()>;

  // Scope in which backward postpones the weights' gradients.
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
  // Records that `product` returns the gradient of `weight`, an input of the node. `product` must
  // detach the saved tensors that it captures, because their graph would keep the segment's inputs
  // alive.
  void owe(const at::Tensor& weight, Product product);
  // Returns the number of postponed products.
  size_t deferred() const { return deferred_.size(); }
  // Computes the postponed products in the order in which they were recorded, and frees their
  // operands.
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

// Stores the active weight pass in the context. Called in a node's forward.
void keep_weight_pass(torch::autograd::AutogradContext& context);
// Returns the stored pass if it postpones now, otherwise null. Called in a node's backward.
WeightPass* postponing_pass(torch::autograd::AutogradContext& context);

}  // namespace am::nn
