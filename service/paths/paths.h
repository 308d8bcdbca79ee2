// Where Hone's files and sockets are unless it is told otherwise.
#ifndef HONE_SERVICE_PATHS_PATHS_H_
#define HONE_SERVICE_PATHS_PATHS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/jit/shared_library.h"

namespace hone {

// honed's address: "unix:$XDG_RUNTIME_DIR/hone/honed.sock", or
// "unix:/tmp/hone-<uid>/honed.sock".
std::string DefaultAddress(EnvLookup env);

// $XDG_STATE_HOME/hone/hone.db, or ~/.local/state/hone/hone.db.
// FailedPrecondition when neither variable is an absolute path.
absl::StatusOr<std::string> DefaultDatabasePath(EnvLookup env);

// Where cubins and tables are cached below DefaultCacheFolder() or another
// folder. Absolute: a relative one counts from the current folder, which the
// processes that share it need not agree about.
std::string CubinFolder(absl::string_view cache_folder);
std::string TableFolder(absl::string_view cache_folder);

// Makes a folder and its parents, itself for this user only (0700).
// FailedPrecondition when it is there and is a link, belongs to another user
// or is open to others.
absl::Status MakePrivateFolder(const std::string& folder);

// The executable of that name beside this process's own. NotFound when there
// is none.
absl::StatusOr<std::string> SiblingExecutable(absl::string_view name);

}  // namespace hone

#endif  // HONE_SERVICE_PATHS_PATHS_H_
