// The operands of a measurement: random, never zero, in realistic ranges, made
// from a seed on the device, and element for element the same on the host.
//
//   activations  N(0, 1), rounded to their type; integers a third of their
//                range times that
//   their scales spread over [1/4, 4), of integers over a third of their range
//   weights      codes uniform over their whole range, floats up to 512;
//                padding columns (past K) hold the code 0, padding rows (past
//                N) any code
//   scales       spread over [1/4, 4) around a base that makes outputs a few
//                units large, as far as their type has room
//   zero points  uniform over the range of the codes
//   bias         N(0, 1)
#ifndef HONE_TUNER_MEASURE_OPERANDS_H_
#define HONE_TUNER_MEASURE_OPERANDS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/config/problem.h"
#include "kernels/launch/module.h"
#include "kernels/pack/pack.h"
#include "tuner/measure/device/generator.cuh"
#include "tuner/measure/helper_kernels.h"

namespace hone {

// Unimplemented when the generator has no such operands, naming the field.
absl::Status CheckOperands(const Problem& problem);

// The generator's number of a type (generator::MakeFormat).
int GeneratorType(DataType type);

// The layer's weights as the helpers' kernels take them.
generator::WeightFormat GeneratorFormat(const LayerConfig& layer);

// The base of the scales, and the tensor scale of a layer that has one.
float ScaleBase(const LayerConfig& layer);
float TensorScale(const LayerConfig& layer);

// Device memory with the operands of one problem.
class Operands {
 public:
  // Queues the generation on `stream`. `helpers` must outlive the operands.
  // Errors of CheckOperands(), and ResourceExhausted when the device has too
  // little memory.
  static absl::StatusOr<Operands> Create(const HelperKernels& helpers,
                                         const Problem& problem, int64_t max_m,
                                         uint64_t seed, StreamHandle stream);

  DevicePtr a() const { return a_.ptr(); }
  DevicePtr b() const { return b_.ptr(); }
  DevicePtr scales() const { return scales_.ptr(); }
  // The scales of A as a call with `m` tokens takes them, 0 without: where they
  // are column-major their order depends on M, and the first call with an M
  // queues their generation on `stream`.
  absl::StatusOr<DevicePtr> AScales(int64_t m, StreamHandle stream);
  // The same for max_m tokens, row-major: for the reference.
  generator::InputScales RowScales() const;
  // 0 without a bias.
  DevicePtr bias() const { return bias_.ptr(); }
  // Every buffer so far. More may follow; none goes away.
  std::vector<const DeviceBuffer*> Buffers() const;
  uint64_t b_bytes() const { return b_.bytes(); }
  uint64_t scale_bytes() const { return scales_.bytes(); }

 private:
  absl::StatusOr<DeviceBuffer> MakeInputScales(int64_t m, bool column_major,
                                               StreamHandle stream) const;

  const HelperKernels* helpers_ = nullptr;
  Problem problem_;
  uint64_t seed_ = 0;
  DeviceBuffer a_;
  DeviceBuffer a_scales_;
  std::map<int64_t, DeviceBuffer> by_m_;
  DeviceBuffer b_;
  DeviceBuffer scales_;
  DeviceBuffer bias_;
};

// The same operands on the host, for the CPU oracle.
struct HostOperands {
  std::vector<uint16_t> a;  // [m, K], codes
  // As Oracle() takes them.
  std::vector<float> a_scales;
  QuantizedWeights weights;
  std::vector<uint16_t> bias;  // [N] or empty, codes
};
absl::StatusOr<HostOperands> MakeHostOperands(const Problem& problem, int64_t m,
                                              uint64_t seed);

}  // namespace hone

#endif  // HONE_TUNER_MEASURE_OPERANDS_H_
