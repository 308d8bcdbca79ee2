// Ids of requests.
#ifndef HONE_SERVICE_CONVERT_UUID_H_
#define HONE_SERVICE_CONVERT_UUID_H_

#include <string>

namespace hone {

// A random UUID.
std::string NewUuid();

}  // namespace hone

#endif  // HONE_SERVICE_CONVERT_UUID_H_
