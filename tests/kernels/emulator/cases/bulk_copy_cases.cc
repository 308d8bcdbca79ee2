// mbarriers and bulk copies of contiguous bytes: testdata/async_copies.cu.
#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>

#include "kernels/emulator/float_format.h"
#include "tests/kernels/emulator/cases/async_case.h"

namespace hone::emulator {
namespace {

std::vector<uint32_t> Counting(size_t count, uint32_t first = 0) {
  std::vector<uint32_t> v(count);
  std::iota(v.begin(), v.end(), first);
  return v;
}

// kernel(in, out) of one CTA.
AsyncCase Simple(const std::string& kernel, uint32_t threads,
                 std::vector<uint8_t> in, std::vector<uint8_t> expected) {
  AsyncCase c;
  c.name = kernel;
  c.source = AsyncSource("async_copies.cu");
  c.plan.kernel_name = kernel;
  c.plan.block = {threads, 1, 1};
  c.plan.args = {BufferArg(BufferRole::kA), BufferArg(BufferRole::kC)};
  c.buffers[BufferRole::kA] = std::move(in);
  c.buffers[BufferRole::kC].assign(expected.size(), 0xee);
  c.expected = std::move(expected);
  return c;
}

// kernel(in, out) of a cluster of two.
AsyncCase Pair(const std::string& kernel, std::vector<uint8_t> in,
               std::vector<uint8_t> expected) {
  AsyncCase c = Simple(kernel, 64, std::move(in), std::move(expected));
  c.plan.grid = c.plan.cluster = {2, 1, 1};
  return c;
}

template <typename T>
AsyncCase Reduce(const std::string& kernel, std::mt19937& random,
                 std::function<T(T, T)> combine) {
  constexpr size_t kCount = 128 / sizeof(T);
  std::vector<T> in(2 * kCount), expected(kCount);
  for (T& x : in) x = static_cast<T>(static_cast<int>(random() % 2000) - 1000);
  for (size_t i = 0; i < kCount; ++i) {
    expected[i] = combine(in[kCount + i], in[i]);
  }
  return Simple(kernel, 32, BytesOfVector(in), BytesOfVector(expected));
}

// Two times 32 addends, or their 32 sums; many are subnormal.
std::vector<float> SubnormalSums(bool sums) {
  std::vector<float> first(32), second(32), sum(32);
  for (int i = 0; i < 32; ++i) {
    first[i] = i % 2 == 0 ? 0x1p-132f * static_cast<float>(i) : 0x1p-126f;
    second[i] = i % 4 < 2 ? 0x1p-127f : -0x1.8p-126f;
    sum[i] = first[i] + second[i];
  }
  if (sums) return sum;
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

template <typename Format>
AsyncCase ReduceHalves(const std::string& kernel,
                       std::function<int(int, int)> combine) {
  std::vector<uint16_t> in(128), expected(64);
  for (int i = 0; i < 64; ++i) {
    in[i] = Encode16<Format>(i - 20);
    in[64 + i] = Encode16<Format>(7 - 3 * i);
    expected[i] = Encode16<Format>(combine(7 - 3 * i, i - 20));
  }
  return Simple(kernel, 32, BytesOfVector(in), BytesOfVector(expected));
}

}  // namespace

void AddBulkCopyCases(std::vector<AsyncCase>* out) {
  // The kernel's lines say what each of these is.
  out->push_back(Simple("phases", 32, BytesOfVector(Counting(4)),
                        BytesOfVector(std::vector<uint32_t>{
                            1, 0, 3, 2, 0, 1, 1, 0, 1, 2, 0, 1, 0, 1})));
  std::vector<uint32_t> turned(64);
  for (uint32_t i = 0; i < 64; ++i) turned[i] = 100 + (i + 4 * 33) % 64;
  out->push_back(Simple("hand_over", 64, BytesOfVector(Counting(64, 100)),
                        BytesOfVector(turned)));
  std::vector<uint32_t> reversed = Counting(64, 192);
  std::reverse(reversed.begin(), reversed.end());
  out->push_back(Simple("tracked_copies", 64, BytesOfVector(Counting(256)),
                        BytesOfVector(reversed)));
  for (const char* kernel : {"bulk_round", "bulk_store_seen"}) {
    out->push_back(Simple(kernel, 64, BytesOfVector(Counting(64)),
                          BytesOfVector(Counting(64, 1))));
  }
  for (const char* kernel :
       {"bulk_load", "bulk_prefetch", "fence_after_barrier", "fence_of_one"}) {
    out->push_back(Simple(kernel, 64, BytesOfVector(Counting(64)),
                          BytesOfVector(Counting(64))));
  }
  const std::vector<uint8_t> both = BytesOfVector(Counting(128));
  std::vector<uint32_t> crossed = Counting(64, 64), twice = Counting(64);
  for (uint32_t i = 0; i < 64; ++i) {
    crossed.push_back(i);
    twice.push_back(i);
  }
  out->push_back(Simple("bulk_copy_own", 64, BytesOfVector(Counting(64)),
                        BytesOfVector(Counting(64))));
  out->back().refusal =
      "bulk operation from shared to shared memory in a launch without "
      "clusters";
  out->push_back(Pair("bulk_copy_same", both, both));
  out->back().refusal = "bulk copy from shared memory to the CTA's own";
  out->push_back(Pair("bulk_copy_peer", both, BytesOfVector(crossed)));
  out->push_back(Pair("bulk_multicast", BytesOfVector(Counting(64)),
                      BytesOfVector(twice)));
  std::vector<uint32_t> sums(64), swapped(64);
  for (uint32_t i = 0; i < 64; ++i) {
    // Of rank i / 32: its two rows of 32.
    sums[i] = 5 + (i / 32 * 64 + i % 32) * 2 + 32;
    swapped[(i + 32) % 64] = sums[i];
  }
  out->push_back(Pair("reduce_same", both, BytesOfVector(sums)));
  out->push_back(Pair("reduce_peer", both, BytesOfVector(swapped)));
  out->push_back(Simple(
      "reduce_alone", 64, BytesOfVector(Counting(64)),
      BytesOfVector(std::vector<uint32_t>(sums.begin(), sums.begin() + 32))));
  out->back().refusal =
      "bulk operation from shared to shared memory in a launch without "
      "clusters";
  std::vector<uint32_t> stored(2 * 192);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    const uint32_t first = 64 * (1 - rank);  // the other CTA's values
    for (uint32_t t = 0; t < 64; ++t) {
      stored[rank * 192 + 2 * t] = first + t;
      stored[rank * 192 + 2 * t + 1] = first + t + 1000;
      // 7 and every second value.
      stored[rank * 192 + 128 + t] = 7 + 32 * (first + t % 2) + 31 * 32;
    }
  }
  out->push_back(Pair("store_peer", both, BytesOfVector(stored)));
  std::mt19937 random(3);
  out->push_back(Reduce<uint32_t>("reduce_add_u32", random,
                                  [](auto a, auto b) { return a + b; }));
  out->push_back(Reduce<uint64_t>("reduce_add_u64", random,
                                  [](auto a, auto b) { return a + b; }));
  out->push_back(Reduce<float>("reduce_add_f32", random,
                               [](auto a, auto b) { return a + b; }));
  // Subnormal numbers count, which red.add.f32 would flush.
  AsyncCase subnormal =
      Simple("reduce_add_f32", 32, BytesOfVector(SubnormalSums(false)),
             BytesOfVector(SubnormalSums(true)));
  subnormal.name = "reduce_add_f32_subnormal";
  out->push_back(subnormal);
  out->push_back(Reduce<int32_t>(
      "reduce_min_s32", random, [](auto a, auto b) { return std::min(a, b); }));
  out->push_back(Reduce<uint32_t>(
      "reduce_max_u32", random, [](auto a, auto b) { return std::max(a, b); }));
  out->push_back(Reduce<uint32_t>("reduce_and_b32", random,
                                  [](auto a, auto b) { return a & b; }));
  out->push_back(
      ReduceHalves<Half>("reduce_add_f16", [](int a, int b) { return a + b; }));
  out->push_back(ReduceHalves<BFloat>(
      "reduce_max_bf16", [](int a, int b) { return std::max(a, b); }));
}

}  // namespace hone::emulator
