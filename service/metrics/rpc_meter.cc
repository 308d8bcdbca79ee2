#include "service/metrics/rpc_meter.h"

#include <google/protobuf/descriptor.h>
#include <grpcpp/grpcpp.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace hone {
namespace {

using grpc::experimental::InterceptionHookPoints;

// Of one call. gRPC makes it when the call arrives.
class RpcMeter final : public grpc::experimental::Interceptor {
 public:
  RpcMeter(EventMetrics* metrics, size_t method)
      : metrics_(metrics), method_(method) {}

  void Intercept(
      grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(
            InterceptionHookPoints::PRE_SEND_STATUS)) {
      metrics_->OnRpc(method_, methods->GetSendStatus().error_code(),
                      absl::Now() - start_);
    }
    methods->Proceed();
  }

 private:
  EventMetrics* const metrics_;
  const size_t method_;
  const absl::Time start_ = absl::Now();
};

class RpcMeterFactory final
    : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit RpcMeterFactory(EventMetrics* metrics) : metrics_(metrics) {}

  // gRPC takes ownership.
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override {
    return new RpcMeter(metrics_, metrics_->MethodOf(info->method()));
  }

 private:
  EventMetrics* const metrics_;
};

}  // namespace

std::vector<
    std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
RpcMeters(EventMetrics* metrics) {
  std::vector<
      std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
      meters;
  meters.push_back(std::make_unique<RpcMeterFactory>(metrics));
  return meters;
}

std::vector<std::string> MethodsOf(absl::string_view service) {
  std::vector<std::string> methods;
  const google::protobuf::ServiceDescriptor* descriptor =
      google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(
          std::string(service));
  for (int i = 0; descriptor != nullptr && i < descriptor->method_count();
       ++i) {
    methods.push_back(
        absl::StrCat(service, "/", descriptor->method(i)->name()));
  }
  return methods;
}

}  // namespace hone
