// mbarriers, bulk copies and tensor copies used wrongly are stopped on their
// lines; tensor maps that break a rule are refused.
#include <algorithm>
#include <numeric>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/kernels/emulator/async_test_support.h"

namespace hone::emulator {
namespace {

using ::testing::HasSubstr;

constexpr char kSource[] = "async_copies.cu";

const Module& Copies() {
  static const Module* module = new Module(CompileTestdata(kSource));
  return *module;
}

constexpr CopyLanding kLandings[] = {
    CopyLanding::kEarliest, CopyLanding::kLatest, CopyLanding::kRandom};

std::vector<uint32_t> Counting(size_t count) {
  std::vector<uint32_t> v(count);
  std::iota(v.begin(), v.end(), 0);
  return v;
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
        FaultCase{"bulk_store_seen_early",
                  {"race: global read of 4 bytes"},
                  "bulk_store_seen_early",
                  "bulk_store_seen_early_store"},
        FaultCase{"fence_of_another",
                  {"missing proxy fence"},
                  "fence_of_another",
                  "fence_of_another_store"},
        FaultCase{"write_then_load",
                  {"missing proxy fence"},
                  "write_then_load",
                  "write_then_load_store"},
        FaultCase{"read_then_load",
                  {"missing proxy fence: shared bulk write", "ordinary read"},
                  "read_then_load",
                  "read_then_load_read"},
        FaultCase{
            "reload_race",
            {"race: shared bulk write", "race: shared read",
             "missing proxy fence: shared bulk write",
             "copy not waited for: shared read", "wrong phase", "deadlock"}}),
    [](const auto& info) { return info.param.kernel; });

TEST(TensorCopyTest, TensorLargerThanItsBufferIsCaught) {
  std::vector<uint32_t> tensor(40 * 29), out(128);
  LaunchPlan plan;
  plan.kernel_name = "load2";
  plan.block = {64, 1, 1};
  plan.smem_bytes = 512;
  plan.tensor_maps = {
      MatrixMap(BufferRole::kA, TensorMap::Element::kU32, 40, 30, 8, 16)};
  plan.args = {MapArg(0)};
  plan.args.push_back(Buffer(BufferRole::kC));
  for (int v : {512, 8, 20, 0, 0, 0}) plan.args.push_back(Int(v));
  Bindings bindings;
  bindings[BufferRole::kA] = BufferOf(tensor, false);
  bindings[BufferRole::kC] = BufferOf(out, true);
  const absl::Status status =
      Execute(Copies(), plan, bindings, Options()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("read of 32 bytes at byte 4672 of buffer A"));
}

TEST(TensorMapTest, RulesNameFieldAndLegalValues) {
  const TensorMap good = MatrixMap(BufferRole::kA, TensorMap::Element::kF16,
                                   104, 40, 64, 32, TensorMap::Swizzle::k128B);
  EXPECT_TRUE(ValidateTensorMap(good).ok());
  const auto broken = [&](auto change) {
    TensorMap map = good;
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
