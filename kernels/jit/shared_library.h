// Shared libraries loaded at run time. NVRTC, CUPTI, the driver and NVML are
// never linked, so that every binary starts on a machine that has none of
// them and can say what is missing.
#ifndef HONE_KERNELS_JIT_SHARED_LIBRARY_H_
#define HONE_KERNELS_JIT_SHARED_LIBRARY_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hone {

// getenv's shape: the value, or nullptr. std::getenv in production.
using EnvLookup = absl::FunctionRef<const char*(const char*)>;

// Where libraries are looked for, as a value: only LibrarySearchFromEnvironment
// reads the environment.
struct LibrarySearch {
  // Absolute folders tried before the dynamic loader's own search.
  std::vector<std::string> first;
  // Absolute folders tried after it.
  std::vector<std::string> then;
  // LD_LIBRARY_PATH, to be handed to child processes; empty when unset. (This
  // process's loader read it at start.)
  std::string loader_path;

  friend bool operator==(const LibrarySearch&, const LibrarySearch&) = default;
};

// Reads
//   HONE_CUDA_LIB_DIR  folders, separated by ':', that beat all others; also
//                      as the site-packages folder of NVIDIA's pip wheels
//   CUDA_HOME          the toolkit's folder; /usr/local/cuda is always tried
//   LD_LIBRARY_PATH    handed on
// Relative folders are ignored: the working directory is not trusted.
LibrarySearch LibrarySearchFromEnvironment(EnvLookup env);

// A library and what it is good for, for the error when it is missing.
struct LibraryNeed {
  std::string title;               // "NVRTC"
  std::vector<std::string> names;  // sonames, the preferred one first
  std::string without;             // "kernels cannot be compiled"
  std::string still;               // "lookups, export and import still work"
};

// A loaded library. A plain value: libraries stay loaded for the life of the
// process, because CUDA's do not survive being unloaded.
class SharedLibrary {
 public:
  // Tries each place in order, and there each name. Unavailable when none
  // loads; the message says what was tried, what does not work without the
  // library and what still does.
  static absl::StatusOr<SharedLibrary> Open(const LibraryNeed& need,
                                            const LibrarySearch& search);

  // Sets *function, a function pointer. Unavailable when the library has no
  // such symbol: it is too old or too new.
  template <typename T>
  absl::Status Bind(const char* name, T* function) const {
    const absl::StatusOr<void*> address = Find(name);
    if (!address.ok()) return address.status();
    *function = reinterpret_cast<T>(*address);
    return absl::OkStatus();
  }

  // The file that was loaded.
  const std::string& path() const { return path_; }

 private:
  SharedLibrary(std::string title, void* handle);
  absl::StatusOr<void*> Find(const char* name) const;

  std::string title_;
  void* handle_;
  std::string path_;
};

}  // namespace hone

#endif  // HONE_KERNELS_JIT_SHARED_LIBRARY_H_
