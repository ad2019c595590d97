// Uses automesh::automesh: two ranks in this process sum a tensor.
#include <ATen/ATen.h>
#include <am/runtime/device_mesh.h>

#include <atomic>
#include <iostream>

int main() {
  std::atomic<int> correct = 0;
  am::runtime::run_ranks(2, [&](const am::runtime::World& world) {
    const am::runtime::DeviceMesh mesh(world, am::mesh::MeshLayout({.tp = 2}));
    at::Tensor sum = at::full({2}, static_cast<double>(world.rank() + 1));
    mesh.group("tp").all_reduce(sum);
    correct += sum.equal(at::full({2}, 3.0)) ? 1 : 0;
  });
  std::cout << "all-reduce was right on " << correct << " of 2 ranks\n";
  return correct == 2 ? 0 : 1;
}
