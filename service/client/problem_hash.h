// Problems and kernels as keys of hash maps, fast enough for every launch.
#ifndef HONE_SERVICE_CLIENT_PROBLEM_HASH_H_
#define HONE_SERVICE_CLIENT_PROBLEM_HASH_H_

#include <cstddef>
#include <tuple>

#include "absl/hash/hash.h"
#include "kernels/config/problem.h"

namespace hone {

// Covers the fields in which the layers of one model differ; equality looks at
// all of them.
struct ProblemHash {
  size_t operator()(const Problem& problem) const {
    const LayerConfig& layer = problem.layer;
    return absl::HashOf(layer.n, layer.k, layer.experts, layer.a, layer.b,
                        layer.b_scale, layer.b_group, layer.bias,
                        problem.compute.gemm);
  }
};

}  // namespace hone

#endif  // HONE_SERVICE_CLIENT_PROBLEM_HASH_H_
