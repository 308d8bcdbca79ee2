#include "service/cli/progress.h"

#include <utility>

namespace hone {
namespace {

constexpr absl::Duration kBetweenLines = absl::Seconds(10);

}  // namespace

Progress::Progress(std::ostream& err, bool is_terminal,
                   std::function<absl::Time()> now)
    : is_terminal_(is_terminal), now_(std::move(now)), err_(err) {}

Progress::~Progress() {
  absl::MutexLock lock(&mutex_);
  Clear();
  err_.flush();
}

// Back to the line's start, and erase to its end.
void Progress::Clear() {
  if (line_open_) err_ << "\r\033[K";
  line_open_ = false;
}

void Progress::Update(absl::string_view job, int phase,
                      absl::string_view text) {
  absl::MutexLock lock(&mutex_);
  if (is_terminal_) {
    Clear();
    line_open_ = true;
  } else {
    Printed& printed = printed_[std::string(job)];
    const absl::Time now = now_();
    if (printed.phase == phase && now - printed.at < kBetweenLines) return;
    printed = {phase, now};
  }
  err_ << job << (job.empty() ? "" : ": ") << text
       << (is_terminal_ ? "" : "\n");
  err_.flush();
}

void Progress::Say(absl::string_view line) {
  absl::MutexLock lock(&mutex_);
  Clear();
  err_ << line << "\n";
  err_.flush();
}

}  // namespace hone
