#include "tuner/worker/wire.h"

#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hone {
namespace {

class WireTest : public testing::Test {
 protected:
  WireTest() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fd_), 0); }
  ~WireTest() override {
    for (const int fd : fd_) {
      if (fd >= 0) close(fd);
    }
  }
  void CloseFirst() {
    close(fd_[0]);
    fd_[0] = -1;
  }

  int fd_[2];
};

TEST_F(WireTest, FramesLongerThanTheSocketHoldsArrive) {
  const std::string long_text(8 << 20, 'x');
  std::thread sender([&] {
    EXPECT_TRUE(SendFrame(fd_[0], long_text, absl::InfiniteFuture()).ok());
    EXPECT_TRUE(SendFrame(fd_[0], "", absl::InfiniteFuture()).ok());
  });
  EXPECT_EQ(*ReceiveFrame(fd_[1], absl::InfiniteFuture()), long_text);
  EXPECT_EQ(*ReceiveFrame(fd_[1], absl::InfiniteFuture()), "");
  sender.join();
}

TEST_F(WireTest, SilenceAndFullSocketsEndAtTheDeadline) {
  const absl::Time start = absl::Now();
  EXPECT_EQ(
      ReceiveFrame(fd_[1], start + absl::Milliseconds(50)).status().code(),
      absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(SendFrame(fd_[0], std::string(8 << 20, 'x'),
                      absl::Now() + absl::Milliseconds(50))
                .code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_LT(absl::Now() - start, absl::Seconds(2));
}

TEST_F(WireTest, AClosedSideIsUnavailable) {
  CloseFirst();
  EXPECT_EQ(ReceiveFrame(fd_[1], absl::InfiniteFuture()).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(SendFrame(fd_[1], "x", absl::InfiniteFuture()).code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(WireTest, AnAbsurdLengthIsDataLoss) {
  ASSERT_EQ(write(fd_[0], "\xff\xff\xff\xff", 4), 4);
  EXPECT_EQ(ReceiveFrame(fd_[1], absl::InfiniteFuture()).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST(WireConversionTest, ValuesComeBack) {
  DeviceSpec device = *ModelledDevice("h200");
  device.kind = DeviceKind::kMeasured;
  device.pci_device_id = 0x2335;
  device.ecc = true;
  device.driver = "580.1";
  device.power_limit_mw = 700000;
  EXPECT_EQ(FromWire(ToWire(device)), device);

  GateResult gate;
  gate.outcome = Outcome::kNotRepeatable;
  gate.gate = GateKind::kDevice;
  gate.detail = "two runs differ";
  gate.error = {1e-3, 0.5};
  const auto gate_back = FromWire(ToWire(gate));
  ASSERT_TRUE(gate_back.ok());
  EXPECT_EQ(gate_back->outcome, gate.outcome);
  EXPECT_EQ(gate_back->gate, gate.gate);
  EXPECT_EQ(gate_back->detail, gate.detail);
  EXPECT_EQ(gate_back->error, gate.error);
  v1::WorkerGateResult unknown = ToWire(gate);
  unknown.set_outcome("splendid");
  EXPECT_EQ(FromWire(unknown).status().code(), absl::StatusCode::kDataLoss);

  RoundResult round;
  round.slowed_down = true;
  round.entries.resize(1);
  round.entries[0].sample = {1234, 1980000, 5};
  const auto round_back = FromWire(ToWire(round), 5);
  ASSERT_TRUE(round_back.ok());
  EXPECT_TRUE(round_back->slowed_down);
  EXPECT_EQ(round_back->entries[0].sample, round.entries[0].sample);
}

}  // namespace
}  // namespace hone
