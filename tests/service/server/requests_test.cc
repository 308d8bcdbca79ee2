#include "service/server/requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "service/convert/config_convert.h"
#include "service/convert/errors.h"

namespace hone {
namespace {

using ::testing::HasSubstr;

v1::TuneLayerRequest Good() {
  v1::TuneLayerRequest request;
  request.set_request_id("0F8FAD5B-d9cb-469f-a165-70867728950e");
  request.mutable_problem()->mutable_layer()->set_n(1024);
  request.mutable_problem()->mutable_layer()->set_k(2048);
  return request;
}

TEST(Requests, ATuneTakesItsDefaults) {
  const auto tune = TuneRequestFromProto(Good());
  ASSERT_TRUE(tune.ok()) << tune.status();
  EXPECT_EQ(tune->request_id, "0f8fad5b-d9cb-469f-a165-70867728950e");
  EXPECT_EQ(tune->ladder, DefaultLadder());
  EXPECT_EQ(tune->max_kernels, 32);
  EXPECT_EQ(tune->budget, absl::Seconds(120));
  EXPECT_EQ(tune->problem.layer.k, 2048);
}

TEST(Requests, FingerprintsCoverAllThatDecidesTheResult) {
  const TuneRequest base = *TuneRequestFromProto(Good());
  v1::TuneLayerRequest same = Good();
  same.set_request_id("00000000-0000-0000-0000-000000000000");
  same.set_detached(true);
  EXPECT_EQ(TuneRequestFromProto(same)->Fingerprint(), base.Fingerprint());
  std::vector<v1::TuneLayerRequest> others(6, Good());
  others[0].add_ladder(4);
  others[1].set_max_kernels(9);
  others[2].mutable_budget()->set_seconds(9);
  others[3].set_retune(true);
  others[4].mutable_problem()->mutable_layer()->set_bias(true);
  others[5].set_max_table_kernels(5);
  for (const auto& other : others) {
    EXPECT_NE(TuneRequestFromProto(other)->Fingerprint(), base.Fingerprint())
        << other.DebugString();
  }
}

TEST(Requests, AnAuditTakesItsDefaultsAndNamesBadFields) {
  v1::AuditLayerRequest request;
  request.set_request_id(Good().request_id());
  *request.mutable_problem() = Good().problem();
  const auto audit = AuditRequestFromProto(request);
  ASSERT_TRUE(audit.ok()) << audit.status();
  ASSERT_TRUE(audit->audit.has_value());
  EXPECT_EQ(audit->audit->tunes, 2);
  EXPECT_EQ(audit->audit->kernels, 200);
  EXPECT_EQ(audit->audit->seed, 1u);
  EXPECT_EQ(audit->budget, absl::Seconds(300));
  EXPECT_EQ(audit->ladder, DefaultLadder());
  // No tune joins an audit, nor one audit another.
  const std::string fingerprint = audit->Fingerprint();
  TuneRequest tune = *audit;
  tune.audit.reset();
  EXPECT_NE(tune.Fingerprint(), fingerprint);
  request.set_seed(2);
  EXPECT_NE(AuditRequestFromProto(request)->Fingerprint(), fingerprint);
  request.set_seed(0);
  request.set_within("block_m=16");
  EXPECT_NE(AuditRequestFromProto(request)->Fingerprint(), fingerprint);
  EXPECT_EQ(AuditRequestFromProto(request)->audit->within.ToString(),
            "block_m=16");

  request.set_within("tile=16");
  request.set_tunes(1);
  request.set_kernels(2001);
  request.mutable_budget()->set_seconds(9);
  request.set_max_kernels(1);
  request.add_ladder(0);
  request.mutable_problem()->mutable_layer()->set_n(0);
  std::vector<std::string> fields;
  for (const FieldViolation& violation :
       ViolationsOf(AuditRequestFromProto(request).status()))
    fields.push_back(violation.field);
  EXPECT_THAT(fields, ::testing::IsSupersetOf(
                          {"tunes", "kernels", "budget", "within",
                           "max_kernels", "ladder[0]", "problem.layer.n"}));
}

TEST(Requests, UuidsAreChecked) {
  EXPECT_TRUE(IsUuid("0f8fad5b-d9cb-469f-a165-70867728950e"));
  for (const char* bad : {"", "0f8fad5b-d9cb-469f-a165-70867728950", "x",
                          "0f8fad5bxd9cb-469f-a165-70867728950e",
                          "0f8fad5b-d9cb-469f-a165-7086772895zz"}) {
    EXPECT_FALSE(IsUuid(bad)) << bad;
  }
}

TEST(Requests, LaddersMustRise) {
  v1::TuneLayerRequest request = Good();
  for (const int64_t m : {1, 8, 8}) request.add_ladder(m);
  const auto tune = TuneRequestFromProto(request);
  ASSERT_EQ(ViolationsOf(tune.status()).size(), 1u);
  EXPECT_EQ(ViolationsOf(tune.status())[0].field, "ladder[2]");
  EXPECT_THAT(ViolationsOf(tune.status())[0].description,
              HasSubstr("between 9 and"));
}

TEST(Requests, PageTokensMakeTheRoundTripInTheirOwnListOnly) {
  const std::string token = MakePageToken("tables", {7, 50});
  const auto position = ParsePageToken("tables", token);
  ASSERT_TRUE(position.ok()) << position.status();
  EXPECT_EQ(position->revision, 7);
  EXPECT_EQ(position->offset, 50);
  EXPECT_EQ(ParsePageToken("tables", "")->offset, 0);
  EXPECT_FALSE(ParsePageToken("tunes", token).ok());
  EXPECT_FALSE(ParsePageToken("tables", "%%%").ok());
  EXPECT_FALSE(ParsePageToken("tables", MakePageToken("tables", {1, -5})).ok());
  EXPECT_EQ(*PageSize(0), 50);
  EXPECT_EQ(*PageSize(5000), 1000);
  EXPECT_FALSE(PageSize(-1).ok());
}

TEST(Requests, ADeviceMustBePossible) {
  v1::DeviceSpec device = ToProto(*ModelledDevice("h200"));
  EXPECT_TRUE(DeviceFromProto(device).ok());
  device.set_sm_count(0);
  device.set_registers_per_sm(-1);
  const auto bad = DeviceFromProto(device);
  ASSERT_EQ(ViolationsOf(bad.status()).size(), 2u);
  EXPECT_EQ(ViolationsOf(bad.status())[0].field, "device.sm_count");
}

TEST(Requests, ADeviceThatTheStoreWouldRefuseIsRefused) {
  const v1::DeviceSpec good = ToProto(*ModelledDevice("h200"));
  const std::vector<
      std::pair<std::string, std::function<void(v1::DeviceSpec&)>>>
      cases = {
          {"pci_device_id", [](auto& d) { d.set_pci_device_id(-1); }},
          {"cuda_driver_version",
           [](auto& d) { d.set_cuda_driver_version(-1); }},
          {"pci_subsystem_id", [](auto& d) { d.set_pci_subsystem_id(-1); }},
          {"power_limit_mw", [](auto& d) { d.set_power_limit_mw(-1); }},
          {"max_clock_khz", [](auto& d) { d.set_max_clock_khz(-1); }},
          {"memory_bytes", [](auto& d) { d.set_memory_bytes(-1); }},
          {"memory_gbps", [](auto& d) { d.set_memory_gbps(NAN); }},
          {"mma_sync_tflops", [](auto& d) { d.set_mma_sync_tflops(INFINITY); }},
          {"peak_tflops", [](auto& d) { d.set_peak_tflops(-1); }},
          {"launch_ns", [](auto& d) { d.set_launch_ns(NAN); }},
          {"driver", [](auto& d) { d.set_driver(std::string(257, 'x')); }},
          {"uuid", [](auto& d) { d.set_uuid(std::string(257, 'x')); }},
      };
  for (const auto& [field, change] : cases) {
    v1::DeviceSpec device = good;
    change(device);
    const auto bad = DeviceFromProto(device);
    ASSERT_EQ(ViolationsOf(bad.status()).size(), 1u) << field;
    EXPECT_EQ(ViolationsOf(bad.status())[0].field, "device." + field);
  }
}

}  // namespace
}  // namespace hone
