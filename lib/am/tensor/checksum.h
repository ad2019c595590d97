// Checksums of tensors, which do not depend on sharding. The bits of each element are hashed
// together with the element's index in the full tensor, and the hashes are added. The checksum of a
// tensor is therefore the sum of the checksums of its shards.
//
//   const uint64_t sum = checksum(top, top_box, shape) + checksum(bottom, bottom_box, shape);
//   sum == checksum(whole, mesh::Box::whole(shape), shape);   // true
//
// A checksum has 64 bits and detects accidental errors: two different tensors collide with
// probability 1 in 1.8e19. It is not secure against deliberate collisions.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "am/base/shape.h"
#include "am/mesh/shard.h"

namespace am::tensor {

// Returns the sum, modulo 2^64, of the hashes of `values` [box.shape], which are the elements at
// `box` of a tensor of shape `shape`.
uint64_t checksum(const at::Tensor& values, const mesh::Box& box, const Shape& shape);

// Formats a checksum as 16 hexadecimal digits that also depend on the tensor's shape and dtype.
std::string checksum_text(uint64_t sum, const Shape& shape, at::ScalarType dtype);

// Returns the bits of the elements as integers, in row-major order: an int64 host tensor [n] for n
// elements, or [2 n] for n complex elements.
at::Tensor bits_of(const at::Tensor& values);

}  // namespace am::tensor
