#include "service/server/lookup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/space/reduction_order.h"
#include "kernels/space/space.h"
#include "service/convert/errors.h"

namespace hone {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kClosure[] = "closure";

DeviceSpec Gpu(int64_t sm_count = 132) {
  DeviceSpec device = *ModelledDevice("h200");
  device.kind = DeviceKind::kMeasured;
  device.pci_device_id = 0x2335;
  device.sm_count = sm_count;
  device.name = "gpu";
  return device;
}

Problem Layer(int64_t n, int64_t k) {
  Problem problem;
  problem.layer.n = n;
  problem.layer.k = k;
  problem.layer.b_scale = ScaleGranularity::kGroup;
  problem.layer.b_group = 128;
  return problem;
}

StoredTable Tuned(const Problem& problem, const DeviceSpec& device) {
  StoredTable stored;
  stored.revision = 3;
  stored.table.problem = problem;
  stored.table.device = device;
  stored.table.source_closure = kClosure;
  stored.table.ladder = {1, 16, 64};
  const auto evidence = [](int64_t m) {
    return Evidence{.m = m, .samples = 10, .median_ns = 1000 + m};
  };
  TableEntry low;
  low.m_lo = 1;
  low.m_hi = 16;
  low.config = HeuristicDefault(problem, device, 16);
  low.compile.kernel_id = "kernel";
  low.evidence = {evidence(1), evidence(16)};
  TableEntry high = low;
  high.m_lo = 17;
  high.m_hi = 0;
  high.config = HeuristicDefault(problem, device, 64);
  high.evidence = {evidence(64)};
  stored.table.entries = {low, high};
  return stored;
}

LookupIndex Index(std::vector<StoredTable> tables) {
  return LookupIndex(std::move(tables), 3, kClosure);
}

ConfigAnswer Get(const LookupIndex& index, const Problem& problem, int64_t m,
                 const DeviceSpec& device = Gpu()) {
  const auto answer = index.GetConfig(problem, device, m);
  EXPECT_TRUE(answer.ok()) << answer.status();
  return answer.ok() ? *answer : ConfigAnswer();
}

TEST(Lookup, LadderPointsAreExactAndTheRestIsBuckets) {
  const LookupIndex index = Index({Tuned(Layer(4096, 4096), Gpu())});
  for (const int64_t m : {1, 16, 64}) {
    const ConfigAnswer answer = Get(index, Layer(4096, 4096), m);
    EXPECT_EQ(answer.provenance.match, MatchKind::kExact) << m;
    ASSERT_THAT(answer.evidence, SizeIs(1));
    EXPECT_EQ(answer.evidence[0].m, m);
    EXPECT_TRUE(answer.provenance.verified);
    EXPECT_EQ(answer.provenance.revision, 3);
    EXPECT_EQ(answer.compile.kernel_id, "kernel");
  }
  const ConfigAnswer between = Get(index, Layer(4096, 4096), 9);
  EXPECT_EQ(between.provenance.match, MatchKind::kBucket);
  ASSERT_THAT(between.evidence, SizeIs(2));
  EXPECT_EQ(between.evidence[0].m, 1);
  EXPECT_EQ(between.evidence[1].m, 16);
  const ConfigAnswer beyond = Get(index, Layer(4096, 4096), 100'000);
  EXPECT_EQ(beyond.provenance.match, MatchKind::kBucket);
  EXPECT_EQ(beyond.m_hi, 0);
  EXPECT_EQ(beyond.evidence[0].m, 64);
}

// Devices that differ in what no config follows from share their defaults, but
// each is answered under its own name.
TEST(Lookup, DefaultsAreSharedAndNameTheDeviceThatAsks) {
  const LookupIndex index = Index({});
  DeviceSpec one = Gpu();
  one.uuid = "GPU-1";
  DeviceSpec two = Gpu();
  two.uuid = "GPU-2";
  const auto first = index.GetTable(Layer(4096, 4096), one);
  const auto second = index.GetTable(Layer(4096, 4096), two);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->table.device.uuid, "GPU-1");
  EXPECT_EQ(second->table.device.uuid, "GPU-2");
  EXPECT_EQ(first->table.entries, second->table.entries);
  for (const int64_t m : {1, 3, 16, 1000, 1'000'000}) {
    const ConfigAnswer answer = Get(index, Layer(4096, 4096), m, two);
    const TableEntry& entry = *first->table.Find(m);
    EXPECT_EQ(answer.config, entry.config) << m;
    EXPECT_EQ(answer.m_lo, entry.m_lo) << m;
    EXPECT_EQ(answer.m_hi, entry.m_hi) << m;
    EXPECT_EQ(answer.provenance.match, MatchKind::kHeuristic);
    EXPECT_THAT(answer.evidence, IsEmpty());
  }
}

TEST(Lookup, ATableOfOlderSourcesAnswersFlagged) {
  StoredTable old = Tuned(Layer(4096, 4096), Gpu());
  old.table.source_closure = "older";
  const ConfigAnswer answer = Get(Index({old}), Layer(4096, 4096), 16);
  EXPECT_EQ(answer.provenance.match, MatchKind::kBucket);
  EXPECT_TRUE(answer.provenance.stale);
  EXPECT_THAT(answer.provenance.notes, Contains(HasSubstr("tune again")));
}

TEST(Lookup, ATableWithAnIllegalConfigDoesNotAnswer) {
  StoredTable broken = Tuned(Layer(4096, 4096), Gpu());
  broken.table.entries[1].config.mma = MmaInstruction::kTcgen05;
  const ConfigAnswer answer = Get(Index({broken}), Layer(4096, 4096), 1);
  EXPECT_EQ(answer.provenance.match, MatchKind::kHeuristic);
  EXPECT_THAT(answer.provenance.notes, Contains(HasSubstr("no longer legal")));
}

TEST(Lookup, TheNearestNeighbourAnswersWithinAFactorOfFour) {
  const LookupIndex index =
      Index({Tuned(Layer(2048, 4096), Gpu()), Tuned(Layer(4096, 8192), Gpu()),
             Tuned(Layer(65536, 65536), Gpu())});
  const ConfigAnswer near = Get(index, Layer(4096, 4096 + 2048), 16);
  EXPECT_EQ(near.provenance.match, MatchKind::kNeighbour);
  EXPECT_EQ(near.provenance.matched_problem, Layer(4096, 8192).ToString());
  EXPECT_FALSE(near.provenance.verified);
  EXPECT_EQ(near.provenance.gate, GateKind::kNone);
  EXPECT_EQ(near.compile.kernel_id, "");
  EXPECT_EQ(Get(index, Layer(256, 256), 16).provenance.match,
            MatchKind::kHeuristic);
  const auto table = index.GetTable(Layer(4096, 6144), Gpu());
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->table.problem, Layer(4096, 6144));
  EXPECT_EQ(table->provenance.match, MatchKind::kNeighbour);
}

// Batch-invariant problems: a neighbour's table answers only where both add in
// one order, as the default does.
TEST(Lookup, ANeighbourOfAnotherOrderDoesNotAnswer) {
  const auto invariant = [](int64_t n, int64_t k) {
    Problem problem = Layer(n, k);
    problem.compute.batch_invariant = true;
    return problem;
  };
  const LookupIndex index = Index({Tuned(invariant(8192, 8192), Gpu())});
  const ConfigAnswer near = Get(index, invariant(16384, 8192), 16);
  EXPECT_EQ(near.provenance.match, MatchKind::kNeighbour);
  EXPECT_EQ(ReductionOrderOf(near.config),
            InvariantOrder(invariant(16384, 8192), Gpu()));
  // K of so few channels is split.
  const Problem split = invariant(4096, 8192);
  const ConfigAnswer other = Get(index, split, 16);
  EXPECT_EQ(other.provenance.match, MatchKind::kHeuristic);
  EXPECT_EQ(ReductionOrderOf(other.config), InvariantOrder(split, Gpu()));
  // Nor does a table that promises nothing, or the other way round.
  EXPECT_EQ(Get(index, Layer(8192, 8192), 16).provenance.match,
            MatchKind::kHeuristic);
  EXPECT_EQ(
      Get(Index({Tuned(Layer(8192, 8192), Gpu())}), invariant(8192, 8192), 16)
          .provenance.match,
      MatchKind::kHeuristic);
}

TEST(Lookup, OtherTypesAreNoNeighbours) {
  Problem other = Layer(4096, 4096);
  other.layer.b = kInt8;
  EXPECT_EQ(
      Get(Index({Tuned(other, Gpu())}), Layer(4096, 4096), 16).provenance.match,
      MatchKind::kHeuristic);
}

TEST(Lookup, ASiblingOfTheArchitectureAnswersMeasuredForMeasured) {
  const Problem problem = Layer(4096, 4096);
  const ConfigAnswer answer = Get(
      Index({Tuned(problem, Gpu(78)), Tuned(problem, Gpu(114))}), problem, 16);
  EXPECT_EQ(answer.provenance.match, MatchKind::kSiblingDevice);
  EXPECT_THAT(answer.provenance.notes, Contains(HasSubstr("sm_count 132")));
  EXPECT_THAT(answer.provenance.notes, Contains(HasSubstr("114")));
  EXPECT_FALSE(answer.provenance.verified);

  // What was modelled never answers for silicon, nor the other way round.
  const DeviceSpec model = *ModelledDevice("h200");
  EXPECT_EQ(Get(Index({Tuned(problem, model)}), problem, 16).provenance.match,
            MatchKind::kHeuristic);
  EXPECT_EQ(
      Get(Index({Tuned(problem, Gpu())}), problem, 16, model).provenance.match,
      MatchKind::kHeuristic);
  const ConfigAnswer modelled =
      Get(Index({Tuned(problem, model)}), problem, 16, model);
  EXPECT_EQ(modelled.provenance.match, MatchKind::kExact);
  EXPECT_TRUE(modelled.provenance.modelled);
  // Another architecture is no sibling.
  EXPECT_EQ(
      Get(Index({Tuned(problem, *ModelledDevice("a100"))}), problem, 16, model)
          .provenance.match,
      MatchKind::kHeuristic);
}

TEST(Lookup, SoftDifferencesAreNoted) {
  DeviceSpec newer = Gpu();
  newer.driver = "590.1";
  const ConfigAnswer answer = Get(Index({Tuned(Layer(4096, 4096), Gpu())}),
                                  Layer(4096, 4096), 16, newer);
  EXPECT_EQ(answer.provenance.match, MatchKind::kExact);
  EXPECT_THAT(answer.provenance.notes,
              Contains(HasSubstr("driver 590.1 here")));
}

TEST(Lookup, ARecheckedTableAnswersWithoutSoftDifferences) {
  DeviceSpec newer = Gpu();
  newer.driver = "590.1";
  StoredTable stored = Tuned(Layer(4096, 4096), Gpu());
  stored.kept_in = {newer.SoftText()};
  const LookupIndex index = Index({stored});
  EXPECT_THAT(Get(index, Layer(4096, 4096), 16, newer).provenance.notes,
              IsEmpty());
  newer.vbios = "97";
  EXPECT_THAT(Get(index, Layer(4096, 4096), 16, newer).provenance.notes,
              SizeIs(2));
}

TEST(Lookup, BucketsHaveABoundOfRegretWhereOneIsKnown) {
  StoredTable stored = Tuned(Layer(4096, 4096), Gpu());
  for (TableEntry& entry : stored.table.entries) {
    for (Evidence& evidence : entry.evidence) {
      evidence.low_ns = evidence.median_ns - 10;
      evidence.high_ns = evidence.median_ns + 10;
    }
  }
  const LookupIndex index = Index({stored});
  // Times are 1000 + M.
  const auto bound = Get(index, Layer(4096, 4096), 9).provenance.regret_bound;
  ASSERT_TRUE(bound.has_value());
  EXPECT_DOUBLE_EQ(bound->regret, 1026.0 / 991 - 1);
  EXPECT_EQ(bound->pairs, 0);
  EXPECT_THAT(bound->how, HasSubstr("the slower of 1 and 16"));
  for (const int64_t none : {1, 16, 40, 64, 1000}) {
    EXPECT_FALSE(Get(index, Layer(4096, 4096), none).provenance.regret_bound)
        << none;
  }
  // Trials of the second kernel at the first's ladder point.
  TrialTimes times;
  times.configs = {
      {stored.table.entries[1].config.ToString(), {{16, 1050, 1060}}}};
  const LookupIndex more({stored}, 3, kClosure, {times});
  EXPECT_TRUE(Get(more, Layer(4096, 4096), 40).provenance.regret_bound);
  // Older sources' times bound nothing.
  stored.table.source_closure = "older";
  EXPECT_FALSE(
      Get(Index({stored}), Layer(4096, 4096), 9).provenance.regret_bound);
}

TEST(Lookup, NeighboursHaveABoundOnceEnoughPairsWereMeasured) {
  // Every kernel serves all problems, and is 3 % behind the best in each.
  std::vector<StoredTable> tables;
  std::vector<TrialTimes> times;
  for (const int64_t n : {4096, 8192, 16384}) {
    tables.push_back(Tuned(Layer(n, 4096), Gpu()));
    TrialTimes at;
    for (const StoredTable& other : tables) {
      for (const int64_t m : {1, 16, 64}) {
        at.configs.push_back(
            {other.table.Find(m)->config.ToString(),
             {{1, 1030, 1030}, {16, 1030, 1030}, {64, 1030, 1030}}});
      }
    }
    at.best = {{1, 1000}, {16, 1000}, {64, 1000}};
    times.push_back(at);
  }
  // All six pairs of three tables, whichever of their configs differ.
  for (TrialTimes& at : times) at.configs = times.back().configs;
  const Problem asked = Layer(12288, 4096);
  const LookupIndex index(tables, 3, kClosure, times);
  const ConfigAnswer answer = Get(index, asked, 16);
  ASSERT_EQ(answer.provenance.match, MatchKind::kNeighbour);
  ASSERT_TRUE(answer.provenance.regret_bound.has_value());
  EXPECT_NEAR(answer.provenance.regret_bound->regret, 0.03, 1e-9);
  EXPECT_EQ(answer.provenance.regret_bound->pairs, 6);
  EXPECT_THAT(
      answer.provenance.regret_bound->how,
      HasSubstr("95 % of 18 M where kernels tuned for another N and K"));
  // An octave away, all pairs are as far apart; farther, only the two of 4096
  // and 16384 are, which are too few.
  const auto bound_at = [&](int64_t n) {
    return Get(index, Layer(n, 4096), 16).provenance.regret_bound;
  };
  ASSERT_TRUE(bound_at(2048).has_value());
  EXPECT_EQ(bound_at(2048)->pairs, 6);
  EXPECT_FALSE(bound_at(1024).has_value());
  const auto table = index.GetTable(asked, Gpu());
  EXPECT_EQ(table->provenance.regret_bound, answer.provenance.regret_bound);
  // Older sources bound nothing of today's kernels: neither where their table
  // answers, nor as one of those that are compared.
  std::vector<StoredTable> stale = tables;
  for (StoredTable& stored : stale) stored.table.source_closure = "older";
  EXPECT_FALSE(Get(LookupIndex(stale, 3, kClosure, times), asked, 16)
                   .provenance.regret_bound);
  stale = tables;
  stale[0].table.source_closure = "older";
  EXPECT_FALSE(Get(LookupIndex(stale, 3, kClosure, times), asked, 16)
                   .provenance.regret_bound);
  // Two tables are two pairs: too few.
  tables.pop_back();
  times.pop_back();
  EXPECT_FALSE(Get(LookupIndex(tables, 3, kClosure, times), asked, 16)
                   .provenance.regret_bound);
}

TEST(Lookup, SiblingsHaveABoundAcrossDeviceClasses) {
  std::vector<StoredTable> tables;
  std::vector<TrialTimes> times;
  for (const int64_t n : {4096, 8192, 16384}) {
    for (const int64_t sms : {132, 114}) {
      tables.push_back(Tuned(Layer(n, 4096), Gpu(sms)));
      const int64_t ns = sms == 132 ? 1013 : 1011;
      TrialTimes at;
      for (const int64_t other : {132, 114}) {
        for (const int64_t m : {1, 64}) {
          at.configs.push_back(
              {Tuned(Layer(n, 4096), Gpu(other))
                   .table.Find(m)
                   ->config.ToString(),
               {{1, ns, 2000}, {16, ns, 2000}, {64, ns, 2000}}});
        }
      }
      at.best = {{1, 1000}, {16, 1000}, {64, 1000}};
      times.push_back(at);
    }
  }
  const LookupIndex index(tables, 3, kClosure, times);
  const ConfigAnswer answer = Get(index, Layer(8192, 4096), 16, Gpu(120));
  ASSERT_EQ(answer.provenance.match, MatchKind::kSiblingDevice);
  ASSERT_TRUE(answer.provenance.regret_bound.has_value());
  EXPECT_NEAR(answer.provenance.regret_bound->regret, 0.013, 1e-9);
  EXPECT_EQ(answer.provenance.regret_bound->pairs, 6);
  EXPECT_THAT(answer.provenance.regret_bound->how, HasSubstr("another device"));
}

TEST(Lookup, ImportedTablesAreUnverified) {
  StoredTable imported = Tuned(Layer(4096, 4096), Gpu());
  imported.origin = Origin::kImported;
  imported.verified = false;
  const ConfigAnswer answer = Get(Index({imported}), Layer(4096, 4096), 16);
  EXPECT_EQ(answer.provenance.match, MatchKind::kExact);
  EXPECT_FALSE(answer.provenance.verified);
}

TEST(Lookup, TheHeuristicCoversEveryM) {
  const LookupIndex index = Index({});
  const auto table = index.GetTable(Layer(4096, 4096), Gpu());
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_TRUE(table->table.Validate().ok()) << table->table.Validate();
  EXPECT_EQ(table->provenance.match, MatchKind::kHeuristic);
  for (const int64_t m : {1, 7, 300, 1 << 20}) {
    const ConfigAnswer answer = Get(index, Layer(4096, 4096), m);
    EXPECT_FALSE(CheckConfig(Layer(4096, 4096), Gpu(), answer.config));
    EXPECT_EQ(answer.config, table->table.Find(m)->config);
    EXPECT_THAT(answer.evidence, IsEmpty());
  }
}

TEST(Lookup, AProblemWithoutAKernelSaysSo) {
  Problem problem = Layer(4096, 4096);
  problem.layer.b = DataType::Float(6, 1);
  const auto answer = Index({}).GetConfig(problem, Gpu(), 1);
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(ReasonOf(answer.status()), "NO_KERNEL");
}

}  // namespace
}  // namespace hone
