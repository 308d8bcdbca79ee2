// mbarriers, bulk copies and tensor copies, one at a time: what they compute,
// and how their misuse is reported.
#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/emulator/float_format.h"
#include "tests/kernels/emulator/async_test_support.h"

namespace hone::emulator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kSource[] = "async_copies.cu";

const Module& Copies() {
  static const Module* module = new Module(CompileTestdata(kSource));
  return *module;
}

constexpr CopyLanding kLandings[] = {
    CopyLanding::kEarliest, CopyLanding::kLatest, CopyLanding::kRandom};

std::vector<uint32_t> RunKernel(const std::string& kernel,
                                std::vector<uint32_t> in, size_t outputs,
                                uint32_t threads, CopyLanding landing,
                                uint64_t seed) {
  std::vector<uint32_t> out(outputs, 0xdeadbeef);
  Options options;
  options.landing = landing;
  options.seed = seed;
  options.max_instructions = 1'000'000;
  const auto stats = RunPlan(
      Copies(), PlanFor(kernel, {1, 1, 1}, {threads, 1, 1}), in, out, options);
  EXPECT_TRUE(stats.ok()) << kernel << ": " << stats.status();
  return out;
}

std::vector<uint32_t> Counting(size_t count, uint32_t first = 0) {
  std::vector<uint32_t> v(count);
  std::iota(v.begin(), v.end(), first);
  return v;
}

TEST(MbarrierTest, PhasesCountsAndTransactions) {
  EXPECT_THAT(RunKernel("phases", {0}, 14, 32, CopyLanding::kRandom, 1),
              ElementsAre(1, 0,  // before anything
                          3, 2,  // pending counts of the arrivals
                          0, 1,  // the state's phase, before and after
                          1, 0,  // parities of phase 1
                          1,     // after the dropping phase
                          2,     // only two are expected now
                          0, 1,  // held up by bytes, then complete
                          0, 1   // the second life
                          ));
}

TEST(MbarrierTest, HandsValuesOverUnderEverySchedule) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const auto out = RunKernel("hand_over", Counting(64, 100), 64, 64,
                               CopyLanding::kRandom, seed);
    for (uint32_t i = 0; i < 64; ++i) {
      ASSERT_EQ(out[i], 100 + (i + 4 * 33) % 64) << "seed " << seed;
    }
  }
}

TEST(MbarrierTest, TracksCopies) {
  const std::vector<uint32_t> in = Counting(256);
  for (const CopyLanding landing : kLandings) {
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      const auto out = RunKernel("tracked_copies", in, 64, 64, landing, seed);
      for (uint32_t i = 0; i < 64; ++i) ASSERT_EQ(out[i], 255 - i);
    }
  }
}

TEST(MbarrierTest, TrackedCopiesMustBeWaitedFor) {
  const Module module = CompileTestdata(kSource, {"TRACKED_NO_WAIT"});
  for (const CopyLanding landing : kLandings) {
    std::vector<uint32_t> in = Counting(256), out(64);
    Options options;
    options.landing = landing;
    const absl::Status status =
        RunPlan(module, PlanFor("tracked_copies", {1, 1, 1}, {64, 1, 1}), in,
                out, options)
            .status();
    const std::string message(status.message());
    EXPECT_TRUE(absl::StrContains(message, "copy not waited for") ||
                absl::StrContains(message, "race: shared read") ||
                absl::StrContains(message, "uninitialized: shared read"))
        << status;
    EXPECT_THAT(message, HasSubstr(LineOf(kSource, "TRACKED_NO_WAIT")));
  }
}

TEST(BulkCopyTest, GoesRoundThroughSharedMemory) {
  for (const CopyLanding landing : kLandings) {
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      EXPECT_EQ(RunKernel("bulk_round", Counting(64), 64, 64, landing, seed),
                Counting(64, 1));
    }
  }
}

TEST(BulkCopyTest, ReducesToGlobalMemory) {
  std::mt19937 random(3);
  const auto check = [&](const std::string& kernel, auto element, auto f) {
    using T = decltype(element);
    std::vector<uint32_t> in(64);
    constexpr size_t kCount = 128 / sizeof(T);
    T a[kCount], b[kCount];
    for (size_t i = 0; i < kCount; ++i) {
      a[i] = static_cast<T>(static_cast<int>(random() % 2000) - 1000);
      b[i] = static_cast<T>(static_cast<int>(random() % 2000) - 1000);
    }
    std::memcpy(in.data(), b, 128);
    std::memcpy(in.data() + 32, a, 128);
    for (const CopyLanding landing : kLandings) {
      const auto out = RunKernel(kernel, in, 32, 32, landing, 1);
      T got[kCount];
      std::memcpy(got, out.data(), 128);
      for (size_t i = 0; i < kCount; ++i) {
        ASSERT_EQ(got[i], f(a[i], b[i])) << kernel << " at " << i;
      }
    }
  };
  const auto add = [](auto a, auto b) { return a + b; };
  check("reduce_add_u32", uint32_t{}, add);
  check("reduce_add_u64", uint64_t{}, add);
  check("reduce_add_f32", float{}, add);
  check("reduce_min_s32", int32_t{},
        [](int32_t a, int32_t b) { return std::min(a, b); });
  check("reduce_max_u32", uint32_t{},
        [](uint32_t a, uint32_t b) { return std::max(a, b); });
  check("reduce_and_b32", uint32_t{},
        [](uint32_t a, uint32_t b) { return a & b; });
}

TEST(BulkCopyTest, ReducesHalves) {
  const auto check = [&](const std::string& kernel, auto encode, auto f) {
    std::vector<uint32_t> in(64, 0);
    auto* halves = reinterpret_cast<uint16_t*>(in.data());
    for (int i = 0; i < 64; ++i) {
      halves[i] = encode(i - 20);
      halves[64 + i] = encode(7 - 3 * i);
    }
    const auto out = RunKernel(kernel, in, 32, 32, CopyLanding::kLatest, 1);
    const auto* got = reinterpret_cast<const uint16_t*>(out.data());
    for (int i = 0; i < 64; ++i) {
      ASSERT_EQ(got[i], encode(f(7 - 3 * i, i - 20))) << kernel << " at " << i;
    }
  };
  check(
      "reduce_add_f16", [](int v) { return Encode16<Half>(v); },
      [](int a, int b) { return a + b; });
  check(
      "reduce_max_bf16", [](int v) { return Encode16<BFloat>(v); },
      [](int a, int b) { return std::max(a, b); });
}

TEST(BulkCopyTest, ReductionsToSharedMemoryOverlap) {
  for (const CopyLanding landing : kLandings) {
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      const auto out =
          RunKernel("reduce_shared", Counting(64), 32, 64, landing, seed);
      for (uint32_t i = 0; i < 32; ++i) ASSERT_EQ(out[i], 5 + i + i + 32);
    }
  }
}

TEST(BulkCopyTest, FencesOfTheRightThreadsSuffice) {
  for (const char* kernel : {"fence_after_barrier", "fence_of_one"}) {
    EXPECT_EQ(RunKernel(kernel, Counting(64), 64, 64, CopyLanding::kRandom, 1),
              Counting(64))
        << kernel;
  }
}

struct FaultCase {
  std::string kernel;
  std::vector<std::string> one_of;  // one of these is in the message
  std::string line;
  std::string conflict;
};
void PrintTo(const FaultCase& test, std::ostream* out) { *out << test.kernel; }

class AsyncFaultTest : public testing::TestWithParam<FaultCase> {};

TEST_P(AsyncFaultTest, IsCaughtUnderEverySchedule) {
  const FaultCase& test = GetParam();
  for (const CopyLanding landing : kLandings) {
    for (uint64_t seed = 1; seed <= 6; ++seed) {
      std::vector<uint32_t> in = Counting(64), out(64);
      Options options;
      options.landing = landing;
      options.seed = seed;
      options.max_instructions = 1'000'000;
      const absl::Status status =
          RunPlan(Copies(), PlanFor(test.kernel, {1, 1, 1}, {64, 1, 1}), in,
                  out, options)
              .status();
      ASSERT_EQ(status.code(), absl::StatusCode::kAborted) << status;
      const std::string message(status.message());
      EXPECT_TRUE(std::any_of(
          test.one_of.begin(), test.one_of.end(),
          [&](const auto& word) { return absl::StrContains(message, word); }))
          << message;
      for (const std::string& marker : {test.line, test.conflict}) {
        if (marker.empty()) continue;
        EXPECT_THAT(message, HasSubstr(LineOf(kSource, marker)));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, AsyncFaultTest,
    testing::Values(
        FaultCase{"init_twice", {"mbarrier.init of a live"}, "init_twice"},
        FaultCase{"not_initialized", {"no mbarrier"}, "not_initialized"},
        FaultCase{"arrival_overflow",
                  {"arrival overflow: 2 arrivals at phase 0, which waits for 1 "
                   "of 1"},
                  "arrival_overflow"},
        FaultCase{"stale_state",
                  {"wrong phase: the state is of phase 0, the mbarrier in "
                   "phase 2"},
                  "stale_state"},
        FaultCase{"barrier_overwritten",
                  {"mbarrier object: shared write"},
                  "barrier_overwritten"},
        FaultCase{"inval_race",
                  {"race: mbarrier.inval is not synchronized with its use by "
                   "warp 1",
                   "no mbarrier"}},
        FaultCase{"missing_arrival",
                  {", for phase 0 (parity 0) of the mbarrier at byte 0 of "
                   "static shared memory (in phase 0, 0 of 1 arrivals, 0 of 0 "
                   "bytes)"}},
        FaultCase{"count_of_zero",
                  {"count of 0: legal are 1 to 1048575"},
                  "count_of_zero"},
        FaultCase{"bulk_misaligned", {"misaligned"}, "bulk_misaligned"},
        FaultCase{"bulk_odd_size",
                  {"bulk copy of 72 bytes: legal are multiples of 16"},
                  "bulk_odd_size"},
        FaultCase{"bulk_past_end",
                  {"out of bounds: read of 272 bytes at byte 0 of buffer A"},
                  "bulk_past_end"},
        FaultCase{"bulk_uninitialized",
                  {"uninitialized: shared bulk read"},
                  "bulk_uninitialized"},
        FaultCase{"bulk_unobserved",
                  {"copy not waited for: the CTA exits"},
                  "bulk_unobserved"},
        FaultCase{"bulk_not_expected",
                  {"wrong byte count at exit: phase 0 of the mbarrier at byte "
                   "256 of static shared memory expects 0 bytes, of which 64",
                   "copy not waited for: the CTA exits"}},
        FaultCase{"fence_of_another",
                  {"missing proxy fence"},
                  "fence_of_another",
                  "fence_of_another_store"},
        FaultCase{"write_then_load",
                  {"missing proxy fence"},
                  "write_then_load",
                  "write_then_load_store"},
        FaultCase{
            "reload_race",
            {"race: shared bulk write", "race: shared read",
             "copy not waited for: shared read", "wrong phase", "deadlock"}}),
    [](const auto& info) { return info.param.kernel; });

// --- tensor copies -----------------------------------------------------------

struct TensorCase {
  TensorMap map;
  std::vector<int32_t> at;
};

// Offsets in the box, in elements, of what a copy moves: f(position, address
// in the tensor or -1 if outside).
template <typename F>
void ForBox(const TensorCase& test, F f) {
  const TensorMap& map = test.map;
  const int rank = static_cast<int>(map.dims.size());
  const int64_t element = BytesOf(map.element);
  std::array<int, 5> count = {1, 1, 1, 1, 1};
  for (int i = 0; i < rank; ++i) {
    const int step = i == 0 ? 1 : static_cast<int>(map.element_strides[i]);
    count[i] = (static_cast<int>(map.box[i]) + step - 1) / step;
  }
  int64_t position = 0;
  for (int e = 0; e < count[4]; ++e) {
    for (int d = 0; d < count[3]; ++d) {
      for (int c = 0; c < count[2]; ++c) {
        for (int b = 0; b < count[1]; ++b) {
          for (int a = 0; a < count[0]; ++a) {
            const int index[5] = {a, b, c, d, e};
            int64_t address = 0;
            bool inside = true;
            for (int i = 0; i < rank; ++i) {
              const int step =
                  i == 0 ? 1 : static_cast<int>(map.element_strides[i]);
              const int64_t x = test.at[i] + index[i] * step;
              inside &= x >= 0 && x < static_cast<int64_t>(map.dims[i]);
              address +=
                  x *
                  (i == 0 ? element : static_cast<int64_t>(map.strides[i - 1]));
            }
            f(position++, inside ? address : -1);
          }
        }
      }
    }
  }
}

// Where byte `at` of the box lies: 16-byte chunks of a span trade places by
// the number of the 128-byte line, as often as the span has chunks.
int64_t Swizzled(TensorMap::Swizzle swizzle, int64_t at) {
  const int64_t line = at / 128 % 8;
  const int64_t chunk = at / 16 % 8;
  switch (swizzle) {
    case TensorMap::Swizzle::kNone:
      return at;
    case TensorMap::Swizzle::k32B:
      return at + 16 * ((chunk ^ line % 2) - chunk);
    case TensorMap::Swizzle::k64B:
      return at + 16 * ((chunk ^ line % 4) - chunk);
    case TensorMap::Swizzle::k128B:
      return at + 16 * ((chunk ^ line) - chunk);
  }
  return at;
}

TensorCase MakeTensor(TensorMap::Element element, std::vector<uint64_t> dims,
                      std::vector<uint32_t> box, std::vector<int32_t> at,
                      TensorMap::Swizzle swizzle = TensorMap::Swizzle::kNone) {
  TensorCase test;
  test.map.element = element;
  test.map.dims = dims;
  test.map.box = box;
  test.map.swizzle = swizzle;
  test.map.element_strides.assign(dims.size(), 1);
  test.at = at;
  uint64_t stride = dims[0] * BytesOf(element);
  for (size_t i = 1; i < dims.size(); ++i) {
    stride = (stride + 15) / 16 * 16;
    test.map.strides.push_back(stride);
    stride *= dims[i];
  }
  return test;
}

std::vector<TensorCase> TensorCases() {
  using E = TensorMap::Element;
  using S = TensorMap::Swizzle;
  std::vector<TensorCase> cases = {
      MakeTensor(E::kU8, {300}, {64}, {250}),
      MakeTensor(E::kF32, {40, 30}, {8, 16}, {8, 4}),
      MakeTensor(E::kF16, {100, 40}, {64, 32}, {64, 30}, S::k128B),
      MakeTensor(E::kBF16, {100, 40}, {32, 16}, {-5, -3}, S::k64B),
      MakeTensor(E::kU16, {64, 40}, {16, 40}, {16, 0}, S::k32B),
      MakeTensor(E::kU32, {12, 9, 7}, {8, 5, 4}, {4, 6, -2}),
      MakeTensor(E::kF16, {64, 6, 5, 4}, {32, 3, 2, 3}, {8, 4, 1, 2}, S::k64B),
      MakeTensor(E::kF64, {4, 3, 3, 3, 3}, {2, 2, 2, 2, 2}, {1, 1, 2, 0, 2}),
  };
  // Every third row and every second plane.
  cases.push_back(MakeTensor(E::kU16, {32, 20, 6}, {8, 9, 4}, {8, 13, 1}));
  cases.back().map.element_strides = {1, 3, 2};
  for (TensorCase& test : cases) test.map.offset = 32;
  for (size_t i : {1, 2, 3}) cases[i].map.fill = TensorMap::Fill::kNan;
  return cases;
}

LaunchPlan TensorPlan(const std::string& kernel, const TensorCase& test,
                      std::vector<int32_t> ints, BufferRole other) {
  LaunchPlan plan;
  plan.kernel_name = absl::StrCat(kernel, test.map.dims.size());
  plan.block = {64, 1, 1};
  plan.smem_bytes = 65536;
  plan.tensor_maps = {test.map};
  plan.args = {Map(0), Buffer(other)};
  for (int32_t v : ints) plan.args.push_back(Int(v));
  for (size_t i = 0; i < 5; ++i) {
    plan.args.push_back(Int(i < test.at.size() ? test.at[i] : 0));
  }
  return plan;
}

uint64_t TensorBytes(const TensorMap& map) {
  const size_t last = map.dims.size() - 1;
  return map.offset + map.dims[last] * (last == 0 ? BytesOf(map.element)
                                                  : map.strides[last - 1]);
}

TEST(TensorCopyTest, LoadsBoxes) {
  std::mt19937 random(11);
  int index = 0;
  for (const TensorCase& test : TensorCases()) {
    SCOPED_TRACE(testing::Message() << "case " << index++);
    const TensorMap& map = test.map;
    std::vector<uint8_t> tensor(TensorBytes(map));
    for (uint8_t& x : tensor) x = static_cast<uint8_t>(random());
    const uint64_t bytes = CopiedBytes(map);
    const uint32_t element = BytesOf(map.element);
    std::vector<uint8_t> expected(bytes);
    ForBox(test, [&](int64_t position, int64_t address) {
      uint8_t* to = &expected[Swizzled(map.swizzle, position * element)];
      if (address >= 0) {
        std::memcpy(to, &tensor[map.offset + address], element);
      } else if (map.fill == TensorMap::Fill::kNan) {
        std::memset(to, 0xff, element);
        to[element - 1] = 0x7f;
      }
    });
    for (const CopyLanding landing : kLandings) {
      std::vector<uint8_t> out(bytes);
      Bindings bindings;
      bindings[BufferRole::kA] = BufferOf(tensor, false);
      bindings[BufferRole::kC] = BufferOf(out, true, false);
      Options options;
      options.landing = landing;
      const auto stats =
          Execute(Copies(),
                  TensorPlan("load", test, {static_cast<int32_t>(bytes)},
                             BufferRole::kC),
                  bindings, options);
      ASSERT_TRUE(stats.ok()) << stats.status();
      ASSERT_EQ(out, expected);
    }
  }
}

TEST(TensorCopyTest, StoresAndAddsBoxes) {
  int index = 0;
  for (TensorCase test : TensorCases()) {
    SCOPED_TRACE(testing::Message() << "case " << index++);
    test.map.fill = TensorMap::Fill::kZeros;
    test.map.buffer = BufferRole::kC;
    const TensorMap& map = test.map;
    const uint32_t element = BytesOf(map.element);
    const uint64_t bytes = CopiedBytes(map);
    std::vector<uint8_t> in(bytes);
    std::mt19937 random(13);
    for (uint8_t& x : in) x = static_cast<uint8_t>(random());
    for (const bool add : {false, true}) {
      if (add && map.element != TensorMap::Element::kU32) continue;
      std::vector<uint8_t> tensor(TensorBytes(map));
      for (uint8_t& x : tensor) x = static_cast<uint8_t>(random());
      std::vector<uint8_t> expected = tensor;
      ForBox(test, [&](int64_t position, int64_t address) {
        if (address < 0) return;
        const uint8_t* from = &in[Swizzled(map.swizzle, position * element)];
        uint8_t* to = &expected[map.offset + address];
        uint32_t a = 0, b = 0;
        if (add) {
          std::memcpy(&a, to, 4);
          std::memcpy(&b, from, 4);
          a += b;
          std::memcpy(to, &a, 4);
        } else {
          std::memcpy(to, from, element);
        }
      });
      for (const CopyLanding landing : kLandings) {
        std::vector<uint8_t> out = tensor;
        Bindings bindings;
        bindings[BufferRole::kA] = BufferOf(in, false);
        bindings[BufferRole::kC] = BufferOf(out, true);
        Options options;
        options.landing = landing;
        const auto stats = Execute(
            Copies(),
            TensorPlan("store", test, {static_cast<int32_t>(bytes), add},
                       BufferRole::kA),
            bindings, options);
        ASSERT_TRUE(stats.ok()) << stats.status();
        ASSERT_EQ(out, expected);
      }
    }
  }
}

TEST(TensorCopyTest, TensorLargerThanItsBufferIsCaught) {
  TensorCase test =
      MakeTensor(TensorMap::Element::kU32, {40, 30}, {8, 16}, {8, 20});
  std::vector<uint32_t> tensor(40 * 29), out(128);
  Bindings bindings;
  bindings[BufferRole::kA] = BufferOf(tensor, false);
  bindings[BufferRole::kC] = BufferOf(out, true);
  const absl::Status status =
      Execute(Copies(), TensorPlan("load", test, {512}, BufferRole::kC),
              bindings, Options())
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("read of 32 bytes at byte 4672 of buffer A"));
}

TEST(TensorMapTest, RulesNameFieldAndLegalValues) {
  const TensorCase good =
      MakeTensor(TensorMap::Element::kF16, {100, 40}, {64, 32}, {0, 0},
                 TensorMap::Swizzle::k128B);
  EXPECT_TRUE(ValidateTensorMap(good.map).ok());
  const auto broken = [&](auto change) {
    TensorMap map = good.map;
    change(map);
    return std::string(ValidateTensorMap(map).message());
  };
  EXPECT_THAT(broken([](TensorMap& m) { m.dims.clear(); }),
              HasSubstr("dims has 0 entries; legal are 1 to 5"));
  EXPECT_THAT(broken([](TensorMap& m) { m.dims[1] = 0; }),
              HasSubstr("dims[1] is 0; legal are 1 to 4294967296"));
  EXPECT_THAT(broken([](TensorMap& m) { m.strides[0] = 200; }),
              HasSubstr("strides[0] is 200; legal are multiples of 16"));
  EXPECT_THAT(broken([](TensorMap& m) { m.strides.push_back(16); }),
              HasSubstr("strides has 2 entries; dims with 2 needs 1"));
  EXPECT_THAT(broken([](TensorMap& m) { m.box[1] = 257; }),
              HasSubstr("box[1] is 257; legal are 1 to 256"));
  EXPECT_THAT(broken([](TensorMap& m) { m.box[0] = 20; }),
              HasSubstr("box[0] makes 40 bytes; legal are multiples of 16"));
  EXPECT_THAT(broken([](TensorMap& m) { m.box[0] = 32; }),
              HasSubstr("with a swizzle of 128 bytes it must be as many"));
  EXPECT_THAT(broken([](TensorMap& m) { m.element_strides[1] = 9; }),
              HasSubstr("element_strides[1] is 9; legal are 1 to 8"));
  EXPECT_THAT(broken([](TensorMap& m) { m.offset = 8; }),
              HasSubstr("offset is 8; legal are multiples of 16"));
  EXPECT_THAT(broken([](TensorMap& m) {
                m.element = TensorMap::Element::kU16;
                m.fill = TensorMap::Fill::kNan;
              }),
              HasSubstr("fill is kNan"));
}

}  // namespace
}  // namespace hone::emulator
