// A terminal that a command draws over and over, with single keys as input.
#ifndef HONE_SERVICE_CLI_TERMINAL_SCREEN_H_
#define HONE_SERVICE_CLI_TERMINAL_SCREEN_H_

#include <termios.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace hone {

// A line of a screen, without its end.
struct ScreenLine {
  enum class Style { kPlain, kHead, kQuiet, kBad };
  std::string text;
  Style style = Style::kPlain;
};

// `text` without what a terminal would take for a command, and cut to `width`
// characters of UTF-8.
std::string FitLine(absl::string_view text, size_t width);

// Not thread-safe.
class TerminalScreen {
 public:
  struct Size {
    size_t rows = 24;
    size_t columns = 80;
  };

  // Shows the terminal's other screen, and reads keys at once and unseen.
  // Ctrl-C still is a signal; Ctrl-Z is nothing. Null when `in_fd` is no
  // terminal. The descriptors must outlive the screen.
  static std::unique_ptr<TerminalScreen> Open(int in_fd, int out_fd);
  // Everything as it was.
  ~TerminalScreen();
  TerminalScreen(const TerminalScreen&) = delete;
  TerminalScreen& operator=(const TerminalScreen&) = delete;

  Size size() const;
  // Replaces what is shown. Lines past the last row are counted, not shown.
  void Draw(const std::vector<ScreenLine>& lines);
  // A key pressed within `timeout`, or 0. Ends early when `interrupts` rises.
  char WaitForKey(absl::Duration timeout, const std::atomic<int>& interrupts);

 private:
  TerminalScreen(int in_fd, int out_fd, const termios& before)
      : in_fd_(in_fd), out_fd_(out_fd), before_(before) {}
  void Write(absl::string_view text) const;

  const int in_fd_;
  const int out_fd_;
  const termios before_;
};

}  // namespace hone

#endif  // HONE_SERVICE_CLI_TERMINAL_SCREEN_H_
