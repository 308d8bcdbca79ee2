// NvmlDevice against a library of the tests' own.
#include <stdlib.h>

#include "gtest/gtest.h"
#include "kernels/launch/nvml_library.h"

namespace hone {
namespace {

TEST(NvmlTest, ReadsTheDeviceOfAUuid) {
  EXPECT_EQ(NvmlDevice::OpenByUuid("GPU-another"), nullptr);
  const auto device = NvmlDevice::OpenByUuid("GPU-fake");
  ASSERT_NE(device, nullptr);
  EXPECT_EQ(device->SmClock(), 1755);
  EXPECT_EQ(device->PowerDraw(), 412345);
  EXPECT_EQ(device->PowerLimit(), 700000);
  EXPECT_EQ(device->Temperature(), 61);
  // What the library lacks is left out.
  EXPECT_FALSE(device->UsedMemory().has_value());
  EXPECT_FALSE(device->Vbios().has_value());
}

TEST(NvmlTest, TellsWhatHoldsTheClocksDown) {
  const auto device = NvmlDevice::OpenByUuid("GPU-fake");
  ASSERT_NE(device, nullptr);
  const struct {
    const char* bits;
    ClockEvents events;
  } cases[] = {
      {"0x1", {}},  // idle
      {"0x4", {.power_cap = true}},
      {"0x8", {.slowdown = true, .hardware = true}},
      {"0x20", {.slowdown = true, .software_thermal = true}},
      {"0x48", {.slowdown = true, .hardware = true, .hardware_thermal = true}},
      {"0x88", {.slowdown = true, .hardware = true, .power_brake = true}},
  };
  for (const auto& c : cases) {
    setenv("HONE_FAKE_NVML_REASONS", c.bits, 1);
    EXPECT_EQ(device->CurrentClockEvents(), c.events) << c.bits;
  }
}

}  // namespace
}  // namespace hone
