#include "kernels/config/device_spec.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/config/sha256.h"

namespace hone {
namespace {

TEST(DeviceSpecTest, ModelsAreOtherClassesThanHardware) {
  for (const std::string& name : ModelledDeviceNames()) {
    const DeviceSpec model = *ModelledDevice(name);
    EXPECT_TRUE(model.modelled());
    EXPECT_GT(model.memory_gbps, 0);
    EXPECT_GT(model.peak_tflops, 0);
    DeviceSpec real = model;
    real.kind = DeviceKind::kMeasured;
    EXPECT_NE(real.ClassHash(), model.ClassHash());
    EXPECT_THAT(DeviceSpec::MismatchedField(real, model),
                testing::Optional(testing::HasSubstr("kind")));
  }
  EXPECT_EQ(ModelledDevice("h100").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(ModelledDevice("h100").status().message()),
              testing::HasSubstr("h200, a100, rtx4090, t4"));
}

TEST(DeviceSpecTest, OnlyHardFieldsDecideTheClass) {
  DeviceSpec a = *ModelledDevice("h200");
  DeviceSpec b = a;
  b.driver = "580.1";
  b.power_limit_mw = 700000;
  b.name = "another name";
  EXPECT_EQ(a.ClassHash(), b.ClassHash());
  EXPECT_NE(a.SoftText(), b.SoftText());
  EXPECT_FALSE(DeviceSpec::MismatchedField(a, b).has_value());
  b.sm_count = 114;
  EXPECT_NE(a.ClassHash(), b.ClassHash());
  EXPECT_THAT(DeviceSpec::MismatchedField(a, b),
              testing::Optional(std::string("sm_count 132 != 114")));
}

TEST(DeviceSpecTest, ArchSpecificVariantWhereItExists) {
  DeviceSpec d;
  d.sm_arch = 80;
  EXPECT_EQ(d.NvrtcArch(), "sm_80");
  d.sm_arch = 90;
  EXPECT_EQ(d.NvrtcArch(), "sm_90a");
}

TEST(DeviceSpecTest, RatesOfAMeasuredH200AreNearTheModel) {
  DeviceSpec d = *ModelledDevice("h200");
  d.kind = DeviceKind::kMeasured;
  d.peak_tflops = 0;
  FillModelRates(d);
  EXPECT_NEAR(d.peak_tflops, 883, 120);
}

TEST(Sha256Test, KnownDigest) {
  EXPECT_EQ(Sha256Hex("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace hone
