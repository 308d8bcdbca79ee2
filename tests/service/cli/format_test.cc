#include "service/cli/format.h"

#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/cli/json.h"
#include "service/cli/progress.h"

namespace hone {
namespace {

TuningConfig SmallConfig() {
  TuningConfig config;
  config.block_m = config.warp_m = 8;
  config.block_n = config.warp_n = 64;
  config.block_k = 512;
  config.warp_k = 64;
  config.stages = 4;
  return config;
}

TableAnswer Answer() {
  TableAnswer answer;
  answer.table.problem.layer.n = 8192;
  answer.table.problem.layer.k = 4096;
  answer.table.problem.layer.b_scale = ScaleGranularity::kGroup;
  answer.table.problem.layer.b_group = 128;
  answer.table.device = *ModelledDevice("h200");
  answer.provenance.match = MatchKind::kExact;
  answer.provenance.gate = GateKind::kEmulated;
  answer.provenance.revision = 3;
  answer.provenance.modelled = true;
  answer.provenance.notes = {"Tuned under driver 580.1."};
  TableEntry entry;
  entry.m_hi = 16;
  entry.config = SmallConfig();
  entry.compile.kernel_id = "k1";
  Evidence evidence;
  evidence.m = 1;
  evidence.samples = 40;
  evidence.median_ns = 9410;
  evidence.floor_ns = 8093;
  evidence.default_median_ns = 10200;
  evidence.margin = 0.0839;
  entry.evidence.push_back(evidence);
  evidence.m = 16;
  evidence.median_ns = 123456;
  evidence.margin = -0.0004;
  entry.evidence.push_back(evidence);
  answer.table.entries.push_back(entry);
  entry.m_lo = 17;
  entry.m_hi = 0;
  entry.config.split = Split::kSplitK;
  entry.config.split_k = 4;
  entry.config.ctas_per_sm = 2;
  entry.compile.kernel_id = "k2";
  entry.evidence.clear();
  answer.table.entries.push_back(entry);
  return answer;
}

TEST(FormatTest, BoundsOfRegret) {
  TableAnswer answer = Answer();
  answer.provenance.match = MatchKind::kNeighbour;
  EXPECT_THAT(RenderTable(answer),
              testing::HasSubstr("\nregret  no bound is known\n"));
  answer.provenance.regret_bound =
      RegretBound{.regret = 0.034, .pairs = 6, .how = "measured somehow"};
  EXPECT_THAT(
      RenderTable(answer),
      testing::HasSubstr("\nregret  at most 3.4 %, measured somehow\n"));
}

TEST(FormatTest, Table) {
  TableAnswer answer = Answer();
  EXPECT_EQ(RenderTable(answer),
            R"(layer   8192x4096 int4 group 128, float16 activations
device  NVIDIA H200 (MODELLED) (sm_90, 132 SMs)
answer  EXACT, gate EMULATED, revision 3, MODELLED, unverified, 2 kernels
note    Tuned under driver 580.1.

M range   M  config                      time µs  floor µs  of floor  default µs  margin  samples
1-16      1  8x64x512 w8x64x64 s4 k1        9.41      8.09      86 %       10.20  +8.4 %       40
         16                               123.46      8.09       7 %       10.20  +0.0 %       40
17 up     -  8x64x512 w8x64x64 s4 k4 c2        -         -         -           -       -        -
)");
  answer.table.device.name = "Some GPU";
  EXPECT_THAT(DescribeDevice(answer.table.device),
              testing::StrEq("Some GPU (sm_90, 132 SMs), MODELLED"));
}

TEST(FormatTest, ConfigsSayOnlyWhatDiffers) {
  TuningConfig config = SmallConfig();
  EXPECT_EQ(ShortConfig(config), "8x64x512 w8x64x64 s4 k1");
  EXPECT_EQ(ShortConfig(config.ToString()), "8x64x512 w8x64x64 s4 k1");
  config.split = Split::kStreamK;
  config.split_k = 66;
  config.mma = MmaInstruction::kWgmma;
  config.mmas_in_flight = 2;
  config.producer_b = Producer::kTma;
  config.warp_specialized = true;
  config.cluster_m = 2;
  config.raster = RasterOrder::kAlongN;
  EXPECT_EQ(ShortConfig(config),
            "8x64x512 w8x64x64 s4 sk66 wgmma2 b:tma ws cl2x1 rn");
  EXPECT_EQ(ShortConfig("not a config"), "not a config");
}

TEST(FormatTest, MarksSayWhatAnAnswerIsWorth) {
  Provenance provenance;
  EXPECT_EQ(Marks(provenance), "HEURISTIC, gate NONE, revision 0, unverified");
  provenance = {MatchKind::kBucket, 7, false, true, true, GateKind::kDevice};
  EXPECT_EQ(Marks(provenance), "BUCKET, gate DEVICE, revision 7, stale");
}

TEST(FormatTest, Numbers) {
  EXPECT_EQ(FormatUs(0), "-");
  EXPECT_EQ(FormatUs(12345), "12.35");
  EXPECT_EQ(FormatFraction(9, 10), "90 %");
  EXPECT_EQ(FormatFraction(0, 10), "-");
  EXPECT_EQ(FormatMargin(0.1), "+10.0 %");
  EXPECT_EQ(FormatMargin(-0.021), "-2.1 %");
  EXPECT_EQ(FormatRange(4, 4), "4");
  EXPECT_EQ(FormatTime(absl::Milliseconds(59600)), "1 min 00 s");
  EXPECT_EQ(FormatTime(absl::Seconds(3720)), "1 h 02 min");
}

TEST(FormatTest, ProgressHasTheRaceAndTheEta) {
  v1::TuneProgress progress;
  progress.set_phase(v1::TUNE_PHASE_RACE);
  progress.set_done(12);
  progress.set_total(40);
  progress.set_compiled(30);
  progress.set_failed(1);
  progress.mutable_elapsed()->set_seconds(65);
  EXPECT_EQ(RenderProgress(progress),
            "race 12/40, 30 kernels (1 failed), 1 min 05 s");
  progress.set_m(16);
  progress.set_best_config(SmallConfig().ToString());
  progress.set_best_ns(9410);
  progress.set_default_ns(10200);
  progress.mutable_eta()->set_seconds(20);
  EXPECT_EQ(RenderProgress(progress),
            "race 12/40, 30 kernels (1 failed), M=16 8x64x512 w8x64x64 s4 k1 "
            "9.41 µs (default 10.20), 1 min 05 s, ETA 20 s");
}

TEST(ProgressTest, PrintsLinesNowAndThen) {
  std::ostringstream err;
  absl::Time now = absl::UnixEpoch();
  {
    Progress progress(err, /*is_terminal=*/false, [&] { return now; });
    progress.Update("", 1, "one");
    progress.Update("", 1, "soon after");
    progress.Update("", 2, "new phase");
    now += absl::Seconds(10);
    progress.Update("", 2, "later");
    progress.Update("other", 2, "has its own clock");
    progress.Say("said");
  }
  EXPECT_EQ(err.str(),
            "one\nnew phase\nlater\nother: has its own clock\nsaid\n");
}

TEST(ProgressTest, RewritesALineOnATerminal) {
  std::ostringstream err;
  {
    Progress progress(err, /*is_terminal=*/true);
    progress.Update("", 1, "one");
    progress.Update("", 1, "two");
    progress.Say("said");
  }
  EXPECT_EQ(err.str(), "one\r\033[Ktwo\r\033[Ksaid\n");
}

TEST(JsonTest, KeepsOrderAndEscapes) {
  EXPECT_EQ(JsonObject()
                .Add("b", "say \"hi\"\n")
                .Add("a", int64_t{1} << 60)
                .Add("half", 0.5)
                .Add("none", 1.0 / 0.0)
                .Add("yes", true)
                .Add("list", JsonArray({{"1"}, {"2"}}))
                .Build()
                .text,
            "{\"b\": \"say \\\"hi\\\"\\u000a\", \"a\": 1152921504606846976, "
            "\"half\": 0.5, \"none\": null, \"yes\": true, \"list\": [1, 2]}");
}

}  // namespace
}  // namespace hone
