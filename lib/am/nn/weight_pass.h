// A backward pass in two halves: first the gradients of inputs, which the stage before a pipeline
// stage waits for, and later those of the weights (zero bubble: Qi et al., 2023).
//
//   auto pass = c10::make_intrusive<WeightPass>();
//   {
//     const WeightPassScope scope(pass);
//     y = decoder(ids);                       // its nodes keep the pass
//   }
//   {
//     const WeightPass::Postponed inputs(*pass);
//     y.backward(of_y);                       // matrices get no gradient, all else does
//   }
//   pass->settle();                           // now they do
//
// Every node of ours that makes a matrix's gradient asks the pass that was in force when it ran
// forward: fused::linear and its kin, look-ups, products of experts. While the pass postpones, a
// node gives autograd the gradient of its input alone and leaves behind how to make the other. What
// the product reads is kept until then: its input and its output's gradient. Segments that are
// checkpointed enter the pass again when they run again. Made at once are the gradients of vectors,
// and of adapters, whose products are narrow.
//
// What is left behind goes the way that autograd would have sent it: through casts to the leaf,
// into its gradient and past its hooks. Gradients are the same to the bit.
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

// Of one stage and micro-batch. Backward's nodes and settle() run one after the other.
class WeightPass : public torch::CustomClassHolder {
 public:
  using Product = std::function<at::Tensor()>;

  // While it lives, backward leaves the weights' gradients behind.
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
  // The gradient of `weight`, as a node has it among its inputs, is what `product` gives. What that
  // captures of saved tensors it detaches: their graph would keep the inputs of its segment.
  void owe(const at::Tensor& weight, Product product);
  // How many products are owed.
  size_t owed() const { return owed_.size(); }
  // Makes them, in the order in which they were left behind, and frees what each one read.
  void settle();

 private:
  struct Owed {
    torch::autograd::Edge to;
    Product product;
  };

  bool postpones_ = false;
  std::vector<Owed> owed_;
};

using WeightPassPtr = c10::intrusive_ptr<WeightPass>;

// What is in force on this thread; null: nothing.
WeightPassPtr current_weight_pass();

// Puts a pass (or none) in force on this thread, and what was there before when it ends.
class WeightPassScope {
 public:
  explicit WeightPassScope(WeightPassPtr pass);
  ~WeightPassScope();
  WeightPassScope(const WeightPassScope&) = delete;
  WeightPassScope& operator=(const WeightPassScope&) = delete;

 private:
  WeightPassPtr before_;
};

// In a node's forward: it keeps the pass in force.
void keep_weight_pass(torch::autograd::AutogradContext& context);
// In its backward: the pass that it keeps, where that postpones now; else null.
WeightPass* postponing_pass(torch::autograd::AutogradContext& context);

}  // namespace am::nn
