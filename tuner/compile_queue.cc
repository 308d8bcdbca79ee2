#include "tuner/compile_queue.h"

#include <algorithm>

namespace hone {

CompileQueue::CompileQueue(CandidateCompiler* compiler, const Problem& problem,
                           const DeviceSpec& device,
                           std::vector<TuningConfig> configs,
                           std::vector<size_t> order)
    : compiler_(compiler),
      problem_(problem),
      device_(device),
      configs_(std::move(configs)),
      waiting_(order.begin(), order.end()) {
  const size_t threads = std::min(
      order.size(), static_cast<size_t>(std::max(1, compiler_->parallelism())));
  for (size_t i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { Work(); });
  }
}

CompileQueue::~CompileQueue() {
  {
    absl::MutexLock lock(&mutex_);
    waiting_.clear();
  }
  for (std::thread& thread : threads_) thread.join();
}

std::optional<CompileQueue::Result> CompileQueue::Next(absl::Duration wait) {
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(this, &CompileQueue::HasResult),
                          wait);
  if (results_.empty()) return std::nullopt;
  Result result = std::move(results_.front());
  results_.pop_front();
  return result;
}

void CompileQueue::Work() {
  while (true) {
    size_t index = 0;
    {
      absl::MutexLock lock(&mutex_);
      if (waiting_.empty()) return;
      index = waiting_.front();
      waiting_.pop_front();
    }
    Result result = {index,
                     compiler_->Compile(problem_, device_, configs_[index])};
    absl::MutexLock lock(&mutex_);
    results_.push_back(std::move(result));
  }
}

}  // namespace hone
