#include "tuner/measure/cupti_timer.h"

#include <cupti.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "kernels/config/status_macros.h"
#include "kernels/jit/shared_library.h"

namespace hone {
namespace {

#define HONE_CUPTI_FUNCTIONS(X)        \
  X(cuptiSubscribe)                    \
  X(cuptiUnsubscribe)                  \
  X(cuptiEnableCallback)               \
  X(cuptiActivityRegisterCallbacks)    \
  X(cuptiActivityEnable)               \
  X(cuptiActivityDisable)              \
  X(cuptiActivityFlushAll)             \
  X(cuptiActivityGetNextRecord)        \
  X(cuptiActivityGetNumDroppedRecords) \
  X(cuptiGetResultString)

struct CuptiLibrary {
#define HONE_CUPTI_MEMBER(name) decltype(&::name) name = nullptr;
  HONE_CUPTI_FUNCTIONS(HONE_CUPTI_MEMBER)
#undef HONE_CUPTI_MEMBER

  absl::Status Check(CUptiResult result, absl::string_view what) const {
    if (result == CUPTI_SUCCESS) return absl::OkStatus();
    const char* text = nullptr;
    cuptiGetResultString(result, &text);
    return absl::UnavailableError(absl::StrCat(
        what, ": ", text == nullptr ? "unknown CUPTI error" : text, " (",
        static_cast<int>(result), ")",
        result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
            ? "; a profiler holds CUPTI, so only gate-only mode works under it"
            : ""));
  }
};

absl::StatusOr<CuptiLibrary> Load(const LibrarySearch& search) {
  HONE_ASSIGN_OR_RETURN(
      const SharedLibrary library,
      SharedLibrary::Open({.title = "CUPTI",
                           .names = {"libcupti.so.13"},
                           .without = "kernels cannot be timed",
                           .still = "kernels can be compiled and checked"},
                          search));
  CuptiLibrary cupti;
#define HONE_CUPTI_LOAD(name) \
  HONE_RETURN_IF_ERROR(library.Bind(#name, &cupti.name));
  HONE_CUPTI_FUNCTIONS(HONE_CUPTI_LOAD)
#undef HONE_CUPTI_LOAD
  return cupti;
}

constexpr size_t kBufferBytes = size_t{2} << 20;
constexpr int kBuffers = 8;

// CUPTI's buffer callbacks take no user data: the State of the CuptiTimer that
// lives, or null.
std::atomic<void*> g_active{nullptr};

}  // namespace

struct CuptiTimer::State {
  CuptiLibrary cupti;
  CUpti_SubscriberHandle subscriber = nullptr;
  std::atomic<uint32_t> last_launch{0};

  absl::Mutex mutex;
  std::vector<uint8_t*> free_buffers ABSL_GUARDED_BY(mutex);
  absl::flat_hash_map<uint32_t, KernelTime> times ABSL_GUARDED_BY(mutex);
  size_t dropped ABSL_GUARDED_BY(mutex) = 0;
  std::vector<uint8_t*> all_buffers;

  ~State() {
    for (uint8_t* buffer : all_buffers) std::free(buffer);
  }

  void Parse(const uint8_t* buffer, size_t valid) {
    CUpti_Activity* record = nullptr;
    absl::MutexLock lock(&mutex);
    while (cupti.cuptiActivityGetNextRecord(const_cast<uint8_t*>(buffer), valid,
                                            &record) == CUPTI_SUCCESS) {
      if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
      // The leading fields are the same in every version since the fourth.
      const auto* kernel =
          reinterpret_cast<const CUpti_ActivityKernel10*>(record);
      times[kernel->correlationId] = {kernel->start, kernel->end};
    }
    size_t lost = 0;
    if (cupti.cuptiActivityGetNumDroppedRecords(nullptr, 0, &lost) ==
        CUPTI_SUCCESS) {
      dropped += lost;
    }
  }

  static void CUPTIAPI Request(uint8_t** buffer, size_t* size,
                               size_t* max_records) {
    *buffer = nullptr;
    *size = 0;
    *max_records = 0;
    auto* state = static_cast<State*>(g_active.load());
    if (state == nullptr) return;
    absl::MutexLock lock(&state->mutex);
    // No buffer: records are dropped, which Collect() reports.
    if (state->free_buffers.empty()) return;
    *buffer = state->free_buffers.back();
    *size = kBufferBytes;
    state->free_buffers.pop_back();
  }

  static void CUPTIAPI Complete(CUcontext, uint32_t, uint8_t* buffer, size_t,
                                size_t valid) {
    auto* state = static_cast<State*>(g_active.load());
    if (state == nullptr || buffer == nullptr) return;
    if (valid > 0) state->Parse(buffer, valid);
    absl::MutexLock lock(&state->mutex);
    state->free_buffers.push_back(buffer);
  }

  static void CUPTIAPI Launched(void* user, CUpti_CallbackDomain domain,
                                CUpti_CallbackId id, const void* data) {
    if (domain != CUPTI_CB_DOMAIN_DRIVER_API) return;
    const auto* call = static_cast<const CUpti_CallbackData*>(data);
    if (call->callbackSite != CUPTI_API_ENTER) return;
    static_cast<State*>(user)->last_launch.store(call->correlationId);
  }

  // The times of a leading part of `launches`: all of them when complete.
  std::vector<KernelTime> Find(absl::Span<const uint32_t> launches) {
    absl::MutexLock lock(&mutex);
    std::vector<KernelTime> found;
    found.reserve(launches.size());
    for (const uint32_t launch : launches) {
      const auto it = times.find(launch);
      // A record without timestamps is as good as none.
      if (it == times.end() || it->second.start_ns == 0 ||
          it->second.end_ns <= it->second.start_ns) {
        break;
      }
      found.push_back(it->second);
    }
    return found;
  }
};

CuptiTimer::CuptiTimer(std::unique_ptr<State> state)
    : state_(std::move(state)) {}

absl::StatusOr<std::unique_ptr<CuptiTimer>> CuptiTimer::Create(
    const LibrarySearch& search) {
  auto state = std::make_unique<State>();
  HONE_ASSIGN_OR_RETURN(state->cupti, Load(search));
  for (int i = 0; i < kBuffers; ++i) {
    auto* buffer =
        static_cast<uint8_t*>(std::aligned_alloc(4096, kBufferBytes));
    if (buffer == nullptr) {
      return absl::ResourceExhaustedError("no memory for CUPTI's buffers");
    }
    state->all_buffers.push_back(buffer);
    absl::MutexLock lock(&state->mutex);
    state->free_buffers.push_back(buffer);
  }
  void* expected = nullptr;
  if (!g_active.compare_exchange_strong(expected, state.get())) {
    return absl::AlreadyExistsError("one CuptiTimer exists already");
  }
  // From here on the destructor undoes what was done.
  std::unique_ptr<CuptiTimer> timer(new CuptiTimer(std::move(state)));
  State& s = *timer->state_;
  const CuptiLibrary& cupti = s.cupti;
  HONE_RETURN_IF_ERROR(
      cupti.Check(cupti.cuptiSubscribe(&s.subscriber, &State::Launched, &s),
                  "cuptiSubscribe"));
  for (const CUpti_driver_api_trace_cbid id :
       {CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,
        CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz}) {
    HONE_RETURN_IF_ERROR(
        cupti.Check(cupti.cuptiEnableCallback(1, s.subscriber,
                                              CUPTI_CB_DOMAIN_DRIVER_API, id),
                    "cuptiEnableCallback"));
  }
  HONE_RETURN_IF_ERROR(cupti.Check(
      cupti.cuptiActivityRegisterCallbacks(&State::Request, &State::Complete),
      "cuptiActivityRegisterCallbacks"));
  HONE_RETURN_IF_ERROR(cupti.Check(
      cupti.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL),
      "cuptiActivityEnable(CONCURRENT_KERNEL)"));
  return timer;
}

CuptiTimer::~CuptiTimer() {
  const CuptiLibrary& cupti = state_->cupti;
  cupti.cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  cupti.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  if (state_->subscriber != nullptr) {
    cupti.cuptiUnsubscribe(state_->subscriber);
  }
  g_active.store(nullptr);
}

void CuptiTimer::Start() {
  state_->last_launch.store(0);
  absl::MutexLock lock(&state_->mutex);
  state_->times.clear();
  state_->dropped = 0;
}

uint32_t CuptiTimer::LastLaunch() const { return state_->last_launch.load(); }

absl::StatusOr<std::vector<KernelTime>> CuptiTimer::Collect(
    absl::Span<const uint32_t> launches) {
  // A plain flush leaves out buffers with records that CUPTI has not finished
  // yet, although the stream is synchronized; they follow within milliseconds.
  constexpr int kAttempts = 20;
  for (int attempt = 0;; ++attempt) {
    HONE_RETURN_IF_ERROR(state_->cupti.Check(
        state_->cupti.cuptiActivityFlushAll(0), "cuptiActivityFlushAll"));
    std::vector<KernelTime> times = state_->Find(launches);
    if (times.size() == launches.size()) return times;
    if (attempt == kAttempts) {
      absl::MutexLock lock(&state_->mutex);
      return absl::DataLossError(absl::StrCat(
          "CUPTI gave no record of launch ", times.size() + 1, " of ",
          launches.size(), " (", state_->dropped, " records dropped)"));
    }
    absl::SleepFor(absl::Milliseconds(1 + attempt));
  }
}

}  // namespace hone
