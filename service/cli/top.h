// What `hone top` shows: the devices of some daemons, their jobs and how those
// go. Pure functions.
#ifndef HONE_SERVICE_CLI_TOP_H_
#define HONE_SERVICE_CLI_TOP_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "hone/v1/tuning_service.pb.h"
#include "service/cli/json.h"
#include "service/cli/terminal_screen.h"

namespace hone {

// What one daemon said.
struct TopNode {
  std::string address;
  // Why there is nothing of it.
  absl::Status status;
  // Empty for a daemon without a device.
  std::vector<v1::Device> devices;
  // Newest first, as ListTunes has them.
  std::vector<v1::Tune> tunes;
};

// At most `ended` jobs that ended for each daemon.
std::vector<ScreenLine> RenderTop(const std::vector<TopNode>& nodes,
                                  absl::Time now, size_t ended = 8);

// {"address":...,"error":...,"devices":[...],"tunes":[...]}.
Json TopNodeJson(const TopNode& node);

}  // namespace hone

#endif  // HONE_SERVICE_CLI_TOP_H_
