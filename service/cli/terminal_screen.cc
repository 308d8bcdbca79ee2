#include "service/cli/terminal_screen.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace hone {
namespace {

// The other screen with the cursor hidden, and back.
constexpr char kEnter[] = "\033[?1049h\033[?25l";
constexpr char kLeave[] = "\033[?25h\033[?1049l";
// How often a wait looks at `interrupts`.
constexpr int kPollMs = 50;

const char* StartOf(ScreenLine::Style style) {
  switch (style) {
    case ScreenLine::Style::kHead:
      return "\033[1m";
    case ScreenLine::Style::kQuiet:
      return "\033[2m";
    case ScreenLine::Style::kBad:
      return "\033[1;31m";
    case ScreenLine::Style::kPlain:
      break;
  }
  return "";
}

}  // namespace

std::string FitLine(absl::string_view text, size_t width) {
  std::string out;
  size_t characters = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool begins = (byte & 0xc0) != 0x80;
    if (begins && characters++ == width) break;
    out += byte < 0x20 || byte == 0x7f ? '?' : c;
  }
  return out;
}

std::unique_ptr<TerminalScreen> TerminalScreen::Open(int in_fd, int out_fd) {
  termios before{};
  if (tcgetattr(in_fd, &before) != 0) return nullptr;
  termios raw = before;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  raw.c_cc[VSUSP] = _POSIX_VDISABLE;
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  if (tcsetattr(in_fd, TCSANOW, &raw) != 0) return nullptr;
  auto screen = absl::WrapUnique(new TerminalScreen(in_fd, out_fd, before));
  screen->Write(kEnter);
  return screen;
}

TerminalScreen::~TerminalScreen() {
  Write(kLeave);
  // What was typed meanwhile is not for the shell.
  tcsetattr(in_fd_, TCSAFLUSH, &before_);
}

TerminalScreen::Size TerminalScreen::size() const {
  winsize window{};
  Size size;
  if (ioctl(out_fd_, TIOCGWINSZ, &window) == 0 && window.ws_row > 0 &&
      window.ws_col > 0) {
    size = {window.ws_row, window.ws_col};
  }
  return size;
}

void TerminalScreen::Write(absl::string_view text) const {
  while (!text.empty()) {
    const ssize_t n = write(out_fd_, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    // A terminal that went away: the next key read says so.
    if (n <= 0) return;
    text.remove_prefix(static_cast<size_t>(n));
  }
}

void TerminalScreen::Draw(const std::vector<ScreenLine>& lines) {
  const Size window = size();
  size_t shown = std::min(lines.size(), window.rows);
  const bool cut = shown < lines.size();
  if (cut) --shown;
  std::string out = "\033[H";
  const auto add = [&](absl::string_view text, ScreenLine::Style style) {
    if (out.size() > 3) out += "\n";
    absl::StrAppend(&out, StartOf(style), FitLine(text, window.columns),
                    style == ScreenLine::Style::kPlain ? "" : "\033[0m",
                    "\033[K");
  };
  for (size_t i = 0; i < shown; ++i) add(lines[i].text, lines[i].style);
  if (cut) {
    add(absl::StrCat("(", lines.size() - shown,
                     " more lines; make the window higher)"),
        ScreenLine::Style::kQuiet);
  }
  out += "\033[J";
  Write(out);
}

char TerminalScreen::WaitForKey(absl::Duration timeout,
                                const std::atomic<int>& interrupts) {
  const absl::Time end = absl::Now() + timeout;
  const int before = interrupts.load();
  bool open = true;
  while (interrupts.load() == before) {
    const absl::Duration left = end - absl::Now();
    if (left <= absl::ZeroDuration()) break;
    pollfd wait{open ? in_fd_ : -1, POLLIN, 0};
    const int ms = static_cast<int>(
        std::min<int64_t>(kPollMs, 1 + absl::ToInt64Milliseconds(left)));
    if (poll(&wait, 1, ms) <= 0) continue;
    char key = 0;
    if (read(in_fd_, &key, 1) == 1) return key;
    // Hung up: there will be no key, and poll() would not wait.
    open = false;
  }
  return 0;
}

}  // namespace hone
