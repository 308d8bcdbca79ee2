// Values and files that the tests of db/ share.
#ifndef HONE_TESTS_DB_FIXTURE_H_
#define HONE_TESTS_DB_FIXTURE_H_

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "db/store.h"
#include "kernels/config/sha256.h"

namespace hone::testing {

// A folder of its own for each test, removed afterwards.
class DbTest : public ::testing::Test {
 protected:
  DbTest() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "hone_db_XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~DbTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name = "hone.db") const {
    return (folder_ / name).string();
  }
  // A store that must open.
  std::unique_ptr<Store> OpenStore(const std::string& name = "hone.db",
                                   const StoreOptions& options = {}) const {
    auto store = Store::Open(Path(name), options);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }

 private:
  std::filesystem::path folder_;
};

inline DeviceSpec TestDevice() {
  DeviceSpec device;
  device.sm_arch = 90;
  device.pci_device_id = 0x2335;
  device.sm_count = 132;
  device.l2_bytes = 60 << 20;
  device.smem_optin_bytes = 232448;
  device.cuda_driver_version = 13000;
  device.driver = "580.65.06";
  device.pci_subsystem_id = 0x18BE;
  device.power_limit_mw = 700000;
  device.ecc = true;
  device.vbios = "96.00.CB.00.01";
  device.name = "NVIDIA H200";
  device.uuid = "GPU-00000000-0000-0000-0000-000000000001";
  device.smem_per_sm_bytes = 233472;
  device.registers_per_sm = 65536;
  device.max_threads_per_sm = 2048;
  device.max_clock_khz = 1980000;
  device.memory_bytes = int64_t{141} << 30;
  device.memory_gbps = 4301.0625;
  device.mma_sync_tflops = 550.1;
  device.peak_tflops = 883;
  device.launch_ns = 2200.5;
  return device;
}

inline Problem TestProblem(int64_t n = 8192, int64_t k = 8192) {
  Problem problem;
  problem.layer.n = n;
  problem.layer.k = k;
  problem.layer.b_scale = ScaleGranularity::kGroup;
  problem.layer.b_group = 128;
  return problem;
}

inline CompileInfo TestCompile(const std::string& seed = "a") {
  CompileInfo compile;
  compile.cubin_hash = Sha256Hex("cubin " + seed);
  compile.kernel_id = Sha256Hex("kernel " + seed);
  compile.source_key = Sha256Hex("source " + seed);
  compile.nvrtc_version = "13.0";
  compile.registers = 168;
  compile.spill_bytes = 4;
  compile.stack_bytes = 8;
  compile.smem_bytes = 65536;
  compile.compile_ms = 812;
  return compile;
}

inline Trial TestTrial(int64_t m = 16, const std::string& detail = "") {
  Trial trial;
  trial.problem = TestProblem();
  trial.m = m;
  trial.config.stages = 3;
  trial.config.raster = RasterOrder::kAlongN;
  trial.outcome = Outcome::kMeasured;
  trial.detail = detail;
  trial.gate = GateKind::kDevice;
  trial.error = {1.25e-4, 0.3};
  trial.compile = TestCompile();
  trial.samples = {{10880, 1980000, 0}, {10912, 1965000, 1}, {-1, 1, -2}};
  trial.median_ns = 10880;
  trial.session_id = "session-1";
  trial.unix_us = 1'764'650'000'123'456;
  return trial;
}

// Two entries, evidence with ties, every field other than its default.
inline DispatchTable TestTable(const Problem& problem = TestProblem(),
                               const DeviceSpec& device = TestDevice()) {
  DispatchTable table;
  table.problem = problem;
  table.device = device;
  table.protocol.activations = "warm";
  table.gate = GateKind::kEmulated;
  table.source_closure = Sha256Hex("sources");
  table.ladder = {1, 16, 64};
  table.session_id = "session \"1\" \xE2\x88\x9E\n\x01";
  table.unix_us = 1'764'650'000'654'321;
  TableEntry small;
  small.m_hi = 16;
  small.config.block_n = 128;
  small.compile = TestCompile("small");
  TuningConfig tie;
  tie.stages = 6;
  Evidence at_1;
  at_1.m = 1;
  at_1.samples = 40;
  at_1.median_ns = 10880;
  at_1.low_ns = 10848;
  at_1.high_ns = 10944;
  at_1.default_median_ns = 11904;
  at_1.margin = 0.0941176470588235;
  at_1.floor_ns = 9600;
  at_1.ties = {small.config.ToString(), tie.ToString()};
  Evidence at_16 = at_1;
  at_16.m = 16;
  at_16.margin = -1.0 / 3;
  at_16.ties.clear();
  small.evidence = {at_1, at_16};
  TableEntry large;
  large.m_lo = 17;
  large.config.block_m = 64;
  large.config.warp_m = 32;
  large.config.split = Split::kSplitK;
  large.config.split_k = 4;
  large.compile = TestCompile("large");
  Evidence at_64 = at_1;
  at_64.m = 64;
  at_64.margin = 1e-20;
  large.evidence = {at_64};
  table.entries = {small, large};
  table.trade_off = {{.kernels = 1,
                      .worst_regret = 0.2681,
                      .mean_regret = 0.0533,
                      .compile_ms = 812},
                     {.kernels = 2, .compile_ms = 1624, .proven = false}};
  return table;
}

}  // namespace hone::testing

#endif  // HONE_TESTS_DB_FIXTURE_H_
