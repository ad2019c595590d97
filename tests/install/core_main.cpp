// Uses automesh::core, which needs no libtorch: the groups of a mesh.
#include <am/mesh/layout.h>

#include <iostream>

int main() {
  const am::mesh::MeshLayout mesh({.dp_shard = 2, .tp = 2});
  std::cout << "tp groups of " << mesh.world_size() << " ranks:";
  for (const auto& group : mesh.groups("tp")) {
    std::cout << " [" << group.front() << ".." << group.back() << "]";
  }
  std::cout << "\n";
  return mesh.groups("tp").size() == 2 ? 0 : 1;
}
