// top against a TuningService with scripted answers, on a terminal of its own.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <thread>

#include "absl/time/clock.h"
#include "service/cli/terminal_screen.h"
#include "service/cli/top.h"
#include "tests/service/cli/command_fixture.h"

namespace hone {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

v1::Tune TuneOf(v1::TuneState state, int64_t n) {
  v1::Tune tune;
  Problem problem;
  problem.layer.n = n;
  problem.layer.k = 512;
  *tune.mutable_problem() = ToProto(problem);
  tune.set_tune_id("id");
  tune.set_state(state);
  const int64_t now = absl::ToUnixSeconds(absl::Now());
  tune.mutable_submitted_at()->set_seconds(now - 90);
  if (state != v1::TUNE_STATE_QUEUED)
    tune.mutable_started_at()->set_seconds(now - 60);
  if (state != v1::TUNE_STATE_QUEUED && state != v1::TUNE_STATE_RUNNING)
    tune.mutable_ended_at()->set_seconds(now - 20);
  return tune;
}

v1::Tune Running() {
  v1::Tune tune = TuneOf(v1::TUNE_STATE_RUNNING, 4096);
  v1::TuneProgress& progress = *tune.mutable_progress();
  progress.set_phase(v1::TUNE_PHASE_RACE);
  progress.set_done(30);
  progress.set_total(90);
  progress.mutable_elapsed()->set_seconds(12);
  progress.mutable_eta()->set_seconds(24);
  progress.set_compiled(28);
  progress.set_failed(2);
  progress.set_trials(340);
  progress.set_reused(20);
  tune.set_callers(1);
  return tune;
}

std::string Text(const std::vector<ScreenLine>& lines) {
  std::string out;
  for (const ScreenLine& line : lines) out += line.text + "\n";
  return out;
}

TEST(RenderTop, SaysWhatRunsWaitsAndEnded) {
  TopNode node;
  node.address = "/run/honed.sock";
  v1::Device device;
  *device.mutable_spec() = ToProto(*ModelledDevice("h200"));
  device.set_can_tune(true);
  node.devices.push_back(device);
  v1::Tune failed = TuneOf(v1::TUNE_STATE_FAILED, 256);
  failed.set_error("the GPU is throttled");
  v1::Tune fresh = TuneOf(v1::TUNE_STATE_SUCCEEDED, 128);
  fresh.set_already_fresh(true);
  v1::Tune audit = TuneOf(v1::TUNE_STATE_SUCCEEDED, 64);
  audit.set_kind(v1::JOB_KIND_AUDIT);
  node.tunes = {TuneOf(v1::TUNE_STATE_QUEUED, 2048),
                TuneOf(v1::TUNE_STATE_QUEUED, 1024),
                Running(),
                failed,
                fresh,
                audit};
  const std::string text = Text(RenderTop({node}, absl::Now()));
  for (const char* part :
       {"/run/honed.sock\n", "MODELLED",
        "race    [##########--------------------]  33 %  30/90, 12 s, ETA 24 s",
        "28 kernels, 2 failed; 340 trials (20 more known before); 1 caller\n",
        "  queued 1   1024x512", "  queued 2   2048x512",
        "  failed     256x512", "the GPU is throttled\n",
        "  fresh      128x512", "  succeeded  audit of 64x512",
        ", 40 s, 0 trials, "}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(text, Not(HasSubstr("cannot tune")));
  EXPECT_THAT(Text(RenderTop({node}, absl::Now(), 1)),
              AllOf(HasSubstr("failed"), Not(HasSubstr("fresh")),
                    HasSubstr("and 2 that ended before")));
}

TEST(RenderTop, SaysWhatHonedStartedItself) {
  TopNode node;
  v1::Tune tune = Running();
  tune.set_idle(true);
  tune.set_callers(0);
  node.tunes = {tune};
  const std::string text = Text(RenderTop({node}, absl::Now()));
  EXPECT_THAT(text, HasSubstr("; while idle"));
  EXPECT_THAT(text, Not(HasSubstr("callers")));
}

TEST(RenderTop, AQuarantineAndADaemonThatIsAwayStandOut) {
  TopNode ill;
  ill.address = "a";
  v1::Device device;
  *device.mutable_spec() = ToProto(*ModelledDevice("h200"));
  device.set_unavailable("device GPU-1 is in quarantine: sentinel");
  ill.devices.push_back(device);
  TopNode away;
  away.address = "b";
  away.status = absl::UnavailableError("no honed answers at b");
  const std::vector<ScreenLine> lines = RenderTop({ill, away}, absl::Now());
  const std::string text = Text(lines);
  EXPECT_THAT(text, HasSubstr("cannot tune"));
  for (const char* part :
       {"in quarantine: sentinel", "no honed answers at b"}) {
    bool bad = false;
    for (const ScreenLine& line : lines) {
      bad = bad || (line.text.find(part) != line.text.npos &&
                    line.style == ScreenLine::Style::kBad);
    }
    EXPECT_TRUE(bad) << part;
  }
  EXPECT_THAT(text, HasSubstr("no job since honed started"));
}

TEST(FitLine, CutsCharactersAndDefusesControls) {
  EXPECT_EQ(FitLine("12.5 µs each", 6), "12.5 µ");
  EXPECT_EQ(FitLine("a\033[2Jb\rc\x7f", 20), "a?[2Jb?c?");
  EXPECT_EQ(FitLine("abc", 3), "abc");
}

// A pseudo-terminal: the test is who sits at it.
class TopTest : public CommandTest {
 protected:
  TopTest() {
    master_ = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    EXPECT_GE(master_, 0);
    EXPECT_EQ(grantpt(master_), 0);
    EXPECT_EQ(unlockpt(master_), 0);
    slave_ = open(ptsname(master_), O_RDWR | O_NOCTTY | O_CLOEXEC);
    EXPECT_GE(slave_, 0);
  }
  ~TopTest() override {
    close(slave_);
    close(master_);
  }

  // Reads what is drawn until it holds `text`.
  bool WaitFor(const std::string& text) {
    const absl::Time end = absl::Now() + absl::Seconds(10);
    while (screen_.find(text) == screen_.npos && absl::Now() < end) {
      pollfd wait{master_, POLLIN, 0};
      if (poll(&wait, 1, 50) <= 0) continue;
      char buffer[4096];
      const ssize_t n = read(master_, buffer, sizeof(buffer));
      if (n > 0) screen_.append(buffer, static_cast<size_t>(n));
    }
    return screen_.find(text) != screen_.npos;
  }
  termios Mode() const {
    termios mode{};
    EXPECT_EQ(tcgetattr(slave_, &mode), 0);
    return mode;
  }

  int master_ = -1;
  int slave_ = -1;
  std::string screen_;
};

TEST_F(TopTest, RefreshesInPlaceUntilQ) {
  const auto service = Start();
  service->SetTunes({Running()});
  const termios before = Mode();
  terminal_ = slave_;
  RunResult run;
  std::thread top([&] { run = Run({"top", "--interval=200ms"}); });
  EXPECT_TRUE(WaitFor("4096x512"));
  EXPECT_EQ(Mode().c_lflag & (ICANON | ECHO), 0u);
  EXPECT_NE(Mode().c_lflag & ISIG, 0u);
  service->SetTunes({TuneOf(v1::TUNE_STATE_QUEUED, 8192)});
  EXPECT_TRUE(WaitFor("8192x512"));
  // The other screen, without a cursor; each frame from the corner.
  EXPECT_EQ(screen_.find("\033[?1049h\033[?25l\033[H"), 0u);
  EXPECT_EQ(write(master_, "xq", 2), 2);
  EXPECT_TRUE(WaitFor("\033[?25h\033[?1049l"));
  top.join();
  EXPECT_EQ(run.code, 0);
  EXPECT_EQ(run.out + run.err, "");
  const termios after = Mode();
  EXPECT_EQ(after.c_lflag, before.c_lflag);
  EXPECT_EQ(after.c_cc[VSUSP], before.c_cc[VSUSP]);
  EXPECT_EQ(after.c_cc[VMIN], before.c_cc[VMIN]);
}

TEST_F(TopTest, CtrlCRestoresTheTerminalAtOnce) {
  const auto service = Start();
  const termios before = Mode();
  terminal_ = slave_;
  RunResult run;
  std::thread top([&] { run = Run({"top", "--interval=1h"}); });
  EXPECT_TRUE(WaitFor("no job"));
  const absl::Time start = absl::Now();
  ++interrupts_;
  EXPECT_TRUE(WaitFor("\033[?1049l"));
  top.join();
  EXPECT_LT(absl::Now() - start, absl::Seconds(2));
  EXPECT_EQ(run.code, 0);
  EXPECT_EQ(Mode().c_lflag, before.c_lflag);
}

TEST_F(TopTest, ADaemonThatComesBackIsSeen) {
  auto service = Start();
  terminal_ = slave_;
  RunResult run;
  std::thread top([&] { run = Run({"top", "--interval=200ms"}); });
  EXPECT_TRUE(WaitFor("no job"));
  service = nullptr;
  EXPECT_TRUE(WaitFor("no honed answers"));
  screen_.clear();
  service = Start();
  EXPECT_TRUE(WaitFor("no job"));
  EXPECT_EQ(write(master_, "q", 1), 1);
  EXPECT_TRUE(WaitFor("\033[?1049l"));
  top.join();
  EXPECT_EQ(run.code, 0);
}

TEST_F(TopTest, AScreenShowsNoMoreThanItsWindowHolds) {
  winsize window{};
  window.ws_row = 3;
  window.ws_col = 10;
  ASSERT_EQ(ioctl(slave_, TIOCSWINSZ, &window), 0);
  {
    const auto screen = TerminalScreen::Open(slave_, slave_);
    ASSERT_NE(screen, nullptr);
    screen->Draw({{"a line that is too long"}, {"2"}, {"3"}, {"4"}});
  }
  EXPECT_TRUE(WaitFor("\033[?1049l"));
  EXPECT_THAT(screen_, HasSubstr("\033[Ha line tha\033[K\r\n2\033[K\r\n\033[2m"
                                 "(2 more li\033[0m\033[K\033[J"));
}

TEST_F(TopTest, NotATerminalIsNoScreen) {
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  EXPECT_EQ(TerminalScreen::Open(null, null), nullptr);
  close(null);
}

TEST_F(TopTest, ASnapshotElsewhere) {
  const auto service = Start();
  service->SetTunes({Running()});
  terminal_ = slave_;
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"top", "--once"}, {"top", "-o", "json"}}) {
    const RunResult run = Run(args);
    EXPECT_EQ(run.code, 0) << run.err;
    EXPECT_THAT(run.out, Not(HasSubstr("\033")));
    EXPECT_THAT(run.out, HasSubstr("H200"));
  }
  EXPECT_EQ(service->lists(), 2);
  const auto json = ParseJson(Run({"top", "--output=json"}).out);
  const auto& daemon =
      json.fields().at("daemons").list_value().values(0).struct_value();
  EXPECT_EQ(daemon.fields().at("address").string_value(), Path("a"));
  EXPECT_EQ(daemon.fields().at("tunes").list_value().values_size(), 1);
  EXPECT_THAT(Run({"top", "--output=jsonl"}).out, HasSubstr("\"devices\": [{"));
}

TEST_F(TopTest, SeveralDaemonsAndOneIsAway) {
  const auto service = Start();
  const RunResult run = Run(
      {"top", "--once", "--address=" + Path("a"), "--address=" + Path("b")});
  EXPECT_EQ(run.code, 3);
  EXPECT_THAT(run.out, AllOf(HasSubstr(Path("a") + "\n"),
                             HasSubstr("no honed answers at " + Path("b"))));
  const RunResult alone = Run({"top", "--once", "--address=" + Path("b")});
  EXPECT_EQ(alone.code, 3);
  EXPECT_EQ(alone.out, "");
  EXPECT_EQ(Run({"top", "--interval=1ms"}).code, 2);
}

}  // namespace
}  // namespace hone
