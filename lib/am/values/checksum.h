// Checksums of tensors that do not depend on sharding: each element's bits are hashed with its
// index, and the hashes are added. Ranks hash their shards, and the sum is the whole tensor's
// checksum.
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

namespace am::values {

// Returns the sum, modulo 2^64, of the hashes of `values` [box.shape]. These are the elements at
// `box` of a tensor whose shape is `shape`.
uint64_t checksum(const at::Tensor& values, const mesh::Box& box, const Shape& shape);

// Formats a checksum as 16 digits that also depend on the tensor's shape and dtype.
std::string checksum_text(uint64_t sum, const Shape& shape, at::ScalarType dtype);

// Returns the elements' bits as integers, [n] int64, in row-major order. A complex number gives two
// integers.
at::Tensor bits_of(const at::Tensor& values);

}  // namespace am::values
